// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Names of message ports as files: `DIRECTORY/DIGEST.lock` is locked by the owner of a name for as long as it owns it and
/// contains the name in full, `DIRECTORY/DIGEST.port` is the socket it listens at. The kernel drops the lock with its owner,
/// whatever ends that, so a lock that can be taken has no owner, and what is left under the name is stale (S-MSG-39).
struct MessagePortName {
    /// The name, cut and NUL-terminated, in memory from malloc that begins with `former`.
    var bytes: UnsafeMutablePointer<CChar>
    /// The name that the port had before this one.
    var former: MessagePortName? {
        get { link.pointee.map { MessagePortName(kept: $0) } }
        nonmutating set { link.pointee = newValue?.bytes }
    }
    private var link: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
        UnsafeMutableRawPointer(bytes - MemoryLayout<Int>.size).assumingMemoryBound(to: UnsafeMutablePointer<CChar>?.self)
    }

    private init(kept bytes: UnsafeMutablePointer<CChar>) { self.bytes = bytes }

    /// A copy of a client's name, cut to 128 bytes at the start of a character (S-MSG-5).
    init(_ name: UnsafePointer<CChar>) {
        var length = strlen(name)
        if length > WireHeader.nameLimit {
            length = WireHeader.nameLimit
            // A continuation byte of UTF-8 at the cut belongs to a character that began before it. Bytes that are not UTF-8 have
            // none that begins within four.
            var start = length
            while start > length - 4 && UInt8(bitPattern: name[start]) & 0xc0 == 0x80 { start -= 1 }
            if UInt8(bitPattern: name[start]) & 0xc0 != 0x80 { length = start }
        }
        bytes = makeArray(CChar.self, count: MemoryLayout<Int>.size + length + 1) + MemoryLayout<Int>.size
        strlcpy(bytes, name, length + 1)
        former = nil
    }

    /// Frees one that no port has had.
    func free() { CRunLoopLinux.free(link) }

    /// Frees it and those before it.
    func freeAll() {
        var next = Optional(self)
        while let name = next {
            next = name.former
            name.free()
        }
    }

    /// The name of a port that has had `old` and those before it: of equal text there is one, so that names which take turns need
    /// no memory. Threads may still read each of them (S-MSG-5).
    func succeeding(_ old: MessagePortName?) -> MessagePortName {
        var later = old
        while let name = later {
            guard let earlier = name.former else { break }
            if strcmp(earlier.bytes, bytes) == 0 {
                free()
                name.former = earlier.former
                earlier.former = old
                return earlier
            }
            later = earlier
        }
        former = old
        return self
    }

    /// The file of the name with an ending; nil without a safe directory or room for the path in a socket's address.
    fileprivate func path(_ ending: StaticString, makesDirectory: Bool, _ problem: inout StaticString?) -> TextBuffer? {
        guard var path = RuntimeDirectory.path(makes: makesDirectory, &problem) else { return nil }
        path.append("/")
        appendDigest(&path)
        path.append(ending)
        return path
    }

    /// A number of 128 bits made of the bytes (FNV-1a, Fowler, Noll and Vo). It need not resist attacks: the lock file contains
    /// the name itself.
    private var digest: (high: UInt64, low: UInt64) {
        var high: UInt64 = 0x6c62_272e_07bb_0142
        var low: UInt64 = 0x62b8_2175_6295_c58d
        for index in 0..<strlen(bytes) {
            low ^= UInt64(UInt8(bitPattern: bytes[index]))
            // The prime is 2^88 + 0x13b.
            let product = low.multipliedFullWidth(by: 0x13b)
            high = high &* 0x13b &+ product.high &+ low << 24
            low = product.low
        }
        return (high, low)
    }

    /// What the table finds a port of the name and kind by.
    func key(isRemote: Bool) -> UInt { UInt(digest.low) ^ (isRemote ? 1 : 0) }

    private func appendDigest(_ text: inout TextBuffer) {
        let (high, low) = digest
        for shift in stride(from: 60, through: 0, by: -4) { text.append(UInt(high >> UInt64(shift) & 15), radix: 16) }
        for shift in stride(from: 60, through: 0, by: -4) { text.append(UInt(low >> UInt64(shift) & 15), radix: 16) }
    }
}

/// A name that this process owns: its lock and its listening socket, and where they are. The value of `XDG_RUNTIME_DIR` may
/// change while the name is owned.
struct MessagePortClaim {
    var lock: Int32 = -1
    var listener: Int32 = -1
    /// What the numbers are of. One that names something else by now was closed by the program, and is the program's (S-MSG-52).
    private var lockFile = FileIdentity()
    private var cookie: UInt64 = 0
    /// In memory from malloc; its last four bytes are one ending or the other.
    private var path: UnsafeMutablePointer<CChar>?

    init() {}

    enum Outcome {
        case claimed
        /// A living owner has it.
        case taken
        /// Cannot be taken: what failed, for the log.
        case failed(StaticString)
    }

    /// Takes the name. Descriptors are left open only if it is claimed.
    mutating func take(_ name: MessagePortName) -> Outcome {
        var problem: StaticString?
        guard var text = name.path(".lock", makesDirectory: true, &problem) else { return .failed(problem ?? "no directory") }
        path = text.terminated()
        lock = rl_high_number(rl_lock_file(path!))
        guard lock >= 0 else {
            let outcome = rl_errno() == EWOULDBLOCK ? Outcome.taken : .failed("the lock file cannot be made")
            forget()
            return outcome
        }
        lockFile = FileIdentity(lock)
        let outcome = listen(name)
        if case .claimed = outcome { return outcome }
        release()
        return outcome
    }

    /// The path with an ending, valid until the next call.
    @inline(never)
    private func file(_ ending: StaticString) -> UnsafeMutablePointer<CChar> {
        memcpy(path! + strlen(path!) - 4, ending.utf8Start, 4)
        return path!
    }

    private mutating func listen(_ name: MessagePortName) -> Outcome {
        guard rl_write_file(lock, name.bytes, strlen(name.bytes)) else { return .failed("there is no room for the lock file") }
        listener = rl_high_number(rl_message_socket())
        guard listener >= 0 else { return .failed("no descriptor") }
        cookie = rl_socket_cookie(listener)
        // This process has the lock: a socket that is here belonged to an owner that died.
        unlink(file("port"))
        guard rl_unix_bind(listener, file("port")) == 0, chmod(file("port"), 0o600) == 0, CRunLoopLinux.listen(listener, 4096) == 0 else {
            return .failed("the socket cannot be made")
        }
        return .claimed
    }

    private var hasListener: Bool { listener >= 0 && rl_is_socket(listener, cookie) }

    /// Gives the name back. If the path names another lock file by now, the directory was emptied or replaced, and what is there
    /// belongs to another owner.
    @inline(never)
    mutating func release() {
        if lock >= 0 && rl_is_path_of(lock, file("lock")) {
            unlink(file("port"))
            // A waiting flopen(3bsd) notices that the file it locks is no longer the one of this path.
            unlink(file("lock"))
            if hasListener { rl_close_listener(listener) }
            listener = -1
        }
        forget()
    }

    /// Closes the numbers and leaves the name to other processes that have them open: in the child of `fork`, and after a failure.
    @inline(never)
    mutating func forget() {
        if hasListener { rl_sys_close(listener) }
        lockFile.close(lock)
        CRunLoopLinux.free(path)
        self = MessagePortClaim()
    }
}

extension MessagePortName {
    /// A connection to the owner of the name, or -1 (S-MSG-20).
    func connect() -> Int32 {
        var problem: StaticString?
        guard var lockPath = path(".lock", makesDirectory: false, &problem) else { return -1 }
        defer { lockPath.free() }
        guard isName(inFile: lockPath.terminated()) else { return -1 }
        guard var socketPath = path(".port", makesDirectory: false, &problem) else { return -1 }
        defer { socketPath.free() }
        let connection = rl_high_number(rl_message_socket())
        guard connection >= 0 else { return -1 }
        var user: uid_t = 0
        var owner: pid_t = 0
        guard rl_unix_connect(connection, socketPath.terminated()) == 0, rl_is_own_peer(connection, &user, &owner) else {
            rl_sys_close(connection)
            return -1
        }
        return connection
    }

    /// Whether the lock file is of this name and not of another with the same digest.
    private func isName(inFile path: UnsafePointer<CChar>) -> Bool {
        let file = rl_open_read(path)
        guard file >= 0 else { return false }
        defer { rl_sys_close(file) }
        let capacity = WireHeader.nameLimit + 1
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: capacity) { buffer in
            let length = rl_sys_read(file, buffer.baseAddress!, capacity)
            return length == strlen(bytes) && memcmp(buffer.baseAddress!, bytes, length) == 0
        }
    }
}

/// The directory that only this user's processes can enter.
enum RuntimeDirectory {
    /// `$XDG_RUNTIME_DIR/runloop` or, without such a directory, `/tmp/runloop-UID`; nil if that does not belong to this user alone.
    static func path(makes: Bool, _ problem: inout StaticString?) -> TextBuffer? {
        var path = TextBuffer()
        if let runtime = rl_environment("XDG_RUNTIME_DIR"), runtime[0] == 0x2f, strlen(runtime) <= 48,
            rl_is_own_folder(runtime, 0o022)
        {
            path.append(cString: runtime)
            path.append("/runloop")
        } else {
            path.append("/tmp/runloop-")
            path.append(Int(geteuid()))
        }
        // This process's umask must not lock the user's processes out of it (S-MSG-47).
        if makes && mkdir(path.terminated(), 0o700) == 0 { chmod(path.terminated(), 0o700) }
        if rl_is_own_folder(path.terminated(), 0o077) { return path }
        problem = "the directory for names is missing or not this user's alone"
        path.free()
        return nil
    }
}
