import CLinux
import Synchronization

/// Step P10: waiting for one event, in the futex of the wake word, or in epoll if the mode has ports.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The event to serve; with `polls` without waiting for it, unless that becomes false. The wait ends by a ready port, a due
    /// timer, a wake-up, a stop or the deadline, and by nothing else (S-PASS-16): whatever merely ends a sleep leads to another
    /// look and another sleep.
    @inline(__always)
    func wait(_ frame: RunFramePointer, polls: inout Bool) -> Event {
        let mode = frame.pointee.mode
        // A poll in a mode with neither timers nor ports nor inboxes has nothing to look at.
        if polls {
            lock(owner: true)
            let needsKernel = mode.pointee.ports.needsKernel
            let isBare = !needsKernel && mode.pointee.timers.isEmpty && mode.pointee.inboxCount == 0
            unlock(owner: true)
            if isBare && !servesMainQueue(in: mode) { return takeWakeUp(frame) }
            if needsKernel && isWaitNext(frame) { polls = false }
        }
        return waitForEvent(frame, polls: polls)
    }

    /// Whether the poll of a pass that handled a source is followed by the next pass's wait, with nothing to call between them:
    /// then that wait serves for both, which saves asking the kernel twice.
    ///
    /// It stands for all from the poll, which found nothing, to the wait of the next pass. There P14, P1 and P4 to P8 have
    /// nothing to do, as this look finds, after which no code of the client runs on this thread; what other threads bring from
    /// now on could as well have come a little later. No observer tells the two passes from one. P15 would have gone on: a port
    /// is in the mode, and a stop and the deadline end the wait as they end the poll.
    @inline(never)
    private func isWaitNext(_ frame: RunFramePointer) -> Bool {
        let mode = frame.pointee.mode
        if frame.pointee.polls || frame.pointee.returnsAfterSource || frame.pointee.hasReply || frame.pointee.foreign != nil { return false }
        if hasSignalledSources || mayHavePosts(for: mode) { return false }
        if mode.pointee.observedActivities.load(ordering: .relaxed) != 0 || servesMainQueue(in: mode) { return false }
        return requests.pointee.count.load(ordering: .relaxed) == 0 && orderedRequests.pointee.count.load(ordering: .relaxed) == 0
    }

    @inline(never)
    private func waitForEvent(_ frame: RunFramePointer, polls: Bool) -> Event {
        let mode = frame.pointee.mode
        // A callback ran a foreign loop, which left this one asleep.
        if pointee.asleepOutside != nil { wakeFromOutside() }
        var wasRoused = false
        var hasNotified = false
        while true {
            let word = pointee.wake.load(ordering: .sequentiallyConsistent)
            if word == WakeState.lookAgain {
                _ = pointee.wake.compareExchange(
                    expected: word, desired: WakeState.awake, ordering: .sequentiallyConsistent)
            }
            let isAttending = pointee.isAttending
            if isAttending && !goesOnAttending(frame) {
                endAttention(handingTo: frame.pointee.outer)
                frame.pointee.wokenByInner = true
            }
            let isWoken = word == WakeState.wakeUp || isAttending || frame.pointee.wokenByInner || isStopRequested(frame)

            // Timers that are due, alternating with ports that are ready (S-PASS-10).
            let servesMainQueue = servesMainQueue(in: mode)
            lock(owner: true)
            mode.pointee.ports.watchMainQueue(servesMainQueue)
            let hasTimers = !mode.pointee.timers.isEmpty
            let hasPorts = mode.pointee.ports.needsKernel
            var timersDue = false
            var nextTimer = Clock.never
            if hasTimers {
                timersDue = mode.pointee.timers.hasDue(Clock.dueLimit(readClock(frame)))
                if !timersDue { nextTimer = mode.pointee.timers.nextWake() }
            }
            let allPortsTold = !hasPorts || mode.pointee.ports.retry()
            let nextDeferred = hasPorts ? mode.pointee.ports.nextDeferred { readClock(frame) } : Clock.never
            let epoll = mode.pointee.ports.epoll
            let hasSockets = mode.hasSockets
            let hasSteady = hasPorts && mode.pointee.ports.hasSteady
            let prefersSteady = hasSteady && mode.pointee.ports.prefersSteady
            let hasInboxes = mode.pointee.inboxCount > 0
            let inboxReady = hasInboxes && hasReadyInboxLocked(in: mode)
            unlock(owner: true)
            if process.pointee.lostDescriptor.load(ordering: .relaxed) { tellLosses() }
            if !allPortsTold { Log.once(.noDescriptor, "RunLoop", ": no descriptor for a port source; trying again") }

            if timersDue && !(mode.pointee.servedTimers && (hasPorts || inboxReady)) { return serveTimers(frame) }
            if inboxReady && !(mode.pointee.servedInbox && hasPorts) { return serveInbox(frame) }
            let isOver = polls || isWoken || timersDue || inboxReady
                || (frame.pointee.deadline != Clock.never && readClock(frame) >= frame.pointee.deadline)
            // The set gave its events in the order in which they came, and the last was the rousing: there was no other before
            // it.
            if wasRoused && isWoken && !timersDue && !inboxReady && !hasSteady { return takeWakeUp(frame) }
            if isOver || hasSteady {
                var signalled = false
                // A poll goes on to other events; that of a host's run is its wait.
                let endsBySignal = !polls || frame.pointee.foreign != nil
                if prefersSteady, let event = serveSteady(frame, &signalled) { return event }
                // The notifier of files that is ready a second time had all others before it: what comes on and on holds up no end.
                if hasSockets && epoll.isOpen {
                    let chosen = fetchAll(frame, epoll, until: nil, &signalled, passesNotifierOver: hasNotified).chosen
                    if signalled && endsBySignal { return serveSignals(frame) }
                    if let chosen {
                        if let event = serve(chosen, frame) { return event }
                        hasNotified = true
                        continue
                    }
                } else if hasPorts && epoll.isOpen, case .ready(let token, let events) = epoll.poll(),
                    !(hasNotified && token == EpollSet.notifierToken)
                {
                    if let event = servePort(token, events, frame, &signalled) { return event }
                    if token == EpollSet.notifierToken { hasNotified = true }
                    continue
                }
                if hasSteady, let event = serveSteady(frame, &signalled) { return event }
                if signalled && endsBySignal { return serveSignals(frame) }
                if inboxReady { return serveInbox(frame) }
                // Nobody was interested in those that are always ready, and they are not there any more.
                if !isOver { continue }
                if servesMainQueue && !epoll.isOpen && MainQueue.isReady { return serveMainQueue(frame) }
                return timersDue ? serveTimers(frame) : takeWakeUp(frame)
            }

            // Nothing yet: sleep. The state goes from awake to asleep only if nobody said anything since `word` was read.
            var until = Swift.min(frame.pointee.deadline, nextTimer, nextDeferred)
            if !allPortsTold {
                // Without a set the queue is looked at by itself, as often as a set is tried for.
                if servesMainQueue && !epoll.isOpen && MainQueue.isReady { return serveMainQueue(frame) }
                until = Swift.min(until, readClock(frame) + 100_000_000)
            }
            pointee.waiting.store(true, ordering: .releasing)
            if spin(frame, until: until, watchesStack: hasInboxes) { continue }
            let inEpoll = hasPorts && epoll.isOpen
            if inEpoll { pointee.sleepingEpoll.store(epoll.descriptor, ordering: .releasing) }
            let asleep = inEpoll ? WakeState.asleepInEpoll : WakeState.asleepInFutex
            guard pointee.wake.compareExchange(
                expected: WakeState.awake, desired: asleep, ordering: .sequentiallyConsistent).exchanged
            else { continue }
            if until != Clock.never { until = earlier(until, inEpoll: inEpoll, now: readClock(frame)) }
            // Who makes an inbox ready pushes it and then tells a loop that sleeps; so one of the two sees the other.
            let isStale = hasInboxes && pointee.signalled.load(ordering: .sequentiallyConsistent) != nil
            var ready: (token: UInt64, events: UInt32)?
            var chosen: rl_event?
            var signalled = false
            wasRoused = false
            if isStale {
                // No sleep: the next look takes the stack, so this comes once for each push.
            } else if inEpoll && hasSockets {
                (chosen, wasRoused) = fetchAll(frame, epoll, until: until, &signalled)
            } else if inEpoll {
                switch epoll.wait(until: until) {
                case .ready(let token, let events): ready = (token, events)
                case .roused: wasRoused = true
                case .none: break
                }
            } else {
                pointee.wake.futexWait(while: asleep, until: until)
            }
            frame.pointee.now = 0
            // Awake again, unless somebody said so first; what they said stays for the next look.
            _ = pointee.wake.compareExchange(
                expected: asleep, desired: WakeState.awake, ordering: .sequentiallyConsistent)
            if signalled { return serveSignals(frame) }
            if let chosen, let event = serve(chosen, frame) { return event }
            if let ready, let event = servePort(ready.token, ready.events, frame, &signalled) { return event }
        }
    }

    /// What to ask the kernel for in order to wake at an instant: it takes the liberty to be late by the thread's timer slack, in
    /// epoll by a thousandth of the wait if that is more, and mostly does. Whoever wakes before the instant for that sleeps
    /// again for what is left. What is nearer than the slack is asked for as it is: timers that close fire together.
    private func earlier(_ until: Int64, inEpoll: Bool, now: Int64) -> Int64 {
        if pointee.timerSlack < 0 { pointee.timerSlack = Swift.max(Int64(rl_timer_slack()), 0) }
        let distance = until - now
        let liberty = inEpoll ? Swift.max(pointee.timerSlack, distance / 1000) : pointee.timerSlack
        return distance > liberty ? until - liberty : until
    }

    @inline(never)
    private func tellLosses() {
        process.pointee.lostDescriptor.store(false, ordering: .relaxed)
        if !KernelEvent.tellLost() {
            Log.once(.lostDescriptor, "RunLoop", ": a descriptor of the library was closed or replaced; made anew")
        }
    }

    private func serveTimers(_ frame: RunFramePointer) -> Event {
        frame.pointee.mode.pointee.servedTimers = true
        _ = takeWakeUp(frame)
        return .timers
    }

    /// The event for what the kernel reported, nil if that interests nobody.
    private func servePort(_ token: UInt64, _ events: UInt32, _ frame: RunFramePointer, _ signalled: inout Bool) -> Event? {
        let mode = frame.pointee.mode
        lock(owner: true)
        if token >= EpollSet.notifierToken {
            mode.pointee.ports.acceptExtra()
            unlock(owner: true)
            if token == EpollSet.mainQueueToken { return serveMainQueue(frame) }
            // The inboxes of this mode that are ready by that are served first, and of the notifier nothing is.
            mode.pointee.servedInbox = false
            Notifier.shared.readEvents()
            return nil
        }
        let ready = mode.pointee.ports.accept(token: token, events: events, in: mode, signalled: &signalled)
        unlock(owner: true)
        guard let ready else { return nil }
        return servePort(token, ready, frame)
    }

    /// The event of a descriptor that is always ready, nil if there is none of interest.
    private func serveSteady(_ frame: RunFramePointer, _ signalled: inout Bool) -> Event? {
        let mode = frame.pointee.mode
        lock(owner: true)
        let steady = mode.pointee.ports.takeSteady(in: mode, signalled: &signalled)
        unlock(owner: true)
        guard let steady else { return nil }
        return servePort(steady.token, steady.ready, frame)
    }

    /// Signals all sockets that are ready (S-SOCK-53), and chooses one of the other events, each in its turn. For a mode with
    /// sockets.
    ///
    /// The other events are level triggered and come again. All that one call brings are moved to the end of the kernel's list
    /// together, which does not rotate them; a count does.
    @inline(never)
    private func fetchAll(
        _ frame: RunFramePointer, _ epoll: EpollSet, until: Int64?, _ signalled: inout Bool, passesNotifierOver: Bool = false
    ) -> (chosen: rl_event?, wasRoused: Bool) {
        let mode = frame.pointee.mode
        let room = Int(RL_EVENTS)
        return withUnsafeTemporaryAllocation(of: rl_event.self, capacity: room) { buffer in
            let events = buffer.baseAddress!
            var until = until
            // Further calls where one may not bring all: what a call brings moves behind the rest.
            var furtherCalls = mode.pointee.sockets.load(ordering: .relaxed) / room
            while true {
                let count = epoll.waitForAll(until: until, events)
                var others = 0
                var wasRoused = false
                lock(owner: true)
                for place in 0..<count {
                    var event = events[place]
                    if event.token == EpollSet.wakeToken {
                        wasRoused = true
                        continue
                    }
                    if passesNotifierOver && event.token == EpollSet.notifierToken { continue }
                    if event.token < EpollSet.notifierToken {
                        let ready = mode.pointee.ports.accept(
                            token: event.token, events: event.events, in: mode, signalled: &signalled)
                        guard let ready else { continue }
                        event.events = ready.rawValue
                    }
                    events[others] = event
                    others += 1
                }
                let chosen = others > 0 ? events[mode.pointee.ports.takeTurn(of: others)] : nil
                unlock(owner: true)
                if count < room || furtherCalls == 0 { return (chosen, wasRoused && count == 1) }
                furtherCalls -= 1
                until = nil
            }
        }
    }

    /// The event that `fetchAll` chose; nil if it was the notifier of files.
    private func serve(_ chosen: rl_event, _ frame: RunFramePointer) -> Event? {
        if chosen.token < EpollSet.notifierToken { return servePort(chosen.token, Readiness(rawValue: chosen.events), frame) }
        var signalled = false
        return servePort(chosen.token, chosen.events, frame, &signalled)
    }

    /// Signals the sockets that were ready before a run, for its first pass (S-SOCK-53).
    func signalReadySockets(_ frame: RunFramePointer) {
        let mode = frame.pointee.mode
        lock(owner: true)
        let epoll = mode.pointee.ports.epoll
        unlock(owner: true)
        var signalled = false
        if epoll.isOpen { _ = fetchAll(frame, epoll, until: nil, &signalled) }
        lock(owner: true)
        _ = mode.pointee.ports.takeSteady(in: mode, signalled: &signalled)
        unlock(owner: true)
    }

    /// Sockets were signalled: as by a wake-up the next pass follows, which performs them (S-SOCK-54).
    private func serveSignals(_ frame: RunFramePointer) -> Event {
        frame.pointee.mode.pointee.servedTimers = false
        frame.pointee.mode.pointee.servedInbox = false
        let event = takeWakeUp(frame)
        // The wait that a host makes is a poll here, and over by this.
        if frame.pointee.foreign != nil { frame.pointee.wasWoken = true }
        return event
    }

    private func servePort(_ token: UInt64, _ ready: Readiness, _ frame: RunFramePointer) -> Event {
        frame.pointee.mode.pointee.servedTimers = false
        frame.pointee.mode.pointee.servedInbox = false
        _ = takeWakeUp(frame)
        return .port(token: token, ready: ready)
    }

    private func serveInbox(_ frame: RunFramePointer) -> Event {
        frame.pointee.mode.pointee.servedTimers = false
        frame.pointee.mode.pointee.servedInbox = true
        _ = takeWakeUp(frame)
        return .inbox
    }

    private func serveMainQueue(_ frame: RunFramePointer) -> Event {
        frame.pointee.mode.pointee.servedTimers = false
        frame.pointee.mode.pointee.servedInbox = false
        _ = takeWakeUp(frame)
        return .mainQueue
    }

    /// Uses up the wake-ups that ended this wait, or would have (S-WAKE-2).
    private func takeWakeUp(_ frame: RunFramePointer) -> Event {
        let wasWoken = takeWakeUpOrAttend(frame)
        frame.pointee.wasWoken = wasWoken || frame.pointee.wokenByInner
        frame.pointee.wokenByInner = false
        return .none
    }

    /// Watches the wake word for the time of `RLSetSpinLimit` before the loop goes to sleep (S-WAKE-16). True if it changed.
    @inline(__always)
    private func spin(_ frame: RunFramePointer, until: Int64, watchesStack: Bool) -> Bool {
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
