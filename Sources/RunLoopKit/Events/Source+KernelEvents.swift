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

// Sources for what the kernel tells: signals, the end of processes, changes of files, clocks (`Source+Clocks.swift`); and for events of the
// program's own. The kernel is asked from the initializer on; what happens before a loop has the source is reported then,
// and what happens several times before it is reported counts once (S-KEV-1). Like other sources they keep their closure
// for as long as they live (S-KEV-10).

extension RunLoop.Source {
    /// Makes a source that reports a signal of the process (S-KEV-2).
    ///
    /// While there is a valid one the signal's default action does not happen, and a handler that the program had
    /// installed is called as well (S-KEV-3). The signal is unblocked on the calling thread, as by
    /// ``RunLoop/signals(_:forMode:)``, which asynchronous code uses instead.
    ///
    /// - Parameters:
    ///   - signal: such as `SIGHUP`.
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source and how often the signal arrived since the last report.
    /// - Throws: the system's error; `EINVAL` for a signal that cannot be handled (S-KEV-9).
    /// - Threads: any.
    /// - CF: none. libdispatch: `DispatchSource.makeSignalSource`.
    public convenience init(
        onSignal signal: CInt, options: EventOptions = [], name: String? = nil,
        perform: @escaping @Sendable (RunLoop.Source, Int) -> Void
    ) throws(RunLoop.SystemError) {
        try self.init(
            kernelEvent(.signal, ident: signal, options: options), name: name
        ) { source, event in perform(source, Int(event.data)) }
        unblock(signal)
    }

    /// Makes a source that reports the end of a process, once (S-KEV-4).
    ///
    /// - Parameters:
    ///   - process: its id. Another process that gets the number later is never reported.
    ///   - reaps: whether the library waits for a child, so that the program need not.
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source and how the process ended.
    /// - Throws: the system's error; `ESRCH` if there is no such process.
    /// - Threads: any.
    /// - CF: none. libdispatch: `DispatchSource.makeProcessSource`.
    public convenience init(
        onExitOf process: CInt, reaps: Bool = false, options: EventOptions = [], name: String? = nil,
        perform: @escaping @Sendable (RunLoop.Source, ProcessEnd) -> Void
    ) throws(RunLoop.SystemError) {
        let notes = RLKernelNotes.exit.rawValue | (reaps ? RLKernelNotes.reap.rawValue : 0)
        try self.init(
            kernelEvent(.process, ident: process, options: options, notes: notes), name: name
        ) { source, event in
            let status = CInt(truncatingIfNeeded: event.data)
            let end: ProcessEnd =
                event.fflags & RLKernelNotes.exitStatus.rawValue == 0 ? .unknown
                : status & 0x7F == 0 ? .exited(status >> 8 & 0xFF) : .signalled(status & 0x7F)
            perform(source, end)
        }
    }

    /// Makes a source that reports changes of an open file, whatever its name becomes (S-KEV-13).
    ///
    /// - Parameters:
    ///   - descriptor: of the file; it may be closed once the source is made.
    ///   - changes: which of them to report.
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source and what happened since the last report.
    /// - Throws: the system's error.
    /// - Threads: any.
    /// - CF: none. libdispatch: `DispatchSource.makeFileSystemObjectSource`.
    public convenience init(
        watchingFile descriptor: CInt, for changes: FileChanges, options: EventOptions = [], name: String? = nil,
        perform: @escaping @Sendable (RunLoop.Source, FileChanges) -> Void
    ) throws(RunLoop.SystemError) {
        // A negative number stays one that no descriptor has.
        try self.init(
            kernelEvent(.vnode, ident: descriptor, options: options, notes: changes.rawValue), name: name
        ) { source, event in perform(source, FileChanges(rawValue: event.fflags)) }
    }

    /// Makes a source that reports changes of the file that has a name, also when another file takes its place (S-KEV-14).
    ///
    /// - Parameters:
    ///   - path: that of the file, which may be missing; its directory must exist.
    ///   - changes: which of them to report; ``FileChanges/replaced`` reports another file.
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source and what happened since the last report.
    /// - Throws: the system's error; `ENOENT` if there is no such directory.
    /// - Threads: any.
    /// - CF: none.
    public convenience init(
        watchingPath path: String, for changes: FileChanges, options: EventOptions = [], name: String? = nil,
        perform: @escaping @Sendable (RunLoop.Source, FileChanges) -> Void
    ) throws(RunLoop.SystemError) {
        try self.init(
            kernelEvent(.vnode, options: options, notes: changes.rawValue), path: path, name: name
        ) { source, event in perform(source, FileChanges(rawValue: event.fflags)) }
    }

    /// Makes a source that reports when ``trigger(bits:combining:data:)`` was called (S-KEV-7).
    ///
    /// Unlike ``signal()`` a trigger wakes the loop, and carries bits and a number.
    ///
    /// - Parameters:
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source, the bits that have accumulated since the last report,
    ///     and the number of the last trigger.
    /// - Returns: a source that is in no loop yet.
    /// - Throws: the system's error.
    /// - Threads: any.
    /// - CF: none. libdispatch: `DispatchSource.makeUserDataOrSource` and its like.
    public static func whenTriggered(
        options: EventOptions = [], name: String? = nil,
        perform: @escaping @Sendable (RunLoop.Source, _ bits: UInt32, _ data: Int64) -> Void
    ) throws(RunLoop.SystemError) -> RunLoop.Source {
        try RunLoop.Source(kernelEvent(.user, options: options), name: name) { source, event in
            perform(source, event.fflags & RLKernelNotes.userMask.rawValue, event.data)
        }
    }

    /// Makes a source that waits for triggers report, and wakes its loop; has no effect on other sources (S-KEV-7, S-KEV-12).
    ///
    /// - Parameters:
    ///   - bits: 24 bits of the program's own.
    ///   - combining: what to do with the bits of earlier triggers that were not reported yet.
    ///   - data: passed to the report; that of the last trigger counts.
    /// - Threads: any. The C function `RLKernelEventSourceTrigger` may even be called by a signal handler.
    public func trigger(bits: UInt32 = 0, combining: TriggerCombination = .or, data: Int64 = 0) {
        let flags = RLKernelNotes.trigger.rawValue | combining.note | (bits & RLKernelNotes.userMask.rawValue)
        RLKernelEventSourceTrigger(reference, flags, data)
    }

    /// Makes a source that reports, once, that a thread has ended, even if it has already ended; the thread may also be one that
    /// is not started yet (S-KEV-18).
    ///
    /// - Parameters:
    ///   - thread: the thread, which the source retains.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source.
    /// - Throws: the system's error.
    /// - Threads: any.
    /// - CF: none.
    public convenience init(
        onEndOf thread: RunLoopThread, name: String? = nil, perform: @escaping @Sendable (RunLoop.Source) -> Void
    ) throws(RunLoop.SystemError) {
        try self.init(endOf: thread.reference, name, perform)
    }

    /// Makes a source that reports, once, that a thread has ended, even if it has already ended (S-KEV-18).
    ///
    /// - Parameters:
    ///   - thread: a thread that was started.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source.
    /// - Throws: `ESRCH` for the object of a thread that was not started, or not by its class.
    /// - Threads: any.
    /// - CF: none.
    public convenience init(
        onEndOf thread: Thread, name: String? = nil, perform: @escaping @Sendable (RunLoop.Source) -> Void
    ) throws(RunLoop.SystemError) {
        guard let reference = thread.state.withLock({ $0.reference }) else { throw RunLoop.SystemError(code: ESRCH) }
        // The object has the reference for good.
        defer { withExtendedLifetime(thread) {} }
        try self.init(endOf: reference, name, perform)
    }

    private convenience init(
        endOf thread: RLThreadRef, _ name: String?, _ perform: @escaping @Sendable (RunLoop.Source) -> Void
    ) throws(RunLoop.SystemError) {
        var event = kernelEvent(.thread, options: [], notes: RLKernelNotes.exit.rawValue)
        event.ident = UInt(bitPattern: thread)
        try self.init(event, name: name) { source, _ in perform(source) }
    }

    /// Makes a source that reports that a distributed lock is free (S-DLOCK-12). A report does not take the lock: the
    /// closure tries to lock it.
    ///
    /// - Parameters:
    ///   - lock: the lock, which the source retains.
    ///   - interval: how often to look on file systems that several machines share; each look that finds the lock free is a report, and
    ///     the loop's thread waits for the file server (S-DLOCK-13).
    ///   - options: how to report.
    ///   - name: the initial ``name``.
    ///   - perform: called on the loop's thread with the source.
    /// - Throws: the system's error.
    /// - Threads: any.
    /// - CF: none.
    public convenience init(
        whenFree lock: DistributedLock, checkingEvery interval: Duration = .seconds(1), options: EventOptions = [], name: String? = nil,
        perform: @escaping @Sendable (RunLoop.Source) -> Void
    ) throws(RunLoop.SystemError) {
        var event = kernelEvent(.distributedLock, options: options, data: min(max(interval.inNanoseconds / 1_000_000, 1), 1 << 32))
        event.ident = UInt(bitPattern: lock.reference)
        try self.init(event, name: name) { source, _ in perform(source) }
    }

    /// Enables or disables the reports of a source of kernel events; what happens meanwhile is reported
    /// afterwards (S-KEV-8). It has no effect on other sources.
    ///
    /// - Parameter isEnabled: whether to report.
    /// - Threads: any; a report that is under way is completed.
    public func setReportsEnabled(_ isEnabled: Bool) { RLKernelEventSourceSetEnabled(reference, isEnabled) }

    /// Whether this is a source of kernel events that reports; nil for other sources.
    ///
    /// - Threads: any.
    public var areReportsEnabled: Bool? {
        var event = RLKernelEvent()
        guard RLKernelEventSourceGetEvent(reference, &event) else { return nil }
        return event.flags & EventOptions.disabled.rawValue == 0
    }

    /// Makes a source of any event.
    convenience init(
        _ event: RLKernelEvent, path: String? = nil, name: String?,
        perform: @escaping @Sendable (RunLoop.Source, borrowing RLKernelEvent) -> Void
    ) throws(RunLoop.SystemError) {
        let closure = KernelEventClosure(perform)
        var event = event
        var context = RLKernelEventContext(
            version: 0, info: Unmanaged.passUnretained(closure).toOpaque(), retain: retainInfo, release: releaseInfo,
            copyDescription: nil)
        var error = RunLoop.SystemError(code: 0)
        func make() -> RLSourceRef? {
            let made = RLKernelEventSourceCreate(&event, reportKernelEvent, &context)
            error = .last
            return made
        }
        let made: RLSourceRef?
        if let path {
            if path.isCutInC { throw RunLoop.SystemError(code: RunLoop.SystemError.invalidArgument) }
            made = path.withCString {
                event.path = $0
                return make()
            }
        } else {
            made = make()
        }
        guard let made else { throw error }
        self.init(taking: made)
        setName(of: RLTypeRef(made), name)
    }
}

/// Unblocks a signal on this thread: a program may have been started with it blocked, as worker threads of libdispatch are.
private func unblock(_ signal: CInt) {
    var set = sigset_t()
    sigemptyset(&set)
    sigaddset(&set, signal)
    pthread_sigmask(SIG_UNBLOCK, &set, nil)
}

/// An event to wait for.
func kernelEvent(
    _ filter: RLKernelFilter, ident: CInt = 0, options: RunLoop.Source.EventOptions, notes: UInt32 = 0, data: Int64 = 0
) -> RLKernelEvent {
    RLKernelEvent(
        ident: UInt(bitPattern: Int(ident)), filter: filter, flags: options.rawValue, fflags: notes, data: data, path: nil)
}

/// What the C library's source holds on to.
// Sendable: the only property is constant and Sendable; the base class has none.
private final class KernelEventClosure: ContextInfo, @unchecked Sendable {
    let perform: @Sendable (RunLoop.Source, borrowing RLKernelEvent) -> Void

    init(_ perform: @escaping @Sendable (RunLoop.Source, borrowing RLKernelEvent) -> Void) { self.perform = perform }
}

private func reportKernelEvent(
    _ reference: RLSourceRef?, _ event: UnsafePointer<RLKernelEvent>, _ info: UnsafeMutableRawPointer?
) {
    KernelEventClosure.unretained(info!).perform(RunLoop.Source(wrapping: reference!), event.pointee)
}
