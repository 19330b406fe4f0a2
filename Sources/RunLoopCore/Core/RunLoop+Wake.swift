import CLinux
import Synchronization

/// What `RunLoop.wake` says. Every legal value is here.
enum WakeState {
    /// The loop is awake or not running; nothing is asked of it.
    static var awake: UInt32 { 0 }
    /// Something changed: the sleep ends, the wait goes on with a new look at stop word, timers and ports.
    static var lookAgain: UInt32 { 1 }
    /// A wake-up: the wait ends. It is never overwritten by `lookAgain`.
    static var wakeUp: UInt32 { 2 }
    /// Wake-ups come faster than the loop makes passes: it takes each of its waits for woken, and looks once more, behind a
    /// barrier in every thread, before it leaves this state. So a wake-up has nothing to write.
    static var attended: UInt32 { 3 }
    /// The loop sleeps on the futex of this word.
    static var asleepInFutex: UInt32 { 4 }
    /// The loop sleeps in epoll.
    static var asleepInEpoll: UInt32 { 5 }
}

/// What `RunLoop.stop` says of the innermost run.
enum StopState {
    static var notRunning: UInt32 { 0 }
    static var running: UInt32 { 1 }
    static var stopRequested: UInt32 { 2 }
}

/// Wake-up and stop: callable from anywhere, also from signal handlers (S-WAKE-12).
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Ends the wait of the loop, this one or the coming one (S-WAKE-1 to 5). A system call only if the loop sleeps.
    @inline(__always)
    func wakeUp() {
        // A look will do here, although the processor may make it before what the caller stored becomes visible: the loop leaves
        // this state by a barrier in every thread, and looks at everything after it (`leaveAttention`).
        if pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.attended { return }
        // Otherwise an exchange, also where a wake-up is pending already. A mere look at it could come before a store that is on
        // its way, such as the one that makes a post ready; the loop would take the pending wake-up, not see the store, and
        // sleep.
        rouse(from: pointee.wake.exchange(WakeState.wakeUp, ordering: .sequentiallyConsistent))
    }

    /// The same for who has just changed something under the loop's lock. Where a wake-up is pending, the loop has not taken it
    /// yet; it looks at the change, under the lock, only after it did, and a mere look at the word leaves that word where it is.
    func wakeUpUnlessPending() {
        if pointee.wake.load(ordering: .sequentiallyConsistent) != WakeState.wakeUp { wakeUp() }
    }

    /// Makes the loop look at stop word, timers and ports anew, without ending its wait.
    func lookAgain() {
        var state = pointee.wake.load(ordering: .sequentiallyConsistent)
        while state != WakeState.wakeUp && state != WakeState.lookAgain && state != WakeState.attended {
            let (exchanged, original) = pointee.wake.compareExchange(
                expected: state, desired: WakeState.lookAgain, ordering: .sequentiallyConsistent)
            if exchanged { return rouse(from: state) }
            state = original  // The loop fell asleep or woke up in between, or somebody else told it.
        }
    }

    /// Makes a sleeping loop look for what was just pushed on its stack. An awake one looks there after it has said that it
    /// sleeps.
    func lookAgainIfAsleep() {
        var state = pointee.wake.load(ordering: .sequentiallyConsistent)
        while state >= WakeState.asleepInFutex {
            let (exchanged, original) = pointee.wake.compareExchange(
                expected: state, desired: WakeState.lookAgain, ordering: .sequentiallyConsistent)
            if exchanged { return rouse(from: state) }
            state = original  // The loop woke up, or somebody else told it.
        }
    }

    /// The loop's own thread is awake and will look anyway.
    func lookAgainIfForeign() {
        if mustBeTold { lookAgain() }
    }

    /// Whether the loop does not know of what the caller just did: the caller is another thread, or the loop waits in a foreign
    /// loop that called the caller.
    @inline(__always)
    var mustBeTold: Bool { !isCurrent || pointee.asleepOutside != nil }

    @inline(__always)
    private func rouse(from state: UInt32) {
        if state >= WakeState.asleepInFutex { rouseSleeper(state) }
    }

    @inline(never)
    private func rouseSleeper(_ state: UInt32) {
        let savedErrno = rl_errno()
        if state == WakeState.asleepInFutex {
            pointee.wake.futexWakeOne()
        } else {
            EpollSet.rouse(pointee.sleepingEpoll.load(ordering: .acquiring))
        }
        rl_set_errno(savedErrno)
    }

    /// Ends the innermost run (S-STOP-1, S-STOP-2).
    func stop() {
        let (exchanged, _) = pointee.stop.compareExchange(
            expected: StopState.running, desired: StopState.stopRequested, ordering: .sequentiallyConsistent)
        if exchanged { lookAgain() }
    }

    /// Begins a look of a wait: the wake word, from which a request to look again is taken away. Whatever is said from now on
    /// keeps the loop from falling asleep. Loop's thread.
    @inline(__always)
    func readWake() -> UInt32 {
        let word = pointee.wake.load(ordering: .sequentiallyConsistent)
        if word == WakeState.lookAgain {
            _ = pointee.wake.compareExchange(expected: word, desired: WakeState.awake, ordering: .sequentiallyConsistent)
        }
        return word
    }

    /// Takes a pending wake-up away and hands it to those of the outer runs that have not waited in their passes (S-WAKE-9).
    /// False if there was none. Loop's thread.
    @inline(__always) @discardableResult
    func consumeWakeUp(handingTo outer: RunFramePointer?) -> Bool {
        // Any other state stays: a look again is for the next sleep.
        if pointee.wake.load(ordering: .sequentiallyConsistent) != WakeState.wakeUp { return false }
        takeWakeUp(handingTo: outer)
        return true
    }

    @inline(never)
    func takeWakeUp(handingTo outer: RunFramePointer?) {
        // An exchange, so that what was written before the wake-ups it takes is seen after it.
        _ = pointee.wake.exchange(WakeState.awake, ordering: .sequentiallyConsistent)
        hand(to: outer)
    }

    /// A wake-up that a run takes is also for those of the outer runs that have not waited in their passes (S-WAKE-9).
    func hand(to outer: RunFramePointer?) {
        var outer = outer
        while let frame = outer {
            if !frame.pointee.hasWaited { frame.pointee.wokenByInner = true }
            outer = frame.pointee.outer
        }
    }
}
