// SPDX-License-Identifier: MIT
import Glibc

/// A connection to a process that shows its loops (section 46 of Docs/semantics.md). The process may be stopped, stuck, dying, or mean
/// harm: every wait has an end, and every answer a limit.
final class Peer {
    let process: Int
    private let descriptor: Int32
    private static var longestAnswer: Int { 16 << 20 }

    /// nil if there is no such process, or it is another user's.
    init?(path: String) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let connection = socket(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard connection >= 0 else { return nil }
        var limit = timeval(tv_sec: 1, tv_usec: 0)
        setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(connection, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
        var owner = (pid: pid_t(0), uid: uid_t(0), gid: gid_t(0))
        var size = socklen_t(MemoryLayout.size(ofValue: owner))
        guard result == 0, getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &owner, &size) == 0, owner.uid == geteuid() else {
            close(connection)
            return nil
        }
        process = Int(owner.pid)
        descriptor = connection
    }

    deinit { close(descriptor) }

    func send(_ request: String) -> Bool {
        let bytes = Array(request.utf8)
        return Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }

    /// The answer as text, nil if it does not come whole until the instant (`now`).
    func receive(until end: Double) -> String? {
        receiveBytes(until: end, limit: Peer.longestAnswer).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The same as it is, of at most so many bytes and a part.
    func receiveBytes(until end: Double, limit: Int) -> [UInt8]? {
        var text: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65536)
        while text.count < limit {
            var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            let rest = end - now()
            let ready = poll(&entry, 1, Int32(max(rest, 0) * 1000))
            if ready < 0 && errno == EINTR && rest > 0 { continue }
            guard ready > 0 else { return nil }
            let count = recv(descriptor, &part, part.count, Int32(MSG_DONTWAIT))
            guard count > 0 else { return nil }
            text += part[1..<count]
            if part[0] == UInt8(ascii: ".") { return text }
            guard part[0] == UInt8(ascii: "+") else { return nil }
        }
        return nil
    }

    func ask(_ request: String) -> String? { send(request) ? receive(until: now() + 3) : nil }
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
        guard name.hasSuffix(".lock"), content(of: "\(folder)/\(name)").hasPrefix("RunLoop.shared.") else { continue }
        found.append("\(folder)/\(name.dropLast(4))port")
    }
    return found
}

private func content(of path: String) -> String {
    let file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    guard file >= 0 else { return "" }
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 64)
    let count = read(file, &bytes, bytes.count)
    return String(decoding: bytes[..<max(count, 0)], as: UTF8.self)
}
