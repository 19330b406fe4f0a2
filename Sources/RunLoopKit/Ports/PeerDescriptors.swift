// SPDX-License-Identifier: MIT
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// Descriptors that come through local sockets although nobody wants them.
///
/// The kernel closes those for which a call that receives has no room, and those in the queue of a socket when that is closed, in that call.
/// The last close of a socket may wait, for as long as its SO_LINGER says, for a peer that reads nothing, and whoever sends a descriptor may
/// leave the last close to the receiver. So there is room for all, and each close that may be the last one of such a socket is made by a
/// thread of its own. What the process has no number for is closed by the kernel all the same.
enum PeerDescriptors {
    /// Enough for 253 descriptors, which a message has at most (unix(7)), and for what options of the socket add.
    private static var room: Int { 2048 }

    /// Whether descriptors come through a socket.
    static func canCome(through descriptor: CInt) -> Bool { option(SO_DOMAIN, of: descriptor) == AF_UNIX }

    /// As recv(2), with the error if there is one, and the descriptors, which the caller gives to ``close(_:)``.
    static func receive(
        _ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer, _ flags: CInt
    ) -> (count: Int, error: CInt, descriptors: [CInt]) {
        withUnsafeTemporaryAllocation(byteCount: room, alignment: MemoryLayout<cmsghdr>.alignment) { control in
            var portion = iovec(iov_base: buffer.baseAddress, iov_len: buffer.count)
            return withUnsafeMutablePointer(to: &portion) { portion in
                var header = msghdr()
                header.msg_iov = portion
                header.msg_iovlen = 1
                header.msg_control = control.baseAddress
                header.msg_controllen = numericCast(control.count)
                let count = recvmsg(descriptor, &header, flags | CInt(MSG_CMSG_CLOEXEC))
                let error = errno
                if count < 0 { return (count, error, []) }
                return (count, 0, descriptors(in: UnsafeRawBufferPointer(rebasing: control.prefix(Int(header.msg_controllen)))))
            }
        }
    }

    /// The kernel's headers are a word for the length, with the header, and two numbers; each begins at a multiple of a word (cmsg(3)).
    private static func descriptors(in control: UnsafeRawBufferPointer) -> [CInt] {
        if control.isEmpty { return [] }
        let word = MemoryLayout<Int>.size, number = MemoryLayout<CInt>.size
        let headerLength = word + 2 * number
        var found: [CInt] = []
        var start = 0
        while start + headerLength <= control.count {
            let length = control.load(fromByteOffset: start, as: Int.self)
            if length < headerLength { break }
            let level = control.load(fromByteOffset: start + word, as: CInt.self)
            let type = control.load(fromByteOffset: start + word + number, as: CInt.self)
            // SCM_RIGHTS, and SCM_PIDFD for a socket with SO_PASSPIDFD.
            if level == SOL_SOCKET, type == 1 || type == 4 {
                for offset in stride(from: start + headerLength, to: min(start + length, control.count - number + 1), by: number) {
                    let descriptor = control.load(fromByteOffset: offset, as: CInt.self)
                    if descriptor >= 0 { found.append(descriptor) }
                }
            }
            start += (length + word - 1) / word * word
        }
        return found
    }

    /// Closes descriptors that came, none of which makes the calling thread wait.
    static func close(_ descriptors: [CInt]) {
        if descriptors.isEmpty { return }
        // A peer may let a socket linger, or queue others in it, until the moment of its close.
        let sockets = descriptors.filter(SocketCalls.isSocket)
        for descriptor in descriptors where !sockets.contains(descriptor) { SocketCalls.end(descriptor) }
        if sockets.isEmpty { return }
        let end: @Sendable () -> Void = {
            for descriptor in sockets {
                SocketCalls.switchLingerOff(descriptor)
                SocketCalls.end(descriptor)
            }
        }
        if !RunLoop.performInBackground(end) { end() }
    }

    /// Closes a local socket, in whose queue such descriptors may be. The number is free at once.
    static func closeSocket(_ descriptor: CInt) {
        if isAtEnd(descriptor) { return SocketCalls.end(descriptor) }
        let duplicate = fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
        if duplicate >= 0 { SocketCalls.end(descriptor) }
        let last = duplicate >= 0 ? duplicate : descriptor
        // The thread does not exist in a child that is forked before it has closed the socket.
        let isClosedInChild = Locked(false)
        let number = ForkedChild.atBeginning {
            // Once: in a child of the child the number may be somebody else's.
            let isClosed = isClosedInChild.withLock { isClosed in
                defer { isClosed = true }
                return isClosed
            }
            if !isClosed { closeSocket(last) }
        }
        let end: @Sendable () -> Void = {
            // In this order: a number that is free is somebody else's.
            ForkedChild.forget(number)
            SocketCalls.end(last)
        }
        if !RunLoop.performInBackground(end) { end() }
    }

    /// Whether nothing is in the queue of a socket, and nothing can come. Of other types than streams there may be messages without bytes.
    private static func isAtEnd(_ descriptor: CInt) -> Bool {
        var byte: UInt8 = 0
        return option(SO_TYPE, of: descriptor) == SocketCalls.stream
            && recv(descriptor, &byte, 1, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT)) == 0
    }

    private static func option(_ name: CInt, of descriptor: CInt) -> CInt? {
        var value: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        return getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
    }
}
