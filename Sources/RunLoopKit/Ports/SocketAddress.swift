// SPDX-License-Identifier: MIT
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// Where a socket port is: what makes two remote ones the same.
struct SocketSignature: Hashable {
    let protocolFamily: Int32
    let socketType: Int32
    let `protocol`: Int32
    /// A `sockaddr` of the family, as the system has it.
    let address: [UInt8]

    /// Whether descriptors come through its sockets.
    var isLocal: Bool { protocolFamily == AF_UNIX }

    /// As it travels: three little-endian numbers and the address.
    var bytes: [UInt8] {
        var bytes: [UInt8] = []
        for number in [protocolFamily, socketType, `protocol`] {
            withUnsafeBytes(of: number.littleEndian) { bytes += $0 }
        }
        return bytes + address
    }

    init(protocolFamily: Int32, socketType: Int32, protocol: Int32, address: [UInt8]) {
        self.protocolFamily = protocolFamily
        self.socketType = socketType
        self.protocol = `protocol`
        self.address = address
    }

    /// Nil if the bytes are none that `bytes` gives.
    init?(bytes: [UInt8]) {
        guard bytes.count > 12, bytes.count <= 12 + MemoryLayout<sockaddr_storage>.size else { return nil }
        let numbers = (0..<3).map { index in
            bytes.withUnsafeBytes { Int32(littleEndian: $0.loadUnaligned(fromByteOffset: index * 4, as: Int32.self)) }
        }
        self.init(
            protocolFamily: numbers[0], socketType: numbers[1], protocol: numbers[2], address: Array(bytes[12...]))
    }

    /// An internet address of the version 4, in host order.
    static func ipv4(_ host: UInt32, port: UInt16) -> [UInt8] {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = host.bigEndian
        return withUnsafeBytes(of: address) { Array($0) }
    }

    /// The same place for those who reach it as `local` reaches them: with its host, if it names none.
    func reached(from local: [UInt8]) -> SocketSignature {
        let size = MemoryLayout<sockaddr_in>.size
        guard protocolFamily == AF_INET, address.count == size, local.count == size,
            address[4..<8].allSatisfy({ $0 == 0 })
        else { return self }
        var address = address
        address.replaceSubrange(4..<8, with: local[4..<8])
        return SocketSignature(
            protocolFamily: protocolFamily, socketType: socketType, protocol: `protocol`, address: address)
    }
}

/// The system calls of the socket ports. Descriptors are close-on-exec and never block.
enum SocketCalls {
    static let stream = Int32(SOCK_STREAM.rawValue)
    static let datagram = Int32(SOCK_DGRAM.rawValue)
    static let tcp = Int32(IPPROTO_TCP)

    /// -1 if there is none to be had.
    static func make(_ signature: SocketSignature) -> CInt {
        let flags = Int32(SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        return socket(signature.protocolFamily, signature.socketType | flags, signature.protocol)
    }

    static func startListening(_ descriptor: CInt, at signature: SocketSignature) -> Bool {
        // Two sockets for datagrams that both say so would have the same address.
        if signature.socketType == datagram { return with(signature.address) { bind(descriptor, $0, $1) } == 0 }
        var yes: CInt = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<CInt>.size))
        return with(signature.address) { bind(descriptor, $0, $1) } == 0 && listen(descriptor, SOMAXCONN) == 0
    }

    /// Whether a bound socket that somebody else has made is of the type, and listens now. It is left as it is if not.
    static func startListening(with descriptor: CInt, _ signature: SocketSignature) -> Bool {
        var type: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0, type == signature.socketType else { return false }
        if type == stream {
            guard listen(descriptor, SOMAXCONN) == 0 else { return false }
        } else if type != datagram {
            return false
        }
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
        return true
    }

    /// Reads the next datagram, whole.
    static func readDatagram(_ descriptor: CInt, isLocal: Bool, into bytes: inout [UInt8]) -> ReadResult {
        // No protocol's datagrams are longer than what the kernel says of this one.
        let length = recv(descriptor, nil, 0, Int32(MSG_PEEK) | Int32(MSG_TRUNC))
        if length < 0 { return result(length, errno, ofNothing: .bytes(0)) }
        var outcome = ReadResult.nothing
        bytes = [UInt8](unsafeUninitializedCapacity: max(length, 1)) { buffer, initialized in
            let (count, error) = receive(descriptor, isLocal: isLocal, into: UnsafeMutableRawBufferPointer(buffer))
            outcome = result(count, error, ofNothing: .bytes(0))
            initialized = max(count, 0)
        }
        return outcome
    }

    static func takeConnection(_ descriptor: CInt) -> CInt {
        acceptWithFlags(descriptor, nil, nil, CInt(SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue))
    }

    /// Whether ``takeConnection(_:)`` has just failed in a way in which it fails again, although connections wait.
    static var cannotTakeConnections: Bool { ![EAGAIN, EINTR, ECONNABORTED].contains(errno) }

    /// Whether the descriptor is connected before the time is over; at least one try is made.
    static func startConnection(_ descriptor: CInt, to address: [UInt8], until limit: ContinuousClock.Instant) -> Bool {
        var pause = 0.001
        while with(address, { connect(descriptor, $0, $1) }) != 0 {
            if errno == EAGAIN {
                // The queue of a local listener is full, for which poll(2) does not wait: tried again, after a while that grows to a fiftieth of a second.
                let left = limit.secondsFromNow
                if left <= 0 { return false }
                usleep(useconds_t(min(pause, left) * 1e6))
                pause = min(pause * 2, 0.02)
                continue
            }
            guard errno == EINPROGRESS || errno == EINTR, wait(descriptor, Int16(POLLOUT), until: limit) else { return false }
            var error: CInt = 0
            var size = socklen_t(MemoryLayout<CInt>.size)
            return getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0
        }
        return true
    }

    /// Whether all of it was written before the time is over; at least one try is made.
    static func write(_ bytes: [UInt8], to descriptor: CInt, until limit: ContinuousClock.Instant) -> Bool {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes {
                send(descriptor, $0.baseAddress! + written, bytes.count - written, Int32(MSG_NOSIGNAL))
            }
            if count > 0 {
                written += count
            } else if errno == EAGAIN {
                if !wait(descriptor, Int16(POLLOUT), until: limit) { return false }
            } else if errno != EINTR {
                return false
            }
        }
        return true
    }

    enum ReadResult {
        case bytes(Int)
        case nothing
        /// What has come stays queued: the kernel has no memory now (S-ARG-13).
        case later
        case over
    }

    /// - Parameter isLocal: whether descriptors may come, which are closed.
    static func read(_ descriptor: CInt, isLocal: Bool, into buffer: UnsafeMutableRawBufferPointer) -> ReadResult {
        let (count, error) = receive(descriptor, isLocal: isLocal, into: buffer)
        return result(count, error, ofNothing: .over)
    }

    /// - Parameter empty: what it is when nothing was read without an error.
    private static func result(_ count: Int, _ error: CInt, ofNothing empty: ReadResult) -> ReadResult {
        if count > 0 { return .bytes(count) }
        if count == 0 { return empty }
        switch error {
        case EAGAIN, EINTR: return .nothing
        case ENOMEM, ENOBUFS: return .later
        default: return .over
        }
    }

    private static func receive(_ descriptor: CInt, isLocal: Bool, into buffer: UnsafeMutableRawBufferPointer) -> (count: Int, error: CInt) {
        if !isLocal { return (recv(descriptor, buffer.baseAddress, buffer.count, 0), errno) }
        let (count, error, descriptors) = PeerDescriptors.receive(descriptor, into: buffer, 0)
        PeerDescriptors.close(descriptors)
        return (count, error)
    }

    /// With a number that a program which closes one twice does not hit (S-FD-18), where the limit allows it; -1 if there is none.
    static func duplicate(_ descriptor: CInt) -> CInt {
        let high = fcntl(descriptor, F_DUPFD_CLOEXEC, 64)
        return high >= 0 ? high : fcntl(descriptor, F_DUPFD_CLOEXEC, 3)
    }

    /// The close of the descriptor, if it is a socket, does not wait until its peer has read.
    static func switchLingerOff(_ descriptor: CInt) {
        var option = linger()
        var size = socklen_t(MemoryLayout<linger>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, &size) == 0, option.l_onoff != 0, option.l_linger > 0 else { return }
        option.l_onoff = 0
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, size)
    }

    static func isSocket(_ descriptor: CInt) -> Bool {
        var type: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        return getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0
    }

    /// Whether something has come that was not read.
    static func isReadable(_ descriptor: CInt) -> Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&entry, 1, 0) > 0
    }

    /// Whether the peer of a stream has ended it with less than so many bytes to read.
    static func isEnding(_ descriptor: CInt, before count: Int) -> Bool {
        var entry = pollfd(fd: descriptor, events: 0x2000, revents: 0)  // POLLRDHUP
        // In this order: nothing comes behind the end.
        guard poll(&entry, 1, 0) > 0 else { return false }
        var queued: CInt = 0
        return ioctl(descriptor, UInt(FIONREAD), &queued) == 0 && queued < count
    }

    static func end(_ descriptor: CInt) { _ = close(descriptor) }

    /// The same for a socket with peers.
    ///
    /// - Parameter isLocal: whether they may have sent descriptors.
    static func end(_ descriptor: CInt, isLocal: Bool) { if isLocal { PeerDescriptors.closeSocket(descriptor) } else { end(descriptor) } }

    /// The address that the descriptor has on this side.
    static func localAddress(_ descriptor: CInt) -> [UInt8] {
        var storage = sockaddr_storage()
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let status = withUnsafeMutableBytes(of: &storage) {
            getsockname(descriptor, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), &size)
        }
        return status == 0 ? withUnsafeBytes(of: storage) { Array($0.prefix(Int(size))) } : []
    }

    /// The address of a host's TCP port, the first of version 4.
    static func resolve(_ host: String, port: UInt16) -> [UInt8]? {
        // C would see the part before it.
        if host.isCutInC { return nil }
        var hints = addrinfo()
        hints.ai_family = AF_INET
        hints.ai_socktype = stream
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(host, "\(port)", &hints, &list) == 0, let first = list else { return nil }
        defer { freeaddrinfo(list) }
        return Array(UnsafeRawBufferPointer(start: first.pointee.ai_addr, count: Int(first.pointee.ai_addrlen)))
    }

    /// False if the time is over first.
    private static func wait(_ descriptor: CInt, _ events: Int16, until limit: ContinuousClock.Instant) -> Bool {
        while true {
            let left = limit.secondsFromNow * 1000
            let milliseconds = CInt(min(max(left.rounded(.up), 0), 86_400_000))
            var entry = pollfd(fd: descriptor, events: events, revents: 0)
            let count = poll(&entry, 1, milliseconds)
            if count > 0 { return true }
            if count < 0 && errno != EINTR { return false }
            if limit <= .now { return false }
        }
    }

    private static func with<Result>(
        _ address: [UInt8], _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        // The bytes may lie anywhere; a sockaddr has to be aligned.
        var storage = sockaddr_storage()
        let count = min(address.count, MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutableBytes(of: &storage) { buffer in
            buffer.copyBytes(from: address.prefix(count))
            return body(buffer.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(count))
        }
    }
}

/// `accept4`, which the headers show to GNU sources alone: no child of another thread gets the descriptor.
@_silgen_name("accept4")
func acceptWithFlags(
    _ descriptor: CInt, _ address: UnsafeMutablePointer<sockaddr>?, _ length: UnsafeMutablePointer<socklen_t>?, _ flags: CInt
) -> CInt
