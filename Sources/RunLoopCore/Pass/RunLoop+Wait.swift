// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Step P10: waiting for one event, in the futex of the wake word, or in epoll if the mode has ports. A wait looks (`look`), decides
/// (`Look.decide`) and carries out the decision, until there is an event. It ends by a ready port, a due timer, a wake-up, a stop or
/// the deadline, and by nothing else (S-PASS-16): whatever merely ends a sleep leads to another look and another sleep.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The wait of a pass, which is a poll after a handled source and in a run without time (P7).
    @inline(always)
    func wait(_ frame: RunFramePointer, _ half: HalfPass) -> Wait {
        if half.skipsWait { return Wait(event: .mainQueue, kind: .skipped) }
        guard half.handledSource || frame.pointee.polls else {
            return Wait(event: waitForEvent(frame, polls: false, goesOn: true), kind: .waited)
        }
        let mode = frame.pointee.mode
        lock(owner: true)
        // What the log has to report calls the client.
        let mayMerge = mode.pointee.ports.count > 0 && !pointee.waits.hasUntold
        let isBare = !mode.pointee.ports.needsKernel && mode.pointee.timers.isEmpty && mode.pointee.inboxCount == 0 && pointee.waits.isIdle
        unlock(owner: true)
        // A poll in a mode with neither timers nor ports nor inboxes has nothing to look at.
        if isBare && !servesMainQueue(in: mode) {
            endWait(frame)
            return Wait(event: .none, kind: .polled)
        }
        let waits = mayMerge && isWaitNext(frame)
        // A poll looks at the present only; but a run without time has no other look.
        let goesOn = waits || (frame.pointee.polls && !half.handledSource)
        return Wait(event: waitForEvent(frame, polls: !waits, goesOn: goesOn), kind: waits ? .waited : .polled)
    }

    /// The same where a foreign loop has waited: what is ready now.
    func waitOfHost(_ frame: RunFramePointer, _ half: HalfPass) -> Wait {
        if half.skipsWait { return Wait(event: .mainQueue, kind: .skipped) }
        return Wait(event: waitForEvent(frame, polls: true, goesOn: false), kind: half.handledSource ? .polled : .waited)
    }

    /// Whether the poll of a pass that handled a source is followed by the next pass's wait, with nothing to call between them:
    /// then that wait serves for both, which saves asking the kernel twice.
    ///
    /// It replaces everything from the poll, which found nothing, to the wait of the next pass. In between, P14, P1 and P4 to P8
    /// have nothing to do, as this check finds, after which no code of the client runs on this thread; what other threads add
    /// from now on could as well have come a little later. No observer can tell the two passes from one. P15 would have gone on:
    /// a port is in the mode (the main dispatch queue, which its set may still watch in a block of the queue, is no content), and a stop and
    /// the deadline end the wait as they end the poll.
    @inline(never)
    private func isWaitNext(_ frame: RunFramePointer) -> Bool {
        let mode = frame.pointee.mode
        if frame.pointee.polls || frame.pointee.returnsAfterSource || frame.pointee.hasReply { return false }
        if hasSignalledSources(in: mode) || mayHavePosts(for: mode) { return false }
        if mode.pointee.observedActivities.load(ordering: .relaxed) != 0 || servesMainQueue(in: mode) { return false }
        return requests.pointee.count.load(ordering: .relaxed) == 0 && orderedRequests.pointee.count.load(ordering: .relaxed) == 0
    }

    @inline(never)
    private func waitForEvent(_ frame: RunFramePointer, polls: Bool, goesOn: Bool) -> Event {
        // A callback ran a foreign loop, which left this one asleep.
        if pointee.asleepOutside != nil { wakeFromOutside() }
        var wasRoused = false
        var hasNotified = false
        while true {
            var isWoken = beginLook(frame)
            // After the request to look again, which a thread makes when the mode is a common one, has been taken.
            if hasMetCommon(frame) { isWoken = true }
            let ends = polls || isWoken
            var look = look(in: frame.pointee.mode, ends: ends, deadline: frame.pointee.deadline, goesOn: goesOn && !isWoken) { readClock(frame) }
            if isWoken { look.facts.insert(wasRoused ? .isRoused : .isWoken) }
            if hasProblems(look), callOutProblems(look) {
                // The client may have run the loop, or a foreign one.
                if pointee.asleepOutside != nil { wakeFromOutside() }
                wasRoused = false
                continue
            }

            var decision = look.decide()
            if case .poll = decision {
                switch poll(frame, look, polls: polls, &hasNotified) {
                case .event(let event):
                    if manualClock != nil { endRest() }
                    return event
                case .lookAgain: continue
                case .nothing: break
                }
                look.facts.insert(.hasPolled)
                decision = look.decide()
            }
            switch decision {
            case .serve(let choice): return choose(choice, frame)
            case .sleep(let until):
                let event = sleep(frame, look, until: until, &wasRoused)
                // Time has passed; and one that rests has another time, if the clock was moved.
                frame.pointee.now = 0
                if let event { return event }
            case .poll, .lookAgain: break
            }
        }
    }

    /// What is in a mode, as far as the loop knows without asking the kernel. `ends`: the wait is over in any case. `isOfHost`: a foreign loop
    /// waits. `goesOn`: the time of a clock that the program moves may go on.
    @inline(always)
    func look(in mode: ModePointer, ends: Bool, deadline: Int64, isOfHost: Bool = false, goesOn: Bool, now: () -> Int64) -> Look {
        var facts: Look.Facts = []
        var until = deadline
        let servesMainQueue = servesMainQueue(in: mode)
        lock(owner: true)
        mode.pointee.ports.watchMainQueue(servesMainQueue, MainQueue.shared.pointee.handle)
        if mode.pointee.servedTimers { facts.insert(.servedTimers) }
        if mode.pointee.servedInbox { facts.insert(.servedInbox) }
        var ends = ends
        var goesOn = goesOn
        if !pointee.waits.isIdle, releaseHeldLocked(in: mode, now: now()) {
            (ends, goesOn) = (true, false)
            // In a callback that wait has no frame.
            if isOfHost { wakeUp() }
        }
        var nextTry = Clock.never
        if mode.pointee.inboxCount > 0 {
            facts.insert(.hasInboxes)
            if mode.pointee.ports.shared.notified > 0 { nextTry = PortSet.tryFiles(nextTry) }
            if hasReadyInboxLocked(in: mode) { facts.insert(.inboxReady) }
        }
        if !pointee.waits.isIdle {
            if pointee.waits.hasUntold { facts.insert(.hasUntold) }
            until = Swift.min(until, heldEndLocked(in: mode))
        }
        if !mode.pointee.timers.isEmpty {
            if mode.pointee.timers.hasDue(dueLimit(now())) {
                facts.insert(.timersDue)
            } else {
                until = Swift.min(until, manualClock == nil ? mode.pointee.timers.nextWake() : mode.pointee.timers.exactWake())
                tellEnd(isOfHost ? Clock.never : until, of: mode)
            }
        }
        let next = until
        // Only what does not follow the program's clock limits the kernel's wait.
        if manualClock != nil { until = Clock.never }
        if isOfHost { mode.pointee.ports.endKept() }
        if mode.pointee.ports.needsKernel {
            facts.insert(.hasPorts)
            if !mode.pointee.ports.retry() { facts.insert(.isRefused) }
            until = Swift.min(until, mode.pointee.ports.nextDeferred())
            if mode.pointee.ports.isHaunted { facts.insert(.isRefused) }
            if mode.pointee.ports.hasAlwaysReady { facts.insert(.hasAlwaysReady) }
            if mode.pointee.ports.prefersAlwaysReady { facts.insert(.prefersAlwaysReady) }
            if mode.hasSockets { facts.insert(.hasSockets) }
        }
        until = Swift.min(until, nextTry)
        if manualClock != nil {
            pointee.isBlind.store(facts.contains(.isRefused), ordering: .releasing)
            facts.insert(goOnLocked(
                in: mode, to: goesOn && facts.isDisjoint(with: .due) ? next : nil, isOfHost: isOfHost))
        }
        let set = mode.pointee.ports.isHaunted ? EpollSet() : mode.pointee.ports.epoll
        unlock(owner: true)
        if ends || (facts.isDisjoint(with: .due) && deadline != Clock.never && now() >= deadline) { facts.insert(.isOver) }
        if facts.contains(.isRefused) {
            // Without a set the loop looks at the queue itself, as often as it tries to get a set.
            if servesMainQueue && !set.isOpen && MainQueue.isReady { facts.insert(.mainQueueReady) }
            until = Swift.min(until, Clock.now() + Clock.retryDelay)
        }
        return Look(facts: facts, until: until, set: set)
    }

    /// Whether the wait ends because its mode has become a common one since the pass began.
    @inline(always)
    func hasMetCommon(_ frame: RunFramePointer) -> Bool {
        if frame.pointee.common == .seen || !meetCommon(frame.pointee.mode, &frame.pointee.common) { return false }
        frame.pointee.wait = .aheadAndWoken
        return true
    }

    /// Publishes how long the wait may sleep, for threads that set dates of timers. The lock is held.
    @inline(always)
    private func tellEnd(_ until: Int64, of mode: ModePointer) {
        let frame = pointee.frame
        let isAlone = frame != nil && frame!.pointee.outer == nil && frame!.pointee.foreign == nil
        let hasPosts = pointee.posts.holes.count > 0 || !mode.pointee.waiting[.posts].pointee.isEmpty
            || !pointee.commonWaiting[.posts].pointee.isEmpty
        pointee.sleepsUntil.store(isAlone && !hasPosts ? until : Clock.never, ordering: .relaxed)
        pointee.seenPosts = pointee.posts.seen
    }

    /// Sleeps until something may have changed. Returns the event that ended the sleep, nil if a look has to find it.
    @inline(always)
    private func sleep(_ frame: RunFramePointer, _ look: Look, until: Int64, _ wasRoused: inout Bool) -> Event? {
        pointee.waiting.store(true, ordering: .releasing)
        if spin(until: until, watchesStack: look.has(.hasInboxes)) { return nil }
        let inEpoll = look.has(.hasPorts) && look.set.isOpen
        if inEpoll { pointee.sleepingEpoll.store(look.set.descriptor, ordering: .releasing) }
        let asleep = inEpoll ? WakeState.asleepInEpoll : WakeState.asleepInFutex
        let clock = manualClock
        clock?.expectSettled()
        guard fallAsleep(asleep) else { return nil }
        if let clock, clock.settle(self) {
            getUp(from: asleep)
            return nil
        }
        let until = until == Clock.never ? until : earlier(until, inEpoll: inEpoll, now: manualClock == nil ? readClock(frame) : Clock.now())
        // A call that makes an inbox ready pushes it and then checks whether the loop sleeps; so one of the two sees the other.
        let isStale = look.has(.hasInboxes) && pointee.signalled.load(ordering: .sequentiallyConsistent) != nil
        var ready: (token: UInt64, events: UInt32)?
        var chosen: rl_event?
        var signalled = false
        wasRoused = false
        if !isStale { pointee.counters.sleeps.count() }
        noteSleep(begins: true)
        if Trace.isWanted { recordSleep(.sleepBegin) }
        if isStale {
            // No sleep: the next look takes the stack, so this happens once for each push.
        } else if inEpoll && look.has(.hasSockets) {
            (chosen, wasRoused) = fetchAll(frame, look.set, until: until, &signalled)
        } else if inEpoll {
            switch look.set.wait(until: until) {
            case .ready(let token, let events): ready = (token, events)
            case .roused: wasRoused = true
            case .none: break
            }
        } else {
            pointee.wake.futexWait(while: asleep, until: until)
        }
        if Trace.isWanted { recordSleep(.sleepEnd) }
        getUp(from: asleep)
        if manualClock != nil { endRest() }
        if let chosen, let event = choose(chosen, frame) { return event }
        if signalled { return chooseSignals(frame) }
        if let ready { return choosePort(ready.token, ready.events, frame, &signalled) }
        return nil
    }

    /// A sleep begins, with until when, or ends, with what ended it.
    @inline(never)
    private func recordSleep(_ kind: TraceKind) {
        let wake = UInt8(truncatingIfNeeded: pointee.wake.load(ordering: .relaxed))
        record(kind, wake, item: kind == .sleepBegin ? UInt(bitPattern: Int(pointee.sleepsUntil.load(ordering: .relaxed))) : 0)
    }

    private func choose(_ choice: Look.Choice, _ frame: RunFramePointer) -> Event {
        if manualClock != nil { endRest() }
        switch choice {
        case .nothing:
            endWait(frame)
            return .none
        case .timers:
            frame.pointee.mode.pointee.servedTimers = true
            endWait(frame)
            return .timers
        case .inbox: return endWait(frame, with: .inbox, servesInbox: true)
        case .mainQueue: return endWait(frame, with: .mainQueue)
        }
    }

    /// Ends the wait with an event after which timers have their turn, and inboxes unless it is one (S-PASS-10, S-PASS-14).
    func endWait(_ frame: RunFramePointer, with event: Event, servesInbox: Bool = false) -> Event {
        frame.pointee.mode.pointee.servedTimers = false
        frame.pointee.mode.pointee.servedInbox = servesInbox
        endWait(frame)
        return event
    }

    /// The instant to ask the kernel for in order to wake at `until`: the kernel may be late by the thread's timer slack, in
    /// epoll by a thousandth of the wait if that is more, and mostly is. A loop that therefore wakes too early sleeps again for
    /// the rest. An instant nearer than the slack is asked for as it is: timers that close fire together.
    private func earlier(_ until: Int64, inEpoll: Bool, now: Int64) -> Int64 {
        if pointee.timerSlack < 0 { pointee.timerSlack = Swift.max(Int64(rl_timer_slack()), 0) }
        let distance = until - now
        let liberty = inEpoll ? Swift.max(pointee.timerSlack, distance / 1000) : pointee.timerSlack
        return distance > liberty ? until - liberty : until
    }

    @inline(always)
    func hasProblems(_ look: Look) -> Bool {
        process.pointee.losses.load(ordering: .relaxed) != pointee.seenLosses || look.has(.problems)
    }

    /// Logs what the library lost or was refused, and which sources have to wait. True if client code may have run, or the mode has another set, so that a
    /// look from before counts no more.
    @inline(never)
    func callOutProblems(_ look: Look) -> Bool {
        // Another loop may have found it at the same time.
        let hasNewSet = lookForLosses()
        let isLost = Losses.take()
        // The time stands in the client's code. Another look follows, with which the loop rests again.
        if manualClock != nil && (isLost || look.has(.hasUntold)) { endRest() }
        var isTold = false
        if isLost {
            // A thread that ends in one of the parts leaves the others to the next wait.
            callOutGuarded(
                { $0!.cast(to: Bool.self).pointee = process.pointee.tellLost?() == true }, &isTold,
                { _ in Losses.note() }, self)
        }
        if isLost && !isTold {
            Log.once(.lostDescriptor, "RunLoop", ": a descriptor of the library was closed or replaced; made anew")
        }
        let isRefused = look.has(.isRefused) && Log.once(.noDescriptor, "RunLoop", ": no descriptor for a port source; trying again")
        if look.has(.hasUntold) { tellHeld() }
        pointee.isClockStale = true
        return hasNewSet || isLost || isRefused || look.has(.hasUntold)
    }

    /// True if a set of the loop's was lost: another look follows.
    @inline(never)
    private func lookForLosses() -> Bool {
        let losses = process.pointee.losses.load(ordering: .sequentiallyConsistent)
        if losses == pointee.seenLosses { return false }
        var hasNewSet = false
        lock()
        forEachModeRecord { mode in
            var seen = pointee.seenLosses
            if mode.pointee.ports.epoll.isLost(&seen) {
                mode.pointee.ports.loseSet()
                hasNewSet = true
            }
        }
        pointee.seenLosses = losses
        unlock()
        return hasNewSet
    }

    /// Watches the wake word for the time of `RLSetSpinLimit` before the loop goes to sleep (S-WAKE-16). True if it changed.
    @inline(always)
    private func spin(until: Int64, watchesStack: Bool) -> Bool {
        let limit = pointee.spinLimit.load(ordering: .relaxed)
        if limit == 0 { return false }
        return spin(limit, until: until, watchesStack: watchesStack)
    }

    @inline(never)
    private func spin(_ limit: Int64, until: Int64, watchesStack: Bool) -> Bool {
        let end = Swift.min(Clock.now() + limit, until)
        repeat {
            for _ in 0..<64 {
                if pointee.wake.load(ordering: .acquiring) != WakeState.awake { return true }
                if watchesStack && pointee.signalled.load(ordering: .acquiring) != nil { return true }
                rl_pause()
            }
        } while Clock.now() < end
        return false
    }
}
