// SPDX-License-Identifier: MIT
extension RunLoop {
    /// Lets the calling thread's loop and Foundation's loop of the same thread serve each other, from now to the end of the thread.
    ///
    /// Foundation's own classes live on Foundation's loop: `Process`, the notifications of file handles, and what other files of
    /// the program schedule there that still import Foundation. After this call a run of either loop serves the same mode of both:
    ///
    ///     RunLoop.hostsFoundation()
    ///     let timer = Timer.scheduledTimer(withTimeInterval: 0.1, repeats: true) { _ in show() }
    ///     try process.run()
    ///     process.waitUntilExit()              // the timer fires
    ///     RunLoop.current.run(until: later)    // file handles post their notifications
    ///
    /// Streams may be scheduled too, but Foundation on Linux never calls their delegates, whatever loop runs.
    ///
    /// Before this loop waits, and when something is ready for Foundation's, Foundation's makes a pass. While Foundation's
    /// waits, this loop is a `RunLoop.ForeignRun` of it. To this loop a mode counts as empty when it is empty in both; a run of
    /// Foundation's with nothing of its own in the mode ends at once. Where C code runs this loop, by `RLRunInMode`, keep a source of this loop
    /// in the mode: such a run does not look at Foundation's before it begins. A stop of one
    /// loop in a callback of the other ends the current run. `run(mode:before:)` returns after any work of Foundation's that
    /// woke this loop, and Foundation's does after any work of this one. A signal that Foundation's code gives to a source
    /// of this loop needs a `wakeUp()` after it, as one from another thread does.
    ///
    /// A loop has one `RunLoop.ForeignRun` at a time. Where the program has made one, its host serves both loops, but while Foundation's waits in a run
    /// of its own, as in `waitUntilExit()`, nothing of this loop is served: run this loop until `isRunning` is false.
    ///
    /// Another thread that gives Foundation's loop a block, or signals one of its sources, calls `wakeUp()` of this loop after it.
    /// `CFRunLoopWakeUp` and `CFRunLoopStop` do nothing while this loop waits: Foundation ignores them while its own does not sleep.
    /// Timers, descriptors and the main queue need no wake-up. Where the code that calls `CFRunLoopWakeUp` is not yours, as in
    /// `CFSocket` and Foundation's socket ports, run Foundation's loop, which serves this one and hears all wake-ups.
    ///
    /// (S-HOST-1 to S-HOST-10)
    ///
    /// A loop that hosts pays for a pass of Foundation's before each wait, some ten microseconds. In a child of `fork`
    /// it no longer hosts.
    ///
    /// - Parameter modes: the modes. A mode has the same name in both; `RunLoop.Mode.common` stands for those that are
    ///   common in the loop
    ///   that runs.
    /// - Returns: whether the loop hosts Foundation's; false where no descriptors are available, or where this
    ///   Foundation does not wait in an
    ///   epoll set. Then nothing has changed.
    /// - Threads: any, for its own loop. A further call only adds modes.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    @discardableResult
    public static func hostsFoundation(inModes modes: [Mode] = [.common]) -> Bool {
        guard let host = FoundationHost.current(orMake: true) else { return false }
        return host.host(modes)
    }
}
