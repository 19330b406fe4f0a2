// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// The valid sockets of the process by descriptor number, each with a reference. The registry's lock guards it.
enum SocketTable {
    private static var sockets: UnsafeMutablePointer<NumberTable<SocketPointer?>> {
        rl_sockets().assumingMemoryBound(to: NumberTable<SocketPointer?>.self)
    }

    /// The socket of a number, retained.
    static func object(of number: Int32) -> SocketPointer? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let socket = sockets.pointee.find(Int(number))?.pointee else { return nil }
        socket.retain()
        return socket
    }

    /// Enters a socket with a reference, unless the number has one: then that is returned, retained.
    static func insert(_ socket: SocketPointer, at number: Int32) -> SocketPointer? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        sockets.pointee.make(Int(number))
        let place = sockets.pointee[Int(number)]
        (place.pointee ?? socket).retain()
        if let other = place.pointee { return other }
        place.pointee = socket
        return nil
    }

    /// Takes a socket out; the table's reference is the caller's, which holds the lock. False if it was not in.
    static func removeLocked(_ socket: SocketPointer, at number: Int32) -> Bool {
        guard let place = sockets.pointee.find(Int(number)), place.pointee == socket else { return false }
        place.pointee = nil
        return true
    }

    /// In the child of `fork`, where there is no other thread.
    static func forEach(_ body: (SocketPointer) -> Void) {
        var number = -1
        while sockets.pointee.advance(&number) { sockets.pointee[number].pointee.map(body) }
    }
}
