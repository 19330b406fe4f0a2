// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// What `RunLoop.wake` says. Every legal value is here, and every way from one to another:
///
///     any thread           from                    to
///     `wakeUp`             all but `busyPolling`   `wakeUp`; a sleeper is roused
///     `lookAgain`          `awake`, asleep         `lookAgain`; a sleeper is roused
///     `lookAgainIfAsleep`  asleep                  `lookAgain`; the sleeper is roused
///
///     the loop's thread    from                    to
///     `readWake`           `lookAgain`             `awake`
///     `fallAsleep`         `awake`                 `asleepInFutex`, `asleepInEpoll`
///     `getUp`              asleep                  `awake`
///     `takeWakeUp`         `wakeUp`                `awake`
///     `endWait`            `wakeUp`                `awake`; while posts come fast, all to `busyPolling`
///     `endBusyPolling`     `busyPolling`           `awake`, then a barrier in every thread
///
/// In other states each of them leaves the word as it is. `Tests/Spin/wake.pml` is a model of this.
///
/// A wake-up that a run takes is also for those of the runs around it that have not had the wait of their pass (S-WAKE-9): their
/// `RunFrame.wait` then says so, and stands beside the word in `beginLook` and `endWait`.
enum WakeState {
    /// The loop is awake or not running; nothing is asked of it.
    static var awake: UInt32 { 0 }
    /// Something changed: the sleep ends, the wait goes on with a new look at stop word, timers and ports.
    static var lookAgain: UInt32 { 1 }
    /// A wake-up: the wait ends. It is never overwritten by `lookAgain`.
    static var wakeUp: UInt32 { 2 }
    /// Posts come faster than the loop makes passes: each of its waits ends at once, as if by a wake-up, and before it leaves this state
    /// it looks once more, behind a barrier in every thread. So a wake-up has nothing to write (`BusyPolling`).
    static var busyPolling: UInt32 { 3 }
    /// The loop sleeps on the futex of this word.
    static var asleepInFutex: UInt32 { 4 }
    /// The loop sleeps in epoll.
    static var asleepInEpoll: UInt32 { 5 }
}

/// What a run knows of the wait of its pass. Loop's thread only.
enum WaitState: UInt8 {
    /// It is to come.
    case ahead
    /// It is to come, and ends at once: a nested run took a wake-up that it would have seen.
    case aheadAndWoken
    /// It is over, or left out: a wake-up is for the next pass.
    case over
}

/// What `RunLoop.stop` says of the innermost run.
enum StopState {
    static var notRunning: UInt32 { 0 }
    static var running: UInt32 { 1 }
    static var stopRequested: UInt32 { 2 }
}

// MARK: Any thread

/// Wake-up and stop: callable from anywhere, also from signal handlers (S-WAKE-12).
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Ends the wait of the loop, this one or the coming one (S-WAKE-1 to 5). A system call only if the loop sleeps.
    @inline(always)
    func wakeUp() {
        // A look will do here, although the processor may make it before what the caller stored becomes visible: the loop leaves
        // this state by a barrier in every thread, and looks at everything after it (`endBusyPolling`).
        if pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.busyPolling { return }
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
        while state != WakeState.wakeUp && state != WakeState.lookAgain && state != WakeState.busyPolling {
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
        if mayBeAsleep { lookAgain() }
    }

    /// Whether the loop may be asleep and so miss what the caller just did: the caller is another thread, or the loop waits in a
    /// foreign loop that called the caller.
    @inline(always)
    var mayBeAsleep: Bool { !isCurrent || pointee.asleepOutside != nil }

    @inline(always)
    private func rouse(from state: UInt32) {
        if state >= WakeState.asleepInFutex { rouseSleeper(state) }
    }

    /// An optimised `RLWakeUp` ends with a jump to this, so that it returns to the client's code, which a trace shows. Asking for that
    /// address there would cost wake-ups of awake loops something.
    @inline(never)
    private func rouseSleeper(_ state: UInt32) {
        pointee.counters.rouses.wrappingAdd(1, ordering: .relaxed)
        if Trace.isWanted { Trace.tell(.wakeUp, self, item: UInt(state), caller: rl_caller()) }
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
}

// MARK: The loop's thread

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Begins a look of a wait: the wake word, from which a request to look again is taken away. Whatever is said from now on
    /// keeps the loop from falling asleep.
    @inline(always)
    func readWake() -> UInt32 {
        let word = pointee.wake.load(ordering: .sequentiallyConsistent)
        if word == WakeState.lookAgain { replaceWake(WakeState.lookAgain, by: WakeState.awake) }
        return word
    }

    /// Begins a look of a run's own wait. Whether a wake-up or a stop ends that.
    @inline(always)
    func beginLook(_ frame: RunFramePointer) -> Bool {
        let word = readWake()
        let isPolling = pointee.busyPolling.isOn
        if isPolling && !goesOnPolling(frame) {
            endBusyPolling(handingTo: frame.pointee.outer)
            frame.pointee.wait = .aheadAndWoken
        }
        return word == WakeState.wakeUp || isPolling || frame.pointee.wait == .aheadAndWoken || isStopRequested(frame)
    }

    @inline(always)
    func isStopRequested(_ frame: RunFramePointer) -> Bool {
        // Sequentially consistent, like `wake`: a stop that finds a look again pending tells nobody, and is seen after it.
        pointee.stop.load(ordering: .sequentiallyConsistent) == StopState.stopRequested
    }

    /// Says that the loop sleeps. False if another thread has changed the word since the look began.
    @inline(always)
    func fallAsleep(_ state: UInt32) -> Bool { replaceWake(WakeState.awake, by: state) }

    /// Awake again, unless another thread has changed the word: what it wrote stays for the next look.
    @inline(always)
    func getUp(from state: UInt32) { replaceWake(state, by: WakeState.awake) }

    @inline(always) @discardableResult
    private func replaceWake(_ expected: UInt32, by desired: UInt32) -> Bool {
        pointee.wake.compareExchange(expected: expected, desired: desired, ordering: .sequentiallyConsistent).exchanged
    }

    /// Takes a pending wake-up away, for the run that begins or the pass that does, and hands it on.
    @inline(always)
    func takeWakeUp(handingTo outer: RunFramePointer?) {
        // Any other state stays: a look again is for the next sleep.
        if pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.wakeUp { takePending(handingTo: outer) }
    }

    @inline(never)
    private func takePending(handingTo outer: RunFramePointer?) {
        pointee.counters.wakeUps.count()
        // An exchange, so that what was written before the wake-ups it takes is seen after it.
        _ = pointee.wake.exchange(WakeState.awake, ordering: .sequentiallyConsistent)
        hand(to: outer)
    }

    /// A wake-up that a run takes is also for those of the outer runs that have not waited in their passes (S-WAKE-9).
    private func hand(to outer: RunFramePointer?) {
        var outer = outer
        while let frame = outer {
            if frame.pointee.wait == .ahead { frame.pointee.wait = .aheadAndWoken }
            outer = frame.pointee.outer
        }
    }

    /// Uses up the wake-ups that ended this wait, or would have (S-WAKE-2).
    @inline(always)
    func endWait(_ frame: RunFramePointer) {
        let word = pointee.wake.load(ordering: .sequentiallyConsistent)
        let isQuiet = word < WakeState.wakeUp && pointee.busyPolling.isIdle
        let isWoken = isQuiet ? false : takeOrPoll(frame)
        frame.pointee.wasWoken = isWoken || frame.pointee.wait == .aheadAndWoken
        frame.pointee.wait = .ahead
    }

    /// Takes the wake-up that ended a wait, or polls busily. Whether the wait counts as woken.
    @inline(never)
    private func takeOrPoll(_ frame: RunFramePointer) -> Bool {
        let word = pointee.wake.load(ordering: .sequentiallyConsistent)
        let isWoken = word == WakeState.wakeUp
        if !pointee.busyPolling.isOn {
            let isBusy = pointee.busyPolling.countWait()
            guard isBusy && (isWoken || frame.pointee.wasWoken) && mayPoll(frame) else {
                if isWoken { takePending(handingTo: frame.pointee.outer) }
                return isWoken
            }
            pointee.busyPolling.isOn = true
        }
        pointee.busyPolling.takenPosts = 0
        if word != WakeState.busyPolling {
            _ = pointee.wake.exchange(WakeState.busyPolling, ordering: .sequentiallyConsistent)
        }
        hand(to: frame.pointee.outer)
        return true
    }

    /// Ends the state, as if a wake-up had come just now: what was written before is seen by what the loop does next.
    @inline(always)
    func endBusyPolling(handingTo outer: RunFramePointer?) {
        if pointee.busyPolling.isOn { leaveBusyPolling(handingTo: outer) }
    }

    @inline(never)
    private func leaveBusyPolling(handingTo outer: RunFramePointer?) {
        pointee.busyPolling.isOn = false
        // Where it fails, a wake-up is pending besides.
        replaceWake(WakeState.busyPolling, by: WakeState.awake)
        // A kernel that refuses it all at once costs a wait, and no loop polls after that (`fenceOtherThreads`).
        fenceOtherThreads()
        hand(to: outer)
    }
}
