// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// A closure on its way to a loop; the C library holds one reference to it and drops it once.
private final class PerformedClosure: Sendable {
    let block: @Sendable () -> Void

    init(_ block: @escaping @Sendable () -> Void) { self.block = block }
}

private func performClosure(_ info: UnsafeMutableRawPointer?) {
    Unmanaged<PerformedClosure>.fromOpaque(info!).takeUnretainedValue().block()
}

private func releaseClosure(_ info: UnsafeMutableRawPointer?) {
    Unmanaged<PerformedClosure>.fromOpaque(info!).release()
}

extension RunLoop {
    /// Queues a closure for the default mode and returns; it is never called inside this call.
    ///
    /// The loop's thread calls it once, in the order of queueing, when it runs that mode. A waiting
    /// loop is not woken (S-BLK-2): call ``wakeUp()`` afterwards. The closure is released right
    /// after it was called, or uncalled when its loop ends (S-LOOP-10).
    ///
    /// - Parameter block: what to perform; it does not count as a handled source.
    /// - Threads: any.
    /// - Foundation: `perform(_:)`. CF: `CFRunLoopPerformBlock`.
    public func perform(_ block: @escaping @Sendable () -> Void) {
        let closure = Unmanaged.passRetained(PerformedClosure(block)).toOpaque()
        RLPerformFunction(reference, kRLDefaultMode, performClosure, closure, releaseClosure)
    }

    /// Queues a closure for several modes: the run of any of them calls it, once in all (S-BLK-5).
    ///
    /// Otherwise like ``perform(_:)``.
    ///
    /// - Parameters:
    ///   - modes: the modes in which it may be called; ``Mode/common`` stands for every mode that is
    ///     common when it runs. With none the closure is never called (S-BLK-13).
    ///   - block: what to perform.
    /// - Threads: any.
    /// - Foundation: `perform(inModes:block:)`. CF: `CFRunLoopPerformBlock`.
    public func perform(inModes modes: [Mode], block: @escaping @Sendable () -> Void) {
        let closure = Unmanaged.passRetained(PerformedClosure(block)).toOpaque()
        withNames(of: modes) { names in
            RLPerformFunctionInModes(
                reference, names.baseAddress, names.count, performClosure, closure, releaseClosure)
        }
    }
}
