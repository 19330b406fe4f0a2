// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// The perform-selector family with plain closures (section 21 of the specification); Performer.swift has Foundation's form of it.

/// A closure that waits for its date or its turn, and can be cancelled until then.
///
/// It does not keep the closure, which goes when it was called or is cancelled.
public final class CancellablePerform: Sendable {
    private let target: RequestTarget
    /// The loop of an ordered request; nil: a delayed one, of the thread that made it.
    private let loop: RunLoop?

    fileprivate init(_ target: RequestTarget, on loop: RunLoop? = nil) {
        self.target = target
        self.loop = loop
    }

    /// Cancels the request, in all modes: it never runs, and what it holds is released.
    ///
    /// One that has run, or runs now, is not affected (S-PERF-22).
    ///
    /// - Threads: an ordered request: any. A delayed one: the thread that made it; on others nothing happens (S-PERF-23).
    /// - Foundation: `NSObject.cancelPreviousPerformRequests(withTarget:selector:object:)`.
    public func cancel() {
        if let loop {
            RLCancelPerformInOrder(loop.reference, target.address, nil, nil)
        } else {
            RLCancelPerformAfterDelay(target.address, nil, nil, nil)
        }
    }
}

/// What the C library knows a request by that can be cancelled. The request and who may cancel it keep it, so that no other has its address.
private final class RequestTarget: Sendable {
    var address: UnsafeRawPointer { UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()) }
}

/// What the C library holds of a request, and nobody else; it drops its one reference once.
private final class RequestedClosure: Sendable {
    let block: @Sendable () -> Void
    private let target: RequestTarget?

    init(_ block: @escaping @Sendable () -> Void, target: RequestTarget? = nil) {
        self.block = block
        self.target = target
    }

    var retained: UnsafeMutableRawPointer { Unmanaged.passRetained(self).toOpaque() }
}

private func performRequested(_ info: UnsafeMutableRawPointer?) {
    Unmanaged<RequestedClosure>.fromOpaque(info!).takeUnretainedValue().block()
}

private func releaseRequested(_ info: UnsafeMutableRawPointer?) {
    Unmanaged<RequestedClosure>.fromOpaque(info!).release()
}

// MARK: - On a loop's thread

extension RunLoop {
    /// Queues a closure that is called on the loop's thread, and wakes the loop; optionally waits until it has been called.
    ///
    /// All such closures that a mode permits are called in one pass, in the order of queueing, and count as a handled source
    /// (S-PERF-2, S-PERF-3); one that is queued by another comes in the next pass (S-PERF-12). They cannot be cancelled.
    ///
    /// - Parameters:
    ///   - waits: whether to return only after the call. On the loop's own thread the closure is then called inside this call,
    ///     whatever mode runs (S-PERF-4). Elsewhere the caller's thread is blocked, and its own loop does not run (S-PERF-6).
    ///   - modes: in any of which it may be called; with none it is never called (S-PERF-7).
    ///   - block: the closure.
    /// - Returns: false if it was not called and never will be: no mode, or the loop's thread has ended (S-PERF-11).
    /// - Threads: any.
    /// - Foundation: `NSObject.perform(_:on:with:waitUntilDone:modes:)`; for ``main``: `performSelector(onMainThread:…)`.
    @available(*, noasync, message: "await call(_:) instead of blocking a thread")
    @discardableResult
    public func perform(
        waitUntilDone waits: Bool, inModes modes: [Mode] = [.common], block: @escaping @Sendable () -> Void
    ) -> Bool {
        let closure = RequestedClosure(block).retained
        return withNames(of: modes) { names in
            RLPerformOnLoopInModes(
                reference, names.baseAddress, names.count, performRequested, closure, releaseRequested, waits)
        }
    }

    /// Calls a closure on a new thread, which ends after it; no loop runs there (S-PERF-15).
    ///
    /// - Returns: false if no thread is available; then the closure is not called.
    /// - Threads: any.
    /// - Foundation: `NSObject.performSelector(inBackground:with:)`.
    @discardableResult
    public static func performInBackground(_ block: @escaping @Sendable () -> Void) -> Bool {
        RLPerformInBackground(performRequested, RequestedClosure(block).retained, releaseRequested)
    }
}

// MARK: - After a delay

extension RunLoop {
    /// Sets a timer on the calling thread's loop that calls a closure once.
    ///
    /// A delay of zero or less is due at the next service of timers and never inside this call (S-PERF-17). Requests with the
    /// same delay are called in the order in which they were made (S-PERF-18). Because they are timers, they do not
    /// count as handled sources (S-PERF-19).
    ///
    /// - Parameters:
    ///   - delay: by the `ContinuousClock`.
    ///   - modes: of the calling thread's loop; with none the closure is never called.
    ///   - block: the closure.
    /// - Returns: the request, which need not be kept.
    /// - Threads: acts on the calling thread's loop.
    /// - Foundation: `NSObject.perform(_:with:afterDelay:inModes:)`.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    @discardableResult
    public static func perform(
        afterDelay delay: Duration, inModes modes: [Mode] = [.default],
        block: @escaping @Sendable () -> Void
    ) -> CancellablePerform {
        let target = RequestTarget()
        let closure = RequestedClosure(block, target: target).retained
        withNames(of: modes) { names in
            RLPerformAfterDelayInModes(
                names.baseAddress, names.count, delay.inSeconds, target.address, performRequested, closure, releaseRequested)
        }
        return CancellablePerform(target)
    }
}

// MARK: - In an order

extension RunLoop {
    /// Queues a closure that is called at the start of the loop's next pass in one of the modes, lower orders first (S-PERF-24).
    ///
    /// - Parameters:
    ///   - order: among the requests that are due together; equal ones are called in the order in which they were made.
    ///   - modes: with none the closure is never called.
    ///   - block: what to do; it does not count as a handled source.
    /// - Returns: the request, which need not be kept.
    /// - Threads: any; the loop is woken.
    /// - Foundation: `perform(_:target:argument:order:modes:)`.
    @discardableResult
    public func perform(
        order: Int, inModes modes: [Mode] = [.default], block: @escaping @Sendable () -> Void
    ) -> CancellablePerform {
        let target = RequestTarget()
        let closure = RequestedClosure(block, target: target).retained
        withNames(of: modes) { names in
            RLPerformInOrder(
                reference, names.baseAddress, names.count, order, target.address, performRequested, closure, releaseRequested)
        }
        return CancellablePerform(target, on: self)
    }
}
