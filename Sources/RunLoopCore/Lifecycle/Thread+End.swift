// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// How a thread is ended, and how others wait for its end: `cancel`, `stop`, `end` and `join`.
///
/// Each of the first three, but for `cancel` of a thread with a body, queues a *marker* in the thread's loop. It is performed in whatever mode
/// the loop runs, behind the requests of that mode, and ends the loop's runs (`endRuns`): those under way and all later ones. What the runs
/// leave of what was queued before is performed last (`drain`).
extension UnsafeMutablePointer where Pointee == Thread {
    /// Queues the marker. (A stop is not kept between two runs, and ends one.) False if there is no loop yet.
    @inline(never)
    private func endRuns() -> Bool {
        guard let loop = pointee.loop.load(ordering: .sequentiallyConsistent) else { return false }
        if isVanished { return true }
        if loop.isCurrent {
            loop.endRuns()
            return true
        }
        let post = Post(
            perform: { _ in
                // Before the runs return: the thread that calls may not have done that yet.
                ThreadPointer.current?.pointee.flags.bitwiseOr(ThreadFlags.cancelled, ordering: .sequentiallyConsistent)
                RunLoop.current().endRuns()
            }, release: nil, info: nil, modes: PostModes(mode: nil))
        loop.performMarker(post)
        return true
    }

    /// `RLThreadCancel`.
    func cancel() {
        if isCancelled { return }
        // The flag is the last: the child of a fork between the two is not cancelled without a marker.
        let hasMarker = pointee.body == nil && endRuns()
        pointee.flags.bitwiseOr(ThreadFlags.cancelled, ordering: .sequentiallyConsistent)
        if hasMarker { return }
        // The thread may have come to its loop meanwhile.
        if pointee.body == nil { _ = endRuns() } else { pointee.loop.load(ordering: .sequentiallyConsistent)?.wakeUp() }
    }

    /// `RLThreadStop`.
    func stop(performsQueued: Bool) {
        // The thread may end as soon as it has performed the marker, and looks for this flag before that; one that comes to its loop only now
        // looks for it then. The other flag is the last: the child of a fork between these steps is not cancelled without a marker. Each call
        // queues one, because that child may have none.
        pointee.flags.bitwiseOr(performsQueued ? ThreadFlags.ending : ThreadFlags.dropping, ordering: .sequentiallyConsistent)
        _ = endRuns()
        pointee.flags.bitwiseOr(ThreadFlags.cancelled, ordering: .sequentiallyConsistent)
    }

    /// `RLThreadEnd`.
    func end() -> Bool {
        stop(performsQueued: true)
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
