// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// How a thread is ended, and how others wait for its end: `cancel`, `end` and `join`.
///
/// Both `end` and, for a thread without a body, `cancel` queue a *marker* in the thread's loop. It is performed in whatever mode the loop runs,
/// behind the requests of that mode. What such a run leaves of what was queued before `end` is performed last (`drain`).
extension UnsafeMutablePointer where Pointee == Thread {
    /// Queues the marker: a request that stops the loop's runs. (A stop alone is not kept between two runs.)
    @inline(never)
    func queueStop() {
        guard let loop = pointee.loop.load(ordering: .sequentiallyConsistent), !isVanished else { return }
        retain()
        let post = Post(
            perform: { $0!.assumingMemoryBound(to: Thread.self).stopRuns() },
            release: { $0!.assumingMemoryBound(to: Thread.self).release() }, info: UnsafeMutableRawPointer(self),
            modes: PostModes(mode: nil))
        loop.performMarker(post)
    }

    /// Called on the thread when the marker's turn has come.
    private func stopRuns() {
        // Before the run returns: `end` may not have done that yet.
        pointee.flags.bitwiseOr(ThreadFlags.cancelled, ordering: .sequentiallyConsistent)
        let loop = RunLoop.current()
        // A stop ends the innermost run; the outer ones get markers of their own.
        guard let outer = loop.pointee.frame?.pointee.outer else { return loop.stop() }
        var condition: ConditionPointer?
        let isWait =
            loop.pointee.calls.contains(ModeWait.self) {
                let isThis = $0.pointee.waiter.pointee.outerFrame == outer
                if isThis { condition = $0.pointee.waiter.pointee.condition }
                return isThis
            }
            || loop.pointee.calls.contains(ReplyWait.self) { $0.pointee.waiter.pointee.outerFrame == outer }
        // A stop that came with each wait for a condition would not let the thread wait at all.
        if condition == nil || condition != loop.pointee.stoppedCondition { loop.stop() }
        if !isWait { return queueStop() }
        loop.pointee.stoppedCondition = condition
        // A wait of the library's runs the loop again, and would perform its next marker at once, and so on: the runs around it are stopped
        // without, and the marker for what else runs in the callback follows the wait.
        var next: RunFramePointer? = outer
        while let frame = next {
            frame.pointee.stopRequested = true
            next = frame.pointee.outer
        }
        loop.pointee.afterWait = { ThreadPointer.current?.queueStop() }
    }

    /// `RLThreadCancel`.
    func cancel() {
        let old = pointee.flags.bitwiseOr(ThreadFlags.cancelled, ordering: .sequentiallyConsistent).oldValue
        guard let loop = pointee.loop.load(ordering: .sequentiallyConsistent), old & ThreadFlags.cancelled == 0 else { return }
        if pointee.body == nil { queueStop() } else { loop.wakeUp() }
    }

    /// `RLThreadEnd`.
    func end() -> Bool {
        waitForStart()
        // Without a loop there is no queue for the marker: the thread was not started, the system did not create it, or it is just starting.
        guard pointee.loop.load(ordering: .sequentiallyConsistent) != nil else {
            cancel()
            return join()
        }
        // The thread may end as soon as it has performed the marker, and looks for this flag before that. The other flag is the last: the
        // child of a fork between these steps is not cancelled without a marker. Each call queues one, because that child may have none.
        pointee.flags.bitwiseOr(ThreadFlags.ending, ordering: .sequentiallyConsistent)
        queueStop()
        pointee.flags.bitwiseOr(ThreadFlags.cancelled, ordering: .sequentiallyConsistent)
        if ThreadPointer.current == self { RunLoop.current().stop() }
        return join()
    }

    /// `RLThreadJoin`.
    func join() -> Bool {
        if isNew || isCalling { return false }
        if pointee.handle.load(ordering: .acquiring) == 0 { waitForStart() }
        if isNew { return false }
        if isVanished { return true }
        let (exchanged, _) = pointee.joining.compareExchange(
            expected: ThreadJoin.none, desired: ThreadJoin.underWay, ordering: .sequentiallyConsistent)
        if pointee.joining.load(ordering: .acquiring) == ThreadJoin.detached { return false }
        if exchanged {
            let state = rl_disable_cancellation()
            // In the child of `fork` libc may believe that a vanished thread still joins it.
            if pthread_join(systemHandle, nil) == EINVAL { wait(while: ThreadPhase.executing) }
            rl_restore_cancellation(state)
            pointee.joining.store(ThreadJoin.done, ordering: .sequentiallyConsistent)
            if isAwaited { pointee.joining.futexWakeAll() }
        } else {
            pointee.flags.bitwiseOr(ThreadFlags.awaited, ordering: .sequentiallyConsistent)
            while pointee.joining.load(ordering: .sequentiallyConsistent) != ThreadJoin.done, !isVanished {
                pointee.joining.futexWait(while: ThreadJoin.underWay)
            }
        }
        return true
    }
}
