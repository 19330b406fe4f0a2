import CLinux

/// The valid sockets of the process by descriptor number, each with a reference. The registry's lock guards it. The zero value
/// is empty.
struct SocketTable {
    private var sockets: UnsafeMutablePointer<SocketPointer?>?
    private var capacity = 0

    /// The socket of a number, retained.
    static func object(of number: Int32) -> SocketPointer? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard number >= 0, number < process.pointee.sockets.capacity,
            let socket = process.pointee.sockets.sockets![Int(number)]
        else { return nil }
        socket.retain()
        return socket
    }

    /// Enters a socket with a reference, unless the number has one: then that is returned, retained.
    static func insert(_ socket: SocketPointer, at number: Int32) -> SocketPointer? {
        let index = Int(number)
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        process.pointee.sockets.grow(past: index)
        if let other = process.pointee.sockets.sockets![index] {
            other.retain()
            return other
        }
        socket.retain()
        process.pointee.sockets.sockets![index] = socket
        return nil
    }

    /// Takes a socket out; the table's reference is the caller's. False if it was not in.
    static func remove(_ socket: SocketPointer, at number: Int32) -> Bool {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard number >= 0, number < process.pointee.sockets.capacity,
            process.pointee.sockets.sockets![Int(number)] == socket
        else { return false }
        process.pointee.sockets.sockets![Int(number)] = nil
        return true
    }

    /// In the child of `fork`, where nobody else is.
    static func forEach(_ body: (SocketPointer) -> Void) {
        for number in 0..<process.pointee.sockets.capacity { process.pointee.sockets.sockets![number].map(body) }
    }

    private mutating func grow(past index: Int) {
        guard index >= capacity else { return }
        let larger = nextPowerOfTwo(max(64, index + 1))
        sockets = growArray(sockets, count: larger)
        for place in capacity..<larger { sockets![place] = nil }
        capacity = larger
    }
}
