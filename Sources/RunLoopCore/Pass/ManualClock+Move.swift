// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

extension ManualClock {
    /// So many runs without progress, or passes at one instant, end a move: a callback causes more work each time.
    fileprivate static var limit: Int { 1000 }

    fileprivate static func nextCall() -> Int64 { process.pointee.clockCalls.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue }

    /// A call that moves the clock.
    struct Move {
        /// The thread's loop, if the call is made in a callback of it. It may have another clock: callbacks of two loops may move each other's.
        var own: RunLoopPointer?
        /// From `Process.clockCalls`, when the call began.
        var number: Int64

        /// Whether it returns only when the loop sleeps.
        func waits(for loop: RunLoopPointer) -> Bool { own == nil || loop.pointee.lastMove.load(ordering: .sequentiallyConsistent) < number }
    }
}

/// Moving a clock, and what the loops that use it then do (S-CLK-5 to 8).
extension UnsafeMutablePointer where Pointee == ManualClock {
    /// `RLClockAdvance`.
    func advance(by seconds: Double) {
        let call = begin()
        go(to: announce(by: seconds), call)
        end(call)
    }

    /// `RLClockAdvanceToNext`. False if no loop waits for an instant.
    func advanceToNext() -> Bool {
        let call = begin()
        defer { end(call) }
        var hasRun = false
        while true {
            if waitForOthers(call) {
                go(to: time, call)
                return true
            }
            var next = Clock.never, allSleep = true
            forEachLoop { loop in
                if loop.isCurrent {
                    // One that may not run does not come to what its timers wait for.
                    if !loop.mayRun { return }
                    next = Swift.min(next, loop.isRunning ? loop.nextInstantOfRun(by: self) : loop.nextInstantOfDefaultMode)
                } else if let instant = loop.nextInstantOfWait(by: self) {
                    next = Swift.min(next, instant)
                } else if call.waits(for: loop) {
                    allSleep = false
                }
            }
            // Or another thread has woken one since: what it has taken out of its mode is not found there.
            if !allSleep { continue }
            if next > ManualClock.latest {
                // What is due in the thread's loop may lead to one.
                guard !hasRun, let own = ownLoop, !own.isRunning, own.mayRun else { return false }
                hasRun = true
                go(to: time, call)
                continue
            }
            go(to: next, call)
            return true
        }
    }

    /// `RLClockSetAutomatic`.
    func setAutomatic(_ isAutomatic: Bool) {
        pointee.isAutomatic.store(isAutomatic, ordering: .sequentiallyConsistent)
        // The loops that sleep look again, and the last one to fall asleep moves the clock.
        if isAutomatic { forEachLoop { $0.lookAgainIfForeign() } }
    }

    /// Moves the clock to an instant, if that is later, and makes all loops reach it.
    private func go(to instant: Int64, _ call: ManualClock.Move) {
        ownLoop?.pointee.movedTo = instant
        move(to: instant)
        Watcher.clockMoved()
        // One that waits in a foreign loop looks again like any other.
        forEachLoop { $0.lookAgainIfForeign() }
        if let own = ownLoop, !own.isRunning { own.runToTime() }
        _ = waitForOthers(call)
    }

    /// The calling thread's loop, if it has the clock.
    private var ownLoop: RunLoopPointer? {
        guard let loop = RunLoop.ofThread, loop.manualClock == self else { return nil }
        return loop
    }

    @inline(never)
    private func begin() -> ManualClock.Move {
        var own = RunLoop.ofThread
        if let loop = own, !loop.isRunning {
            if loop.manualClock == self { loop.pointee.goesByRuns.store(true, ordering: .releasing) }
            own = nil
        }
        let call = ManualClock.Move(own: own, number: ManualClock.nextCall())
        if let own {
            own.pointee.lastMove.store(.max, ordering: .sequentiallyConsistent)
            own.manualClock?.tellSettled()
        }
        return call
    }

    @inline(never)
    private func end(_ call: ManualClock.Move) {
        if let own = call.own { own.tellMove() } else { RunLoop.ofThread?.goOnByItself() }
    }

    /// Waits until every other loop sleeps or does not run: for ever, if a callback of one waits for this thread. In a callback it
    /// does not wait for loops in whose callbacks another call goes on, or went on since this one began: that one may have returned before this thread
    /// comes to look, and its callback may wait for this one's. True if they all slept, and the clock, which is automatic, has gone on since.
    private func waitForOthers(_ call: ManualClock.Move) -> Bool {
        pointee.waiters.wrappingAdd(1, ordering: .sequentiallyConsistent)
        let number = pointee.waits.wrappingAdd(1, ordering: .sequentiallyConsistent).newValue
        func othersSleep() -> Bool {
            var allSettled = true
            forEachLoop { loop in
                if !loop.isCurrent && !loop.isSettled && call.waits(for: loop) { allSettled = false }
            }
            return allSettled
        }
        var hasGoneOn = false
        while true {
            let count = pointee.settled.load(ordering: .sequentiallyConsistent)
            let turns = pointee.turns.load(ordering: .sequentiallyConsistent)
            // Whoever changes that is heard of.
            if othersSleep() && othersSleep() && pointee.turns.load(ordering: .sequentiallyConsistent) == turns { break }
            hasGoneOn = pointee.lastSettled.load(ordering: .sequentiallyConsistent) >= number
            if hasGoneOn { break }
            pointee.settled.futexWait(while: count)
        }
        pointee.waiters.wrappingSubtract(1, ordering: .relaxed)
        return hasGoneOn
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Runs the default mode until the loop has come to where its thread has moved the clock, in callbacks meanwhile too, and has nothing left to do
    /// there. Other threads may move the clock on again and again. Loop's thread, outside any run.
    fileprivate func runToTime() {
        if !mayRun { return }
        let mode = ModeName.named(pointee.defaultMode.pointee.name)
        var idleRuns = 0
        while clockTime < pointee.movedTo && idleRuns < ManualClock.limit {
            let (before, runs) = (clockTime, pointee.runs)
            _ = run(in: mode, seconds: .infinity, until: pointee.movedTo, returnsAfterSource: false)
            // Refused. After a run that finished the mode may have what an Exit observer added.
            if pointee.runs == runs { break }
            idleRuns = clockTime == before ? idleRuns + 1 : 0
        }
        var passes = 0
        while idleRuns < ManualClock.limit && hasWorkNow() && passes < ManualClock.limit {
            if run(in: mode, seconds: 0, returnsAfterSource: false) == .finished { break }
            passes += 1
        }
        lock()
        clockTime = Swift.max(clockTime, pointee.movedTo)
        unlock()
    }

    /// Whether a pass of the default mode would call something. Loop's thread.
    private func hasWorkNow() -> Bool {
        let mode = pointee.defaultMode
        return findsSignalledSource(in: mode) || mayHavePosts(for: mode) || hasRequests(for: mode) || hasReadyInbox(in: mode)
            || nextInstantOfDefaultMode <= pointee.movedTo + ManualClock.slack
    }

    /// An inbox that a look has found and not served.
    private func hasReadyInbox(in mode: ModePointer) -> Bool {
        lock()
        defer { unlock() }
        return mode.pointee.inboxCount > 0 && hasReadyInboxLocked(in: mode)
    }

    /// A call in a callback of the loop that moved a clock is over.
    fileprivate func tellMove() { pointee.lastMove.store(ManualClock.nextCall(), ordering: .sequentiallyConsistent) }

    /// A call outside its runs that moved its clock is over. Loop's thread.
    fileprivate func goOnByItself() {
        if !pointee.goesByRuns.load(ordering: .relaxed) { return }
        pointee.goesByRuns.store(false, ordering: .relaxed)
        followOthers()
    }

    /// Goes where others have moved its clock meanwhile. Loop's thread, outside any run.
    func followOthers() {
        guard let clock = manualClock else { return }
        lock()
        followLocked(clock)
        unlock()
    }

    /// The thread has left such calls without an end. Loop's thread, outside any run.
    func abandonMoves() {
        if pointee.lastMove.load(ordering: .relaxed) == .max { tellMove() }
        goOnByItself()
    }

    /// The next instant at which the default mode has something to do. Loop's thread, outside any run.
    fileprivate var nextInstantOfDefaultMode: Int64 {
        lock()
        defer { unlock() }
        return nextInstantLocked(in: pointee.defaultMode)
    }

    /// When the innermost run's next timer is due, or when the run ends; an instant that the clock has reached does not count, the run
    /// gets there later. Loop's thread.
    fileprivate func nextInstantOfRun(by clock: ManualClockPointer) -> Int64 {
        let time = clock.time
        var next = Clock.never
        func meet(_ instant: Int64) {
            if instant > time { next = Swift.min(next, instant) }
        }
        @inline(never) func meet(_ timer: TimerPointer) {
            if timer.pointee.instant > time { meet(timer.latestInstant) }
        }
        @inline(never) func meet(_ mode: ModePointer) {
            meet(pointee.waits.firstEnd(in: mode, before: Clock.never, notBefore: time + 1))
            // Those of a batch are due.
            meet(mode.pointee.timers.exactWake(after: time))
            mode.pointee.timers.forEachAway {
                meet($0.timer)
                return true
            }
            isCalling(TimerCall.self) { call in
                let timer = call.pointee.timer
                // One that fires once has no date any more, whatever its callback sets.
                if timer.isGuarded(by: self), timer.firesAgain, let node = timer.node(in: mode), !node.pointee.isTombstone { meet(timer) }
                return false
            }
        }
        lock()
        if let frame = pointee.frame {
            meet(frame.pointee.deadline)
            meet(frame.pointee.mode)
        }
        // A foreign loop waits as well, perhaps in a callback of that run.
        if pointee.asleepOutside != nil, let mode = pointee.waitMode {
            meet(pointee.waitEnd)
            meet(mode)
        }
        unlock()
        return next
    }

    /// `RLSetClock`: nil for the system's clock. False if the loop is not the caller's, runs, has ended, or has timers (S-CLK-2).
    func setClock(_ clock: ManualClockPointer?) -> Bool {
        guard RunLoop.currentIfMade() == self, !isRunning, mayRun, pointee.threadAlive.load(ordering: .acquiring) else { return false }
        lock()
        // A common item may be in no mode (S-MODE-26).
        var hasTimers = pointee.commonTimers.count > 0
        forEachModeRecord { if $0.pointee.timerCount > 0 || !$0.pointee.timers.isEmpty { hasTimers = true } }
        var former: ManualClockPointer?
        if !hasTimers {
            // The stores begin anew: they know what time it is.
            forEachModeRecord { mode in
                mode.pointee.timers.free()
                mode.pointee.timers = TimerStore()
            }
            // What is held until an instant of the other clock is looked at again.
            pointee.waits.expireAll()
            clock?.retain()
            pointee.isClockStale = true
            pointee.waitMode = nil
            pointee.rests = false
            pointee.lastMove.store(0, ordering: .relaxed)
            former = exchangeClock(clock)
            // A move that is announced later finds the loop.
            clockTime = clock?.goal ?? 0
        }
        unlock()
        if hasTimers { return false }
        lookAgainIfForeign()
        if let former {
            // A thread that moves that clock, or another loop that falls asleep, may have found the loop before it got the new one: it would
            // count as a loop with that clock that runs.
            _ = former.settle(nil)
            former.release()
        }
        return true
    }

    /// The thread ends: no thread waits for the loop any more.
    func leaveClock() {
        // Which only this thread has set.
        guard let clock = manualClock else { return }
        // What it has woken may have slept when another loop looked.
        clock.expectSettled()
        lock()
        _ = exchangeClock(nil)
        pointee.rests = false
        unlock()
        _ = clock.settle(nil)
        clock.release()
    }
}
