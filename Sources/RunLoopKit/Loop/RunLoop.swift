// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif
internal import Synchronization

/// The run loop of a thread: it waits for timers, sources and wake-ups, and calls their closures.
///
/// Every thread has exactly one loop. It is made when the thread first asks for ``current`` and ends
/// with the thread. There is one `RunLoop` object for a loop as long as anybody holds it, and for
/// the life of the thread once the thread has asked for it, or the loop was given a timer or a test clock (S-NSRL-1).
///
/// A loop has modes, which are named sets of sources, timers and observers. A run serves one mode
/// and leaves the others alone; what happens to their items meanwhile is kept for them.
///
/// - Threads: all members may be used from any thread, except that a run acts on the calling
///   thread's own loop only; running another thread's loop does nothing and says so.
/// - Foundation: `RunLoop` (`NSRunLoop`). A file written for that imports RunLoopKitFoundation in place of
///   Foundation; one that uses both classes chooses with `import class RunLoopKit.RunLoop`.
/// - CF: `CFRunLoopRef`, which ``getRLRunLoop()`` gives in its `RL` form.
// Sendable: the stored properties are a constant reference to an object of the C library, whose functions
// may be called from any thread (S-THR-1) and which this object keeps alive, and a table with a lock.
public final class RunLoop: @unchecked Sendable {
    /// The loop of the C library. This object owns one reference to it.
    let reference: RLRunLoopRef
    /// The ports that were added through this object.
    let ports = LoopPorts()
    /// The timers that were added through this object.
    let timers = KeptTimers()
    /// Something keeps this object until the thread ends. Relaxed: nothing is read that depends on it.
    let outlivesThread = Atomic(false)
    /// The loop's executor, once somebody has asked for it.
    let knownExecutor = AtomicLazyReference<RunLoopExecutor>()

    /// Takes a reference on the loop. Only the registry calls this, so that a loop has one wrapper.
    init(retaining reference: RLRunLoopRef) {
        self.reference = reference
        _ = RLRetain(RLTypeRef(reference))
    }

    deinit {
        LoopRegistry.forget(self)
        RLRelease(RLTypeRef(reference))
    }

    /// The loop of the calling thread, made if the thread has none yet.
    ///
    /// - Threads: any. An asynchronous function has no thread of its own, so it cannot ask.
    /// - Foundation: `RunLoop.current`. CF: `CFRunLoopGetCurrent`.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public static var current: RunLoop { LoopRegistry.current() }

    /// The loop of the process's initial thread, whichever thread asks first.
    ///
    /// In its common modes it also serves `DispatchQueue.main` and `@MainActor` code, so those modes are never empty: a run
    /// of it ends by ``stop()`` or its time (S-GCD-1, S-GCD-3). Foundation's main loop in the same program serves the same
    /// queue while it runs; neither takes anything away from the other.
    ///
    /// In the child of `fork` it is the loop of the thread that forked (S-FORK-1).
    ///
    /// - Threads: any.
    /// - Foundation: `RunLoop.main`. CF: `CFRunLoopGetMain`.
    public static var main: RunLoop { LoopRegistry.main() }

    /// The loop as the C functions take it, an `RLRunLoopRef`.
    ///
    /// The pointer is valid as long as this object lives. Items that C code adds to it and items added
    /// through this object live in the same modes.
    ///
    /// - Threads: any.
    /// - Foundation: `getCFRunLoop()`.
    public func getRLRunLoop() -> OpaquePointer { reference }

    /// The `RunLoop` object of a loop from C code, an `RLRunLoopRef`.
    ///
    /// - Parameter reference: a live loop of the C library; anything else is a programming error.
    /// - Returns: the one object of that loop.
    /// - Threads: any.
    public static func wrapping(_ reference: OpaquePointer) -> RunLoop {
        LoopRegistry.wrapper(of: reference)
    }
}

// MARK: - The thread

extension RunLoop {
    /// Whether the loop is the calling thread's, the only one a run can act on (S-RUN-1). Asking makes no loop.
    var isOfCallingThread: Bool { RLGetCurrentIfMade() == reference }
}

// MARK: - State

extension RunLoop {
    /// Whether the loop is waiting now: after the ``Activities/beforeWaiting`` observers were called
    /// and before the ``Activities/afterWaiting`` ones are (S-WAKE-10).
    ///
    /// - Threads: any; the answer of another thread's loop may be out of date when it arrives.
    /// - CF: `CFRunLoopIsWaiting`.
    public var isWaiting: Bool { RLIsWaiting(reference) }

    /// Ends the wait of a waiting loop, or the coming wait of a running one (S-WAKE-1, S-WAKE-3).
    ///
    /// It causes no closure to be called other than observers' and does not end the run. A loop that
    /// is not running ignores it (S-WAKE-5). Wake-ups do not add up: several before the wait ends count as one.
    ///
    /// - Threads: any. The C function `RLWakeUp` may even be called by a signal handler.
    /// - CF: `CFRunLoopWakeUp`.
    public func wakeUp() { RLWakeUp(reference) }

    /// Ends the innermost run of the loop after the pass it is in (S-STOP-2).
    ///
    /// That run returns ``RunResult/stopped``. A loop that is not running ignores it. ``run()`` is a
    /// series of runs, and a stop ends only the one it meets (S-NSRL-7): use
    /// ``run(mode:for:returnAfterSourceHandled:)`` for a loop that is to be stopped.
    ///
    /// - Threads: any. The C function `RLStop` may even be called by a signal handler.
    /// - CF: `CFRunLoopStop`.
    public func stop() { RLStop(reference) }

    /// Lets the loop watch for wake-ups for a short time before it sleeps, initially 0.
    ///
    /// A thread that is woken often within a few microseconds then spares both sides a system call,
    /// at the price of processor time. Values above one millisecond count as one millisecond and
    /// negative ones as 0 (S-WAKE-16). It changes no other behaviour.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public func setSpinLimit(_ limit: Duration) { RLSetSpinLimit(reference, limit.inSeconds) }
}

// MARK: - Identity

extension RunLoop: Hashable, CustomStringConvertible {
    /// Two objects are equal when they represent the same loop.
    public static func == (one: RunLoop, other: RunLoop) -> Bool { one.reference == other.reference }

    /// Feeds the identity of the loop to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(reference) }

    /// The C library's description of the loop, for debugging; the form may change.
    public var description: String {
        // Without the library's own modes; the lines of one go on to the next mode or to the end.
        RunLoopExecutor.ownModes.reduce(describe(RLTypeRef(reference))) { text, mode in
            guard let name = text.firstRange(of: "\n    mode \"\(mode.rawValue)\"") else { return text }
            let rest = text[name.upperBound...]
            let ends = ["\n    mode ", "\n    and ", "\n}"].compactMap { rest.firstRange(of: $0)?.lowerBound }
            guard let end = ends.min() else { return text }
            return String(text[..<name.lowerBound]) + text[end...]
        }
    }
}
