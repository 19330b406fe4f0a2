// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// What a loop does while posts come faster than it makes passes.
///
/// A wake-up has to write, or a store that its caller made just before could stay unseen (`wakeUp`); and it is a write to a line
/// that the loop reads and writes in each pass. So while posts come fast the loop says in the wake word that it polls: each of its
/// waits ends at once, which nobody can tell from wake-ups that come all the time where nothing observes the passes. A wake-up
/// then only looks. To leave the state the loop first writes the word and then makes every thread's processor see that, with
/// membarrier(2): a thread that looked before it has its stores seen in the pass that the loop makes now, one that looks after it
/// finds another state.
///
/// Loop's thread only.
struct BusyPolling {
    /// The loop's own knowledge of the state, because a wake-up that had looked before the state began may write over the word.
    var isOn = false
    /// How many posts rounds have taken since the last wait ended.
    var takenPosts: UInt32 = 0
    /// How many they have taken of late: the count of each wait has a weight that halves within three waits.
    private var postRate: UInt32 = 0

    /// So many posts of late are a reason to poll.
    private static var limit: UInt32 { 64 }

    @inline(always)
    var isIdle: Bool { !isOn && postRate | takenPosts == 0 }

    /// The last round found so many posts that there are more by now.
    var tookMany: Bool { takenPosts >= BusyPolling.limit }

    /// A wait is over. Whether posts come fast.
    mutating func countWait() -> Bool {
        let taken = takenPosts
        takenPosts = 0
        postRate = postRate - (postRate + 3) / 4 &+ taken
        return taken > 0 && postRate >= BusyPolling.limit
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Whether nobody can tell that waits end without a wake-up.
    func mayPoll(_ frame: RunFramePointer) -> Bool {
        frame.pointee.mode.pointee.observedActivities.load(ordering: .relaxed) == 0 && frame.pointee.foreign == nil
            && !frame.pointee.polls && manualClock == nil && process.pointee.canBias.load(ordering: .relaxed)
    }

    /// Whether a loop that polls goes on with it, at its wait: as long as it finds posts, and as it may.
    ///
    /// Where it found few, it first offers its processor once. Producers that wait for it use it for more posts, which is cheaper
    /// for both sides than a sleep and a wake-up for each few; producers elsewhere get on meanwhile, undisturbed by looks at the
    /// queue.
    func goesOnPolling(_ frame: RunFramePointer) -> Bool {
        guard mayPoll(frame) else { return false }
        if pointee.busyPolling.tookMany { return true }
        if mayYield(frame) {
            sched_yield()
            frame.pointee.now = 0
        }
        return pointee.busyPolling.takenPosts > 0 || pointee.posts.hasNews
    }

    /// Only where nothing else may come to wait for the processor.
    private func mayYield(_ frame: RunFramePointer) -> Bool {
        let mode = frame.pointee.mode
        lock(owner: true)
        let isPlain = !mode.pointee.ports.needsKernel && mode.pointee.inboxCount == 0
        let next = mode.pointee.timers.isEmpty ? Clock.never : mode.pointee.timers.nextWake()
        unlock(owner: true)
        guard isPlain else { return false }
        let until = Swift.min(next, frame.pointee.deadline)
        return until == Clock.never || until - readClock(frame) > RunLoop.longestYield
    }
}

extension RunLoop {
    /// What another thread may use the processor for at a time, in nanoseconds, and more.
    fileprivate static var longestYield: Int64 { 20_000_000 }
}
