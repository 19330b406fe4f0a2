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

// What a thread is given, before its start or later.

extension Thread {
    /// The name of the thread, of which the system shows the first 15 bytes; nil if it has none. Setting the main thread's name changes
    /// what the system shows for the process.
    public var name: String? {
        get { state.withLock { $0.name } }
        set {
            let old = state.withLock { state in
                let old = state.name
                state.name = newValue
                return old
            }
            _ = old
            // Asked after the change: a thread that begins later finds the new name itself.
            if isExecuting { showName() }
        }
    }

    /// Has the system show the name that the thread has now.
    func showName() {
        typealias SetName = @convention(c) (pthread_t, UnsafePointer<CChar>) -> CInt
        // Not under the lock: this waits for a thread that loads a library, whose constructors may need the lock.
        let setName = systemFunction("pthread_setname_np").map { unsafeBitCast($0, to: SetName.self) }
        let isMain = isMainThread
        state.withLock { state in
            if let number = state.number, !isMain {
                // Of a thread that the class has not started the end may be unknown, where it asked for its object in the last round of its
                // destructors: its handle may be memory that is gone, and its number names nothing.
                Thread.withShown(state.name ?? "") { Thread.show($0, in: "/proc/self/task/\(number)/comm") }
            } else if let handle = state.handle {
                // The thread does not end while the lock is held.
                Thread.withShown(state.name ?? "") { _ = setName?(handle, $0.baseAddress!) }
            } else if isMain {
                // The main thread's name is the process's, which all of its threads may set: see proc(5).
                Thread.withShown(state.name ?? "") { Thread.show($0, in: "/proc/self/comm") }
            }
        }
    }

    /// The part of a name that the system shows, with a NUL.
    private static func withShown(_ name: String, _ body: (UnsafeMutableBufferPointer<CChar>) -> Void) {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 16) { buffer in
            buffer.initialize(repeating: 0)
            for (index, byte) in name.utf8.prefix(15).enumerated() { buffer[index] = CChar(bitPattern: byte) }
            body(buffer)
        }
    }

    private static func show(_ name: UnsafeMutableBufferPointer<CChar>, in path: String) {
        let file = open(path, O_WRONLY | O_CLOEXEC)
        if file < 0 { return }
        _ = write(file, name.baseAddress!, name.count)
        close(file)
    }

    /// The size of the thread's stack in bytes: the one that was set, rounded up to whole pages and to 64 KiB, which a thread of Swift
    /// needs, or the system's own (S-NSTH-7).
    ///
    /// Setting it takes effect before ``start()`` only; 0 means the system's own.
    public var stackSize: Int {
        get {
            let (size, reference, handle) = state.withLock { ($0.stackSize, $0.reference, $0.handle) }
            if let reference { return RLThreadGetStackSize(reference) }
            if let handle, pthread_equal(handle, pthread_self()) != 0, let own = Thread.ownStackSize { return own }
            let likeness = RLThreadCreate(nil, nil, nil)
            defer { RLRelease(RLTypeRef(likeness)) }
            RLThreadSetStackSize(likeness, size)
            return RLThreadGetStackSize(likeness)
        }
        set {
            let newValue = Thread.sufficientStackSize(newValue)
            state.withLock { state in
                if state.phase == .new { state.stackSize = newValue }
            }
        }
    }

    /// On the system's least stack a thread dies in its first functions, which without optimisation need 28 KiB. 0: the system's own.
    static func sufficientStackSize(_ size: Int) -> Int { size <= 0 ? 0 : max(size, 1 << 16) }

    /// That of the calling thread.
    private static var ownStackSize: Int? {
        typealias GetAttributes = @convention(c) (pthread_t, UnsafeMutablePointer<pthread_attr_t>) -> CInt
        var attributes = pthread_attr_t()
        guard let getAttributes = systemFunction("pthread_getattr_np"),
            unsafeBitCast(getAttributes, to: GetAttributes.self)(pthread_self(), &attributes) == 0
        else { return nil }
        defer { pthread_attr_destroy(&attributes) }
        var size = 0
        return pthread_attr_getstacksize(&attributes, &size) == 0 ? size : nil
    }

    /// How the thread shares the processor with others. For a thread that executes it changes at once, where the system permits.
    public var qualityOfService: QualityOfService {
        get { state.withLock { $0.quality } }
        set {
            state.withLock { state in
                state.quality = newValue
                state.priority = nil
                state.niceValue = nil
            }
            _ = change(to: newValue.niceValue)
        }
    }

    /// The priority of the thread from 0 to 1; 0.5 is the default.
    ///
    /// It becomes a nice value: -20 for 1, 19 for 0. The system may refuse a higher priority than the present one; see
    /// ``setThreadPriority(_:)``.
    public var threadPriority: Double {
        get {
            let (priority, quality) = state.withLock { ($0.priority, $0.quality) }
            return priority ?? Thread.priority(of: quality.niceValue)
        }
        set { _ = setPriority(newValue) }
    }

    private func setPriority(_ priority: Double) -> Bool {
        let priority = priority.isNaN ? 0.5 : min(max(priority, 0), 1)
        let nice = CInt(min(max((20 - priority * 40).rounded(), -20), 19))
        state.withLock { state in
            state.priority = priority
            state.niceValue = nice
        }
        return change(to: nice)
    }

    private static func priority(of nice: CInt) -> Double { 0.5 - Double(nice) / 40 }

    /// Whether the system has granted it; true for a thread that is not started.
    private func change(to nice: CInt) -> Bool {
        let (reference, isNew) = state.withLock { ($0.reference, $0.phase == .new) }
        if isNew { return true }
        if let reference { return RLThreadChangePriority(reference, nice) == 0 }
        if !isExecuting { return false }
        let mainNumber = isMainThread ? getpid() : nil
        return state.withLock { state in
            // The thread does not end while the lock is held.
            guard let number = mainNumber ?? state.number else { return false }
            // 0 is PRIO_PROCESS, whose type is not the parameter's in every C library.
            return setpriority(.init(0), id_t(number), nice) == 0
        }
    }

    /// The kernel's number of the calling thread.
    static var ownNumber: pid_t? {
        typealias GetNumber = @convention(c) () -> pid_t
        return systemFunction("gettid").map { unsafeBitCast($0, to: GetNumber.self)() }
    }

    /// The calling thread's priority from 0 to 1, as the system reports it.
    ///
    /// - Foundation: `threadPriority()`.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public class func threadPriority() -> Double { priority(of: RLThreadGetPriority(nil)) }

    /// Sets the calling thread's priority.
    ///
    /// - Parameter priority: from 0 to 1.
    /// - Returns: whether the system has granted it.
    /// - Foundation: `setThreadPriority(_:)`.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    @discardableResult
    public class func setThreadPriority(_ priority: Double) -> Bool { current.setPriority(priority) }

    /// Values that belong to the thread, which live as long as this object.
    ///
    /// They are `Sendable`, because any thread may get them; if two threads change the dictionary at the same time, a
    /// change may be lost.
    public var threadDictionary: ThreadDictionary {
        get { state.withLock { $0.dictionary } }
        set {
            let old = state.withLock { state in
                let old = state.dictionary
                state.dictionary = newValue
                return old
            }
            withExtendedLifetime(old) {}
        }
    }
}
