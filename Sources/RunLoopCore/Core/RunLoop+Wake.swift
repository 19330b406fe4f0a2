// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The values of `RunLoop.wake`, and every transition from one to another:
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
/// In all other states each of these functions leaves the word as it is. `Tests/Spin/wake.pml` is a model of this.
///
/// A wake-up that a run takes also applies to those of the runs around it that have not had the wait of their pass (S-WAKE-9): their
/// `RunFrame.wait` then says so, and `beginLook` and `endWait` read it together with the word.
enum WakeState {
    /// The loop is awake or not running; it has no request.
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

    @inline(always)
    static func isAsleep(_ word: UInt32) -> Bool { word >= asleepInFutex }
}

/// What a run knows about the wait of its pass. Loop's thread only. `RLRunGetWait_` counts them from 1.
enum WaitState: UInt8 {
    /// It is to come.
    case ahead
    /// It is to come, and so is no observer that posts notifications: it has had its turn, or was not among those that are called (S-NQ-15).
    case next
    /// It is to come, and ends at once: a nested run took a wake-up that it would have seen.
    case aheadAndWoken
    /// It is over, or skipped: a wake-up is for the next pass.
    case over
    /// The run ends, and no such observer is called any more.
    case last

    /// The observers of an activity from BeforeWaiting on are about to be called, and none of them posts notifications.
    @inline(always)
    mutating func begin(_ activity: Activity) {
        // After the wait it is `over`.
        if activity == .exit { self = .last } else if self == .ahead { self = .next }
    }
}

/// What `RunLoop.stop` says about the innermost run.
enum StopState {
    static var notRunning: UInt32 { 0 }
    static var running: UInt32 { 1 }
    static var stopRequested: UInt32 { 2 }
}

// MARK: Any thread

/// Wake-up and stop: callable from anywhere, also from signal handlers (S-WAKE-12).
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Ends the wait of the loop, the current or the next one (S-WAKE-1 to 5). Makes a system call only if the loop sleeps.
    @inline(always)
    func wakeUp() {
        // A load is enough here, although the processor may make it before the caller's earlier stores become visible: the loop leaves
        // this state by a barrier in every thread, and looks at everything after it (`endBusyPolling`).
        if pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.busyPolling { return }
        // Otherwise an exchange, even if a wake-up is already pending. A mere load could come before a store that is not visible
        // yet, such as the one that makes a post ready; the loop would take the pending wake-up, not see the store, and
        // sleep.
        rouse(from: pointee.wake.exchange(WakeState.wakeUp, ordering: .sequentiallyConsistent))
    }

    /// The same for a caller that has just changed something under the loop's lock. If a wake-up is pending, the loop has not taken it
    /// yet; it looks at the change, under the lock, only after it has taken it, and a mere load leaves the cache line of the word where it is.
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
            state = original  // The loop fell asleep or woke up in between, or another thread changed the word.
        }
    }

    /// Makes a sleeping loop look for what was just pushed on its stack. An awake one looks there after it has said that it
    /// sleeps; with a clock of the program that is too late, because then it counts as asleep for that clock.
    func lookAgainIfAsleep() {
        if pointee.clock.load(ordering: .sequentiallyConsistent) != nil { return lookAgain() }
        var state = pointee.wake.load(ordering: .sequentiallyConsistent)
        while state >= WakeState.asleepInFutex {
            let (exchanged, original) = pointee.wake.compareExchange(
                expected: state, desired: WakeState.lookAgain, ordering: .sequentiallyConsistent)
            if exchanged { return rouse(from: state) }
            state = original  // The loop woke up, or another thread changed the word.
        }
    }

    /// Does nothing on the loop's own thread, which is awake and will look anyway.
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

    /// An optimised `RLWakeUp` ends with a jump to this function, which therefore returns to the client's code: a trace shows that
    /// return address. Reading it in `RLWakeUp` would make wake-ups of awake loops slower.
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
    /// Begins a look of a wait. Returns the wake word, and clears a request to look again from it. Any change of the word from now on
    /// keeps the loop from falling asleep.
    @inline(always)
    func readWake() -> UInt32 {
        let word = pointee.wake.load(ordering: .sequentiallyConsistent)
        if word == WakeState.lookAgain { replaceWake(WakeState.lookAgain, by: WakeState.awake) }
        return word
    }

    /// Begins a look of a run's own wait. Returns whether a wake-up or a stop ends that wait.
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
        // Sequentially consistent, like `wake`: a stop that finds a pending `lookAgain` rouses no thread, and the loop sees the stop after it.
        pointee.stop.load(ordering: .sequentiallyConsistent) == StopState.stopRequested
    }

    /// Says that the loop sleeps. False if another thread has changed the word since the look began.
    @inline(always)
    func fallAsleep(_ state: UInt32) -> Bool { replaceWake(WakeState.awake, by: state) }

    /// Marks the loop awake again, unless another thread has changed the word: what it wrote stays for the next look.
    @inline(always)
    func getUp(from state: UInt32) {
        replaceWake(state, by: WakeState.awake)
        noteSleep(begins: false)
    }

    @inline(always) @discardableResult
    private func replaceWake(_ expected: UInt32, by desired: UInt32) -> Bool {
        pointee.wake.compareExchange(expected: expected, desired: desired, ordering: .sequentiallyConsistent).exchanged
    }

    /// Takes a pending wake-up, for the run or the pass that begins, and hands it on to the outer runs.
    @inline(always)
    @discardableResult
    func takeWakeUp(handingTo outer: RunFramePointer?) -> Bool {
        // Any other state stays: `lookAgain` is for the next sleep.
        guard pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.wakeUp else { return false }
        takePending(handingTo: outer)
        return true
    }

    @inline(never)
    private func takePending(handingTo outer: RunFramePointer?) {
        pointee.counters.wakeUps.count()
        // An exchange, so that what was written before the wake-ups it takes is seen after it.
        _ = pointee.wake.exchange(WakeState.awake, ordering: .sequentiallyConsistent)
        hand(to: outer)
    }

    /// A wake-up that a run takes also applies to those of the outer runs that have not waited in their passes (S-WAKE-9).
    @inline(always)
    private func hand(to outer: RunFramePointer?) {
        if outer != nil { endWaits(from: outer) { _ in true } }
    }

    /// Ends the waits of all runs in such modes, as far as they are ahead, without a wake-up. For what the loop's thread takes away, in whatever
    /// run, that a look of theirs would have ended the wait by.
    func endWaits(in concerns: (ModePointer) -> Bool) { endWaits(from: pointee.frame, in: concerns) }

    @inline(never)
    private func endWaits(from innermost: RunFramePointer?, in concerns: (ModePointer) -> Bool) {
        var next = innermost
        while let frame = next {
            if frame.pointee.wait.rawValue <= WaitState.next.rawValue && concerns(frame.pointee.mode) { frame.pointee.wait = .aheadAndWoken }
            next = frame.pointee.outer
        }
    }

    /// Consumes the wake-ups that ended this wait, or would have (S-WAKE-2).
    @inline(always)
    func endWait(_ frame: RunFramePointer) {
        let word = pointee.wake.load(ordering: .sequentiallyConsistent)
        let isQuiet = word < WakeState.wakeUp && pointee.busyPolling.isIdle
        let isWoken = isQuiet ? false : takeOrPoll(frame)
        frame.pointee.wasWoken = isWoken || frame.pointee.wait == .aheadAndWoken
        // If a host goes on waiting, the observers before the wait are not called again.
        frame.pointee.wait = .next
    }

    /// Takes the wake-up that ended a wait, or begins or continues busy polling. Returns whether the wait counts as woken.
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

    /// Ends the state, as if a wake-up had come just now: the loop's next steps see what was written before.
    @inline(always)
    func endBusyPolling(handingTo outer: RunFramePointer?) {
        if pointee.busyPolling.isOn { leaveBusyPolling(handingTo: outer) }
    }

    @inline(never)
    private func leaveBusyPolling(handingTo outer: RunFramePointer?) {
        pointee.busyPolling.isOn = false
        // If it fails, a wake-up is pending too.
        replaceWake(WakeState.busyPolling, by: WakeState.awake)
        // If the kernel begins to refuse membarrier(2), this waits once, and no loop polls after that (`fenceOtherThreads`).
        fenceOtherThreads()
        hand(to: outer)
    }
}
