// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// Calls a closure when it was signalled, or when its descriptor became readable.
    ///
    /// A custom source is signalled by ``signal()``; a port source watches a file descriptor. Either
    /// may be in several modes and in several loops; each signal or event is served once.
    ///
    /// A source keeps its closures for as long as it lives, also when it is invalid (S-SRC-11). A
    /// closure that refers to its own source therefore uses the source it is given and does not
    /// capture one.
    ///
    /// - Threads: all members may be used from any thread; `perform` is called on the loop's thread.
    /// - CF: `CFRunLoopSourceRef`, which ``getRLSource()`` gives in its `RL` form.
    // Sendable: the only stored property is a constant reference to an object of the C library, whose
    // functions may be called from any thread (S-THR-1) and which this object keeps alive.
    public final class Source: @unchecked Sendable {
        /// The source of the C library. This object owns one reference to it.
        let reference: RLSourceRef

        /// Makes a custom source that is in no loop yet.
        ///
        /// - Parameters:
        ///   - order: the signalled sources of a pass perform in ascending order, equal ones in the
        ///     order in which they were first signalled (S-SRC-31).
        ///   - name: the initial ``name``.
        ///   - schedule: called after each addition to a mode, on the thread that adds, with the loop
        ///     and the mode. No lock is held. Here a source tells its clients which loop to wake.
        ///   - cancel: called after each removal from a mode, on the thread that removes, invalidates
        ///     or ends, with the loop and the mode.
        ///   - perform: called on the loop's thread, with the source, once for any number of signals
        ///     given before. A signal given inside makes it perform again in the next pass.
        /// - Threads: any.
        /// - CF: `CFRunLoopSourceCreate` with a version 0 context.
        public init(
            order: Int = 0, name: String? = nil,
            schedule: (@Sendable (RunLoop, Mode) -> Void)? = nil,
            cancel: (@Sendable (RunLoop, Mode) -> Void)? = nil,
            perform: @escaping @Sendable (Source) -> Void
        ) {
            let closures = SourceClosures(schedule: schedule, cancel: cancel, perform: perform)
            var context = RLSourceContext()
            context.version = 0
            context.info = Unmanaged.passUnretained(closures).toOpaque()
            context.retain = retainInfo
            context.release = releaseInfo
            if schedule != nil { context.schedule = scheduleSource }
            if cancel != nil { context.cancel = cancelSource }
            context.perform = performSource
            reference = Source.made(RLSourceCreate(order, &context))
            closures.source = reference
            setName(of: RLTypeRef(reference), name)
        }

        /// Makes a port source that watches a descriptor and is in no loop yet.
        ///
        /// The closure is called in each pass that finds the descriptor readable, one source a pass,
        /// until everything was read: the loop itself reads nothing, except that it takes the count of
        /// an eventfd or a timerfd before the call (S-SRC-46, S-SRC-47).
        ///
        /// - Parameters:
        ///   - descriptor: stays the caller's, who removes or invalidates the source before closing
        ///     it. One that cannot be watched never performs (S-SRC-43). Of two sources with the same
        ///     descriptor in one mode the one added last performs (S-SRC-44).
        ///   - name: the initial ``name``.
        ///   - perform: called on the loop's thread with the source.
        /// - Threads: any.
        /// - CF: `CFRunLoopSourceCreate` with a version 1 context.
        public init(descriptor: CInt, name: String? = nil, perform: @escaping @Sendable (Source) -> Void) {
            let closures = SourceClosures(descriptor: descriptor, perform: perform)
            var context = RLSourceContext1()
            context.version = 1
            context.info = Unmanaged.passUnretained(closures).toOpaque()
            context.retain = retainInfo
            context.release = releaseInfo
            context.getPort = { info in SourceClosures.unretained(info!).descriptor }
            context.perform = performSource
            // The C function takes either context and tells them apart by the version they begin with.
            let made = withUnsafeMutablePointer(to: &context) { context in
                RLSourceCreate(0, UnsafeMutableRawPointer(context).assumingMemoryBound(to: RLSourceContext.self))
            }
            reference = Source.made(made)
            closures.source = reference
            setName(of: RLTypeRef(reference), name)
        }

        /// Wraps a source from C code, an `RLSourceRef`, and retains it.
        public init(wrapping reference: OpaquePointer) {
            self.reference = reference
            _ = RLRetain(RLTypeRef(reference))
        }

        /// Takes over a reference that a function of the C library gave.
        init(taking reference: RLSourceRef) { self.reference = reference }

        deinit { RLRelease(RLTypeRef(reference)) }

        /// The source as the C functions take it; valid as long as this object lives.
        public func getRLSource() -> OpaquePointer { reference }

        private static func made(_ reference: RLSourceRef?) -> RLSourceRef {
            guard let reference else { fatalError("RunLoopKit: no memory for a source") }
            return reference
        }
    }
}

extension RunLoop.Source {
    /// Its place among the signalled sources of a pass. CF: `CFRunLoopSourceGetOrder`.
    public var order: Int { RLSourceGetOrder(reference) }

    /// Marks a custom source to perform; it does not make a port source perform (S-SRC-45).
    ///
    /// It wakes no loop (S-SRC-26): call ``RunLoop/wakeUp()`` afterwards, in that order. A source that
    /// is in no loop yet keeps the signal; on an invalid one it has no effect.
    ///
    /// - Threads: any. The C function `RLSourceSignal` may even be called by a signal handler.
    /// - CF: `CFRunLoopSourceSignal`.
    public func signal() { RLSourceSignal(reference) }

    /// Whether it was signalled and has not performed since. CF: `CFRunLoopSourceIsSignalled`.
    public var isSignalled: Bool { RLSourceIsSignalled(reference) }

    /// False after ``invalidate()``. CF: `CFRunLoopSourceIsValid`.
    public var isValid: Bool { RLSourceIsValid(reference) }

    /// Removes it from all modes of all loops permanently; a second call does nothing (S-SRC-9, S-SRC-12).
    ///
    /// A custom source has its `cancel` closure called inside this call, once for each mode it was in.
    /// It may be called inside the source's own closures. From another thread a `perform` that is under
    /// way or about to begin goes on.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopSourceInvalidate`.
    public func invalidate() { RLSourceInvalidate(reference) }
}

extension RunLoop.Source: Hashable, CustomStringConvertible {
    /// Two objects are equal when they represent the same source.
    public static func == (one: RunLoop.Source, other: RunLoop.Source) -> Bool {
        one.reference == other.reference
    }

    /// Feeds the identity of the source to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(reference) }

    /// The C library's description of the source, for debugging; the form may change.
    public var description: String { describe(RLTypeRef(reference)) }
}

/// What the C library's source holds on to. It does not keep the source alive: `source` is a plain
/// reference, written once before anybody else has the source and valid during every call-out.
private final class SourceClosures: ContextInfo {
    let descriptor: CInt
    let schedule: (@Sendable (RunLoop, RunLoop.Mode) -> Void)?
    let cancel: (@Sendable (RunLoop, RunLoop.Mode) -> Void)?
    let perform: @Sendable (RunLoop.Source) -> Void
    var source: RLSourceRef?

    init(
        descriptor: CInt = -1,
        schedule: (@Sendable (RunLoop, RunLoop.Mode) -> Void)? = nil,
        cancel: (@Sendable (RunLoop, RunLoop.Mode) -> Void)? = nil,
        perform: @escaping @Sendable (RunLoop.Source) -> Void
    ) {
        self.descriptor = descriptor
        self.schedule = schedule
        self.cancel = cancel
        self.perform = perform
    }
}

private func scheduleSource(_ info: UnsafeMutableRawPointer?, _ loop: RLRunLoopRef?, _ mode: RLMode?) {
    guard let loop, let mode else { return }
    SourceClosures.unretained(info!).schedule?(RunLoop.wrapping(loop), RunLoop.Mode(String(cString: mode)))
}

private func cancelSource(_ info: UnsafeMutableRawPointer?, _ loop: RLRunLoopRef?, _ mode: RLMode?) {
    guard let loop, let mode else { return }
    SourceClosures.unretained(info!).cancel?(RunLoop.wrapping(loop), RunLoop.Mode(String(cString: mode)))
}

private func performSource(_ info: UnsafeMutableRawPointer?) {
    let closures = SourceClosures.unretained(info!)
    closures.perform(RunLoop.Source(wrapping: closures.source!))
}
