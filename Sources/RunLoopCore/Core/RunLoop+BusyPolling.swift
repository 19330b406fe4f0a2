// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What a loop does while posts come faster than it makes passes.
///
/// A wake-up has to write, or a store that its caller made just before could stay unseen (`wakeUp`); and it is a write to a cache line
/// that the loop reads and writes in each pass. So while posts come fast the loop says in the wake word that it polls: each of its
/// waits ends at once, which, where nothing observes the passes, looks the same as wake-ups that come all the time. A wake-up
/// then only reads the word. To leave the state the loop first writes the word and then makes every processor that runs a thread of
/// the process see that, with membarrier(2): stores of a thread that read the word before it are seen in the pass that the loop
/// makes now, and a thread that reads the word after it finds another state.
///
/// Loop's thread only.
struct BusyPolling {
    /// The loop's own knowledge of the state, because a wake-up that read the word before the state began may overwrite it.
    var isOn = false
    /// How many posts the rounds have taken since the last wait ended.
    var takenPosts: UInt32 = 0
    /// How many they have taken recently: the weight of each wait's count halves within three waits.
    private var postRate: UInt32 = 0

    /// The loop polls when at least this many posts came recently.
    private static var limit: UInt32 { 64 }

    @inline(always)
    var isIdle: Bool { !isOn && postRate | takenPosts == 0 }

    /// The last round found so many posts that there are probably more by now.
    var tookMany: Bool { takenPosts >= BusyPolling.limit }

    /// A wait is over. Returns whether posts come fast.
    mutating func countWait() -> Bool {
        let taken = takenPosts
        takenPosts = 0
        postRate = postRate - (postRate + 3) / 4 &+ taken
        return taken > 0 && postRate >= BusyPolling.limit
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Whether nothing can detect that waits end without a wake-up.
    func mayPoll(_ frame: RunFramePointer) -> Bool {
        frame.pointee.mode.pointee.observedActivities.load(ordering: .relaxed) == 0 && frame.pointee.foreign == nil
            && !frame.pointee.polls && manualClock == nil && process.pointee.canBias.load(ordering: .relaxed)
    }

    /// Whether a loop that polls continues to poll, at its wait: as long as it finds posts and may poll.
    ///
    /// If it found few, it first yields its processor once. Producers that wait for that processor use it for more posts, which is cheaper
    /// for both sides than a sleep and a wake-up for each few; producers on other processors continue meanwhile, without the loop reading
    /// the queue.
    func goesOnPolling(_ frame: RunFramePointer) -> Bool {
        guard mayPoll(frame) else { return false }
        if pointee.busyPolling.tookMany { return true }
        if mayYield(frame) {
            sched_yield()
            frame.pointee.now = 0
        }
        // Not for a post that is not whole yet, whose thread may not run for long: it wakes the loop after it.
        return pointee.busyPolling.takenPosts > 0 || pointee.posts.hasNewClaims
    }

    /// Only if the loop has nothing else that could become due while it waits for the processor.
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
    /// More than the time for which another thread may use the processor at a stretch, in nanoseconds.
    fileprivate static var longestYield: Int64 { 20_000_000 }
}
