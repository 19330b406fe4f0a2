// SPDX-License-Identifier: MIT
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// Descriptors that come through local sockets although nobody wants them.
///
/// The kernel closes those for which a call that receives has no room, those that come with a byte that the call leaves out, and those in the
/// queue of a socket when that is closed, in that call. The last close of a file may wait: of a socket, for as long as its SO_LINGER says, for
/// a peer that reads nothing, of a file that the peer itself serves until that answers. Whoever sends a descriptor may leave the last close to
/// the receiver. So there is room for all, no byte is left out, and the closes are made by other threads (``DescriptorCloser``). What the
/// process has no number for is closed by the kernel all the same.
enum PeerDescriptors {
    /// Enough for 253 descriptors, which a message has at most (unix(7)), and for what options of the socket add.
    private static var room: Int { 2048 }

    /// Whether descriptors come through a socket.
    static func canCome(through descriptor: CInt) -> Bool { option(SO_DOMAIN, of: descriptor) == AF_UNIX }

    /// Has urgent bytes come in their order, as the others do: recvmsg(2) steps over them otherwise and drops what came with them. Called before
    /// the first byte is received.
    static func prepare(_ descriptor: CInt) {
        var yes: CInt = 1
        setsockopt(descriptor, SOL_SOCKET, SO_OOBINLINE, &yes, socklen_t(MemoryLayout<CInt>.size))
    }

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
        // A peer may let a socket linger, or queue others in it, until the moment of its close. A file is not looked at: its file system may wait.
        var sockets: [CInt] = []
        var files: [CInt] = []
        for descriptor in descriptors {
            if SocketCalls.isSocket(descriptor) { sockets.append(descriptor) } else { files.append(descriptor) }
        }
        DescriptorCloser.add(sockets: sockets, files: files)
    }

    /// Closes a local socket, in whose queue such descriptors may be. The number is free at once, and if nothing is in the queue and the socket
    /// has an address, that too.
    static func closeSocket(_ descriptor: CInt) {
        if isAtEnd(descriptor) || isIdleReceiver(descriptor) { return SocketCalls.end(descriptor) }
        let duplicate = SocketCalls.duplicate(descriptor)
        if duplicate >= 0 { SocketCalls.end(descriptor) }
        DescriptorCloser.add(sockets: [duplicate >= 0 ? duplicate : descriptor], files: [])
    }

    /// Whether nothing is in the queue of a stream, and nothing can come: its peer has ended, or it has never had one.
    private static func isAtEnd(_ descriptor: CInt) -> Bool {
        if option(SO_TYPE, of: descriptor) != SocketCalls.stream || option(SO_ACCEPTCONN, of: descriptor) != 0 { return false }
        var byte: UInt8 = 0
        if recv(descriptor, &byte, 1, CInt(MSG_PEEK) | CInt(MSG_DONTWAIT)) == 0 { return true }
        var address = sockaddr()
        var size = socklen_t(MemoryLayout<sockaddr>.size)
        return getpeername(descriptor, &address, &size) != 0 && errno == ENOTCONN
    }

    /// Whether a socket that others reach at its address, which listens or is for datagrams, has nothing in its queue.
    private static func isIdleReceiver(_ descriptor: CInt) -> Bool {
        (option(SO_ACCEPTCONN, of: descriptor) == 1 || option(SO_TYPE, of: descriptor) == SocketCalls.datagram)
            && !SocketCalls.isReadable(descriptor)
    }

    private static func option(_ name: CInt, of descriptor: CInt) -> CInt? {
        var value: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        return getsockopt(descriptor, SOL_SOCKET, name, &value, &size) == 0 ? value : nil
    }
}
