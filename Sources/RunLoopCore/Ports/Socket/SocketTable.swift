import CLinux

/// The valid sockets of the process by descriptor number, each with a reference. The registry's lock guards it. The zero value
/// is empty.
struct SocketTable {
    private var sockets: NumberTable<SocketPointer?>

    /// The socket of a number, retained.
    static func object(of number: Int32) -> SocketPointer? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let socket = process.pointee.sockets.sockets.find(Int(number))?.pointee else { return nil }
        socket.retain()
        return socket
    }

    /// Enters a socket with a reference, unless the number has one: then that is returned, retained.
    static func insert(_ socket: SocketPointer, at number: Int32) -> SocketPointer? {
        let index = Int(number)
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        process.pointee.sockets.sockets.make(index)
        let place = process.pointee.sockets.sockets[index]
        if let other = place.pointee {
            other.retain()
            return other
        }
        socket.retain()
        place.pointee = socket
        return nil
    }

    /// Takes a socket out; the table's reference is the caller's, who holds the lock. False if it was not in.
    static func removeLocked(_ socket: SocketPointer, at number: Int32) -> Bool {
        guard let place = process.pointee.sockets.sockets.find(Int(number)), place.pointee == socket else { return false }
        place.pointee = nil
        return true
    }

    /// In the child of `fork`, where nobody else is.
    static func forEach(_ body: (SocketPointer) -> Void) {
        var number = -1
        while process.pointee.sockets.sockets.advance(&number) { process.pointee.sockets.sockets[number].pointee.map(body) }
    }
}
