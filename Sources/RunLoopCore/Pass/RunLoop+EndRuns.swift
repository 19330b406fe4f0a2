// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The end of the runs of a loop whose thread is to end (S-THREAD-4, S-THREAD-5): it is a state of the loop, which stays. So no run needs a
/// stop of its own, wherever it begins: in a callback, in a mode that is new, at the exit of the last run, or after the thread's body.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Stops the runs under way, waits of the library's among them, after their present passes. Each later run ends after one pass, in which it
    /// does not sleep. Loop's thread.
    @inline(never)
    func endRuns() {
        if !isEnding { attend(.ending, true) }
        guard let frame = pointee.frame else { return }
        var outer = frame.pointee.outer
        while let frame = outer {
            frame.pointee.stopRequested = true
            outer = frame.pointee.outer
        }
        stop()
    }

    /// Whether it was called. Loop's thread.
    var isEnding: Bool { pointee.insight.load(ordering: .relaxed) & Insight.ending.rawValue != 0 }

    /// A run begins in that state.
    @inline(never)
    func beginAtEnd(_ frame: RunFramePointer) {
        let innermost = pointee.calls.innermost
        // The run of a wait of the library's, which no callback is between, sleeps: what it waits for comes from elsewhere.
        if frame.pointee.polls || innermost == .modeWait || innermost == .replyWait { return }
        frame.pointee.endsAfterPass = true
        // A program that begins run after run until something happens in another thread leaves the processor to that.
        let performed =
            pointee.counters.functions.load(ordering: .relaxed) &+ pointee.counters.requests.load(ordering: .relaxed)
            &+ pointee.counters.sources.load(ordering: .relaxed) &+ pointee.counters.ports.load(ordering: .relaxed)
            &+ pointee.counters.timers.load(ordering: .relaxed)
        pointee.idleRuns &+= 1
        if performed != pointee.performedAtEnd { pointee.idleRuns = 0 }
        pointee.performedAtEnd = performed
        if pointee.idleRuns > 1000 { _ = rl_sys_poll(nil, 0, 1) }
    }
}
