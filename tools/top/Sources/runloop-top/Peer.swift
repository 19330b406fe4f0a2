// SPDX-License-Identifier: MIT
import CPeer
import Glibc

/// A connection to a process that shows its loops (section 46 of Docs/semantics.md). The process may be stopped, stuck, dying, or mean
/// harm: every wait has an end, and every answer a limit.
final class Peer {
    let process: Int
    /// What it may cost is counted by this: the process, or of processes of another namespace, which have no number here, each connection by itself.
    let account: Int
    private let connection: OpaquePointer
    private var answer: OpaquePointer?
    /// An answer did not come whole: the rest of it would come in the place of the next.
    private var isLost = false
    /// Of bytes, and a part.
    static var longestAnswer: Int { 16 << 20 }

    /// Whether the process makes so many threads wait that no more of its sockets should be asked.
    var isStuck: Bool { peer_connections_kept(Int32(truncatingIfNeeded: account)) >= 64 }

    /// What comes of a try to connect, which waits for nothing.
    enum Attempt {
        case made(Peer)
        /// As many connections wait to be accepted as may: the process is stopped, busy, or gets no processor.
        case noRoom
        /// There is no such process, or it is another user's.
        case nothing
    }

    static func connect(to path: String) -> Attempt {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return .nothing }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        // Nor does a request wait for a process that reads none.
        let flags = Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue) | flags, 0)
        guard descriptor >= 0 else { return .nothing }
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
        // unix(7) has no connection under way: EAGAIN says that nothing was begun.
        let isFull = result != 0 && errno == EAGAIN
        var owner = (pid: pid_t(0), uid: uid_t.max, gid: gid_t.max)
        var size = socklen_t(MemoryLayout.size(ofValue: owner))
        getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &owner, &size)
        let account = owner.pid > 0 ? owner.pid : -1 - descriptor
        guard result == 0, let connection = peer_connection_make(descriptor, account) else {
            close(descriptor)
            return isFull ? .noRoom : .nothing
        }
        guard owner.uid == geteuid() else {
            peer_connection_release(connection)
            return .nothing
        }
        return .made(Peer(process: Int(owner.pid), account: Int(account), connection: connection))
    }

    /// Tries sockets that had no room again, all of them until one instant, and hands over what is made, each at once.
    static func connectAgain(to paths: [String], until end: Double, _ take: (String, Peer) -> Void) {
        var full = paths
        var pause = 0.002
        while !full.isEmpty, case let rest = end - now(), rest > 0 {
            usleep(useconds_t(min(pause, rest) * 1e6))
            pause = min(pause * 2, 0.05)
            full = full.filter { path in
                let attempt = connect(to: path)
                if case .made(let peer) = attempt { take(path, peer) }
                if case .noRoom = attempt { return true }
                return false
            }
        }
    }

    private init(process: Int, account: Int, connection: OpaquePointer) {
        self.process = process
        self.account = account
        self.connection = connection
    }

    deinit {
        if let answer { finish(answer) }
        peer_connection_release(connection)
    }

    /// Asks, and begins to receive the answer, of at most so many bytes and a part, until the instant (`now`).
    func ask(_ request: String, until end: Double, limit: Int = longestAnswer) -> Bool {
        guard !isLost, answer == nil else { return false }
        let bytes = Array(request.utf8)
        guard send(peer_connection_descriptor(connection), bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else { return false }
        answer = peer_answer_begin(connection, end, limit)
        isLost = answer == nil
        return !isLost
    }

    /// The answer, nil if it does not come whole in time; then there is no other.
    func receive() -> [UInt8]? {
        guard let answer else { return nil }
        self.answer = nil
        let bytes = finish(answer)
        isLost = bytes == nil
        return bytes
    }

    @discardableResult
    private func finish(_ answer: OpaquePointer) -> [UInt8]? {
        var count = 0
        guard let bytes = peer_answer_finish(answer, &count) else { return nil }
        defer { free(bytes) }
        return Array(UnsafeRawBufferPointer(start: bytes, count: count))
    }
}

/// Seconds of the monotonic clock.
func now() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// The paths of the sockets of all processes of the user that show their loops, some of which may be dead.
func sharedSockets() -> [String] {
    var folders = ["/tmp/runloop-\(geteuid())"]
    if let runtime = getenv("XDG_RUNTIME_DIR") { folders.insert(String(cString: runtime) + "/runloop", at: 0) }
    return folders.flatMap { sockets(in: $0) }
}

private func sockets(in folder: String) -> [String] {
    var status = stat()
    guard lstat(folder, &status) == 0, status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid(), status.st_mode & 0o077 == 0,
        let entries = opendir(folder)
    else { return [] }
    defer { closedir(entries) }
    var found: [String] = []
    while let entry = readdir(entries) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) { String(cString: UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self)) }
        // The library's names are ASCII; others would be slow to compare.
        guard name.utf8.allSatisfy({ $0 < 0x80 }), name.hasSuffix(".lock"), content(of: "\(folder)/\(name)").starts(with: "RunLoop.shared.".utf8)
        else { continue }
        found.append("\(folder)/\(name.dropLast(4))port")
    }
    return found
}

private func content(of path: String) -> [UInt8] {
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard file >= 0 else { return [] }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = read(file, &bytes, bytes.count)
    return Array(bytes[..<max(count, 0)])
}
