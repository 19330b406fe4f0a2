import CLinux
import Synchronization

/// Attention: what a loop does while posts come faster than it makes passes.
///
/// A wake-up has to write, or a store that its caller made just before could stay unseen (`wakeUp`); and it is a write to a line
/// that the loop reads and writes in each pass. So a crowd of posts has the loop say in the wake word that it attends: it takes
/// each of its waits for woken, which nobody can tell from wake-ups that come all the time where nothing observes the passes. Who
/// wakes it then only looks. To leave the state the loop first writes the word and then makes every thread's processor see that,
/// with membarrier(2): whoever looked before it has its stores seen in the pass that the loop makes now, whoever looks after it
/// finds another state.
///
/// `isAttending` is the loop's own knowledge of it, because a wake-up that had looked before the state began may write over the
/// word.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Takes the wake-up that ended a wait, or attends to those that come. Whether the wait is to be taken for woken.
    @inline(__always)
    func takeWakeUpOrAttend(_ frame: RunFramePointer) -> Bool {
        let word = pointee.wake.load(ordering: .sequentiallyConsistent)
        if word < WakeState.wakeUp && pointee.crowd | pointee.takenPosts == 0 && !pointee.isAttending { return false }
        return takeOrAttend(frame)
    }

    @inline(never)
    private func takeOrAttend(_ frame: RunFramePointer) -> Bool {
        let word = pointee.wake.load(ordering: .sequentiallyConsistent)
        let taken = pointee.takenPosts
        pointee.takenPosts = 0
        if !pointee.isAttending {
            pointee.crowd = pointee.crowd - (pointee.crowd + 3) / 4 &+ taken
            let isCrowded = taken > 0 && pointee.crowd >= RunLoop.crowdLimit
            guard isCrowded && (word == WakeState.wakeUp || frame.pointee.wasWoken) && mayAttend(frame) else {
                if word == WakeState.wakeUp { takeWakeUp(handingTo: frame.pointee.outer) }
                return word == WakeState.wakeUp
            }
            pointee.isAttending = true
        }
        if word != WakeState.attended { _ = pointee.wake.exchange(WakeState.attended, ordering: .sequentiallyConsistent) }
        hand(to: frame.pointee.outer)
        return true
    }

    private func mayAttend(_ frame: RunFramePointer) -> Bool {
        frame.pointee.mode.pointee.observedActivities.load(ordering: .relaxed) == 0 && frame.pointee.foreign == nil
            && !frame.pointee.polls && process.pointee.canBias.load(ordering: .relaxed)
    }

    /// Whether a loop that attends goes on with it, at its wait: as long as it finds posts, and as it may.
    ///
    /// Where it found few, it first offers its processor once. Producers that wait for it use it for more posts, which is cheaper
    /// for both sides than a sleep and a wake-up for each few; producers elsewhere get on meanwhile, undisturbed by looks at the
    /// queue.
    func goesOnAttending(_ frame: RunFramePointer) -> Bool {
        guard mayAttend(frame) else { return false }
        if pointee.takenPosts >= RunLoop.crowdLimit { return true }
        if mayYield(frame) {
            sched_yield()
            frame.pointee.now = 0
        }
        return pointee.takenPosts > 0 || pointee.posts.hasNews
    }

    /// Only where nothing else may come to wait for the processor.
    private func mayYield(_ frame: RunFramePointer) -> Bool {
        let mode = frame.pointee.mode
        lock(owner: true)
        let isPlain = !mode.pointee.ports.needsKernel && mode.pointee.inboxCount == 0
        let next = mode.pointee.timers.isEmpty ? Clock.never : mode.pointee.timers.nextWake()
        unlock(owner: true)
        if !isPlain || servesMainQueue(in: mode) { return false }
        let until = Swift.min(next, frame.pointee.deadline)
        return until == Clock.never || until - readClock(frame) > RunLoop.longestYield
    }

    /// Ends the state, as if a wake-up had come just now: what was written before is seen by what the loop does next.
    @inline(__always)
    func endAttention(handingTo outer: RunFramePointer?) {
        if pointee.isAttending { leaveAttention(handingTo: outer) }
    }

    @inline(never)
    private func leaveAttention(handingTo outer: RunFramePointer?) {
        pointee.isAttending = false
        // Where it fails, a wake-up is pending besides.
        _ = pointee.wake.compareExchange(
            expected: WakeState.attended, desired: WakeState.awake, ordering: .sequentiallyConsistent)
        // A kernel that refuses it all at once costs a wait, and no loop attends after that (`fenceOtherThreads`).
        fenceOtherThreads()
        hand(to: outer)
    }
}

extension RunLoop {
    /// So many posts, counted with a weight that halves within three waits, make a crowd.
    fileprivate static var crowdLimit: UInt32 { 64 }
    /// What another thread may use the processor for at a time, in nanoseconds, and more.
    fileprivate static var longestYield: Int64 { 20_000_000 }
}
