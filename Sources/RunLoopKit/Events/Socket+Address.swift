// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

extension RunLoop.Socket {
    /// The address of a socket: a `sockaddr` of its family, in the system's form.
    public struct Address: Hashable, Sendable {
        /// The `sockaddr`.
        public let bytes: [UInt8]

        /// An address in the system's form.
        ///
        /// - Parameter bytes: a `sockaddr`, which begins with its family.
        /// - Returns: nil if there are too few bytes for a family, or more than any address has.
        public init?(bytes: some Sequence<UInt8>) {
            let bytes = Array(bytes)
            guard bytes.count >= MemoryLayout<sa_family_t>.size, bytes.count <= MemoryLayout<sockaddr_storage>.size else {
                return nil
            }
            self.bytes = bytes
        }

        private init<Content>(_ content: Content, count: Int = MemoryLayout<Content>.size) {
            bytes = withUnsafeBytes(of: content) { Array($0.prefix(count)) }
        }

        /// Nil if there is nothing in it.
        init?(_ data: RLDataRef?) { self.init(bytes: RunLoopKit.bytes(of: data)) }

        /// Releases the data.
        init?(taking data: RLDataRef?) {
            defer { RLRelease(data.map { RLTypeRef($0) }) }
            self.init(data)
        }

        /// An address without a family, for a peer that has none.
        static var unknown: Address { Address(sa_family_t(AF_UNSPEC)) }

        /// An internet address of version 4.
        ///
        /// - Parameters:
        ///   - host: in numbers, such as "127.0.0.1"; nil for all addresses of the machine. Names are not looked up.
        ///   - port: the number of the port, 0 for one that the system chooses.
        /// - Returns: nil if the host is not such an address.
        public static func ipv4(_ host: String?, port: UInt16) -> Address? {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            if let host, host.isCutInC || inet_pton(AF_INET, host, &address.sin_addr) != 1 { return nil }
            return Address(address)
        }

        /// An internet address of version 6.
        ///
        /// - Parameters:
        ///   - host: in numbers, such as "::1"; nil for all addresses of the machine. Names are not looked up.
        ///   - port: the number of the port, 0 for one that the system chooses.
        ///   - scope: the number of the interface, for addresses that are local to a link.
        /// - Returns: nil if the host is not such an address.
        public static func ipv6(_ host: String?, port: UInt16, scope: UInt32 = 0) -> Address? {
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            address.sin6_scope_id = scope
            if let host, host.isCutInC || inet_pton(AF_INET6, host, &address.sin6_addr) != 1 { return nil }
            return Address(address)
        }

        /// A name in the file system.
        ///
        /// - Parameter path: the program has to remove the file that a listening socket makes there.
        /// - Returns: nil if it is empty, too long for an address (108 bytes with its end), or has a zero in it.
        public static func unix(_ path: String) -> Address? { unix(Array(path.utf8), isAbstract: false) }

        /// A name in Linux's abstract namespace for local sockets, which is in no file system and disappears with the socket.
        ///
        /// - Parameter name: any bytes.
        /// - Returns: nil if it is too long for an address.
        public static func abstract(_ name: String) -> Address? { unix(Array(name.utf8), isAbstract: true) }

        private static func unix(_ name: [UInt8], isAbstract: Bool) -> Address? {
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let start = MemoryLayout<sockaddr_un>.offset(of: \.sun_path)!
            let room = MemoryLayout<sockaddr_un>.size - start
            guard name.count < room, isAbstract || !(name.isEmpty || name.contains(0)) else { return nil }
            withUnsafeMutableBytes(of: &address) { buffer in
                // An abstract name begins with a zero; a path ends with one.
                buffer[(start + (isAbstract ? 1 : 0))...].copyBytes(from: name)
            }
            return Address(address, count: start + name.count + 1)
        }

        /// The family, such as `AF_INET`.
        public var family: CInt { CInt(bytes.withUnsafeBytes { $0.loadUnaligned(as: sa_family_t.self) }) }

        /// The number of the port; nil if the family has none.
        public var port: UInt16? {
            if let address = content(sockaddr_in.self, AF_INET) { return UInt16(bigEndian: address.sin_port) }
            if let address = content(sockaddr_in6.self, AF_INET6) { return UInt16(bigEndian: address.sin6_port) }
            return nil
        }

        /// The host in numbers; nil if the family has none.
        public var host: String? {
            if var address = content(sockaddr_in.self, AF_INET) { return Address.text(AF_INET, &address.sin_addr) }
            if var address = content(sockaddr_in6.self, AF_INET6) { return Address.text(AF_INET6, &address.sin6_addr) }
            return nil
        }

        /// The path of a local socket; nil if it has none.
        public var path: String? {
            guard family == AF_UNIX else { return nil }
            let name = bytes.dropFirst(MemoryLayout<sockaddr_un>.offset(of: \.sun_path)!).prefix { $0 != 0 }
            return name.isEmpty ? nil : String(decoding: name, as: UTF8.self)
        }

        private func content<Content>(_: Content.Type, _ family: CInt) -> Content? {
            guard self.family == family, bytes.count >= MemoryLayout<Content>.size else { return nil }
            return bytes.withUnsafeBytes { $0.loadUnaligned(as: Content.self) }
        }

        private static func text(_ family: CInt, _ address: UnsafeRawPointer) -> String? {
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { buffer in
                inet_ntop(family, address, buffer.baseAddress!, socklen_t(buffer.count)).map { String(cString: $0) }
            }
        }
    }
}

extension RunLoop.Socket.Address: CustomStringConvertible {
    /// Host and port, or the path.
    public var description: String {
        if let host, let port { return family == AF_INET6 ? "[\(host)]:\(port)" : "\(host):\(port)" }
        return path ?? "address of family \(family)"
    }
}
