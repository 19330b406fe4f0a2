// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What a wait asks the kernel, and which of the ports that are ready it chooses.
extension UnsafeMutablePointer where Pointee == RunLoop {
    enum PollResult {
        case event(Event)
        /// No source is interested in what was ready, or it was the notifier of files, which may have made an inbox ready.
        case lookAgain
        case nothing
    }

    /// Asks for ports that are ready, without waiting for them.
    @inline(always)
    func poll(_ frame: RunFramePointer, _ look: Look, polls: Bool, _ hasNotified: inout Bool) -> PollResult {
        var signalled = false
        // A poll goes on to other events; the poll of a host's run is its wait.
        let endsBySignal = !polls || frame.pointee.foreign != nil
        if look.has(.prefersAlwaysReady), let event = chooseAlwaysReady(frame, &signalled) { return .event(event) }
        // When the notifier of files is ready a second time, all others have come before it: events that keep coming do not delay
        // the end of the wait.
        if look.has(.hasSockets) && look.set.isOpen {
            // A port that is ready too has its turn: the sockets perform in the next pass in any case.
            if let chosen = fetchAll(frame, look.set, until: nil, &signalled, passesNotifierOver: hasNotified).chosen {
                if let event = choose(chosen, frame) { return .event(event) }
                hasNotified = true
                if !(signalled && endsBySignal) { return .lookAgain }
            }
        } else if look.has(.hasPorts) && look.set.isOpen, case .ready(let token, let events) = look.set.poll(),
            !(hasNotified && token == EpollSet.notifierToken)
        {
            if let event = choosePort(token, events, frame, &signalled) { return .event(event) }
            if token == EpollSet.notifierToken { hasNotified = true }
            return .lookAgain
        }
        if look.has(.hasAlwaysReady), let event = chooseAlwaysReady(frame, &signalled) { return .event(event) }
        return signalled && endsBySignal ? .event(chooseSignals(frame)) : .nothing
    }

    /// The event for what the kernel reported, nil if no source is interested in it.
    func choosePort(_ token: UInt64, _ events: UInt32, _ frame: RunFramePointer, _ signalled: inout Bool) -> Event? {
        let mode = frame.pointee.mode
        lock(owner: true)
        if token >= EpollSet.notifierToken {
            mode.pointee.ports.chooseOfKernel()
            unlock(owner: true)
            if token == EpollSet.mainQueueToken { return endWait(frame, with: .mainQueue) }
            // The inboxes of this mode that this makes ready are served first; the notifier itself is not served.
            mode.pointee.servedInbox = false
            if NotifierPort.shared.pointee.read?() == false {
                lock(owner: true)
                mode.pointee.ports.putOffNotifier(until: Clock.now() + Clock.retryDelay)
                unlock(owner: true)
            }
            return nil
        }
        let ready = mode.pointee.ports.accept(token: token, events: events, in: mode, signalled: &signalled)
        if ready != nil { mode.pointee.ports.chooseOfKernel() }
        unlock(owner: true)
        guard let ready else { return nil }
        return endWait(frame, with: .port(token: token, ready: ready))
    }

    /// The event of a descriptor that is always ready, nil if there is none of interest.
    private func chooseAlwaysReady(_ frame: RunFramePointer, _ signalled: inout Bool) -> Event? {
        let mode = frame.pointee.mode
        lock(owner: true)
        let taken = mode.pointee.ports.takeAlwaysReady(in: mode, signalled: &signalled)
        unlock(owner: true)
        guard let taken else { return nil }
        return endWait(frame, with: .port(token: taken.token, ready: taken.ready))
    }

    /// Sockets were signalled: as after a wake-up, the next pass follows and performs them (S-SOCK-54).
    func chooseSignals(_ frame: RunFramePointer) -> Event {
        let event = endWait(frame, with: .none)
        // The wait that a host makes is a poll here, and this ends it.
        if frame.pointee.foreign != nil { frame.pointee.wasWoken = true }
        return event
    }

    /// The event that `fetchAll` chose; nil if it was the notifier of files.
    func choose(_ chosen: rl_event, _ frame: RunFramePointer) -> Event? {
        if chosen.token < EpollSet.notifierToken {
            return endWait(frame, with: .port(token: chosen.token, ready: Readiness(rawValue: chosen.events)))
        }
        var signalled = false
        return choosePort(chosen.token, chosen.events, frame, &signalled)
    }

    /// Signals all sockets that are ready (S-SOCK-53), and chooses one of the other events, unless it is only to signal. For a mode
    /// with sockets.
    ///
    /// A wait passes over the ports if the first of them came after a socket, once: the next pass performs the sockets and then
    /// serves them (S-SOCK-54).
    ///
    /// The other events are level-triggered and come again. The kernel moves all that one call returns to the end of its list
    /// together, which does not rotate them, and the next call may return others: the one whose last turn is longest ago has the next.
    @inline(never)
    func fetchAll(
        _ frame: RunFramePointer, _ epoll: EpollSet, until: Int64?, _ signalled: inout Bool, passesNotifierOver: Bool = false,
        onlySignals: Bool = false
    ) -> (chosen: rl_event?, wasRoused: Bool) {
        let mode = frame.pointee.mode
        let waits = until != nil || frame.pointee.foreign?.pointee.half.handledSource == false
        let mayPassOver = waits && !mode.pointee.ports.passesOver
        // Also if the ports that were passed over are not ready any more.
        mode.pointee.ports.passesOver = false
        let events = eventRoom()
        var (epoll, until, room) = (epoll, until, Int(RL_EVENTS))
        var chosen: rl_event?
        var oldest: UInt32 = 0
        // Further calls are made where one may not return all: what a call returns moves behind the rest. Once the event that came first
        // comes again, all have come.
        var calls = 0
        var first: UInt64 = 0
        var isRound = false
        while true {
            let count = epoll.waitForAll(until: until, events, room)
            var wasRoused = false
            lock(owner: true)
            for place in 0..<count {
                var event = events[place]
                if calls > 0 && event.token == first { isRound = true }
                if event.token == EpollSet.wakeToken {
                    wasRoused = true
                    continue
                }
                if passesNotifierOver && event.token == EpollSet.notifierToken { continue }
                if onlySignals && !mode.pointee.ports.concernsSockets(event.token) { continue }
                if event.token < EpollSet.notifierToken {
                    let ready = mode.pointee.ports.accept(
                        token: event.token, events: event.events, in: mode, signalled: &signalled)
                    guard let ready else { continue }
                    event.events = ready.rawValue
                }
                if chosen == nil { mode.pointee.ports.passesOver = mayPassOver && signalled }
                let age = mode.pointee.ports.age(event.token)
                if chosen == nil || age > oldest { (chosen, oldest) = (event, age) }
            }
            // An event may have shown that the set has to be made anew.
            epoll = mode.pointee.ports.epoll
            calls += 1
            // The sockets may be behind any number of others that were ready before a run. A wait need not find all at once.
            // In the set there may also be the main dispatch queue, the eventfd that wakes and a kept registration.
            let concerned = onlySignals ? mode.pointee.ports.count + 3 : mode.pointee.sockets.load(ordering: .relaxed)
            let covered = calls &* Int(RL_EVENTS)
            let isLast = count < Int(RL_EVENTS) || isRound || !epoll.isOpen
                || covered > concerned &+ (onlySignals ? 0 : Int(RL_EVENTS))
            if isLast, mode.pointee.ports.passesOver { chosen = nil }
            if isLast, !onlySignals, let chosen { mode.pointee.ports.takeTurn(chosen.token) }
            // Batches of one size could always begin at the same events: a last one is smaller, by chance.
            if !onlySignals && covered > concerned { room = mode.pointee.ports.chanceOfTurn(Int(RL_EVENTS) - 1) + 1 }
            unlock(owner: true)
            if isLast { return (chosen, wasRoused && calls == 1 && count == 1) }
            if calls == 1 { first = events[0].token }
            until = nil
        }
    }

    /// The array for `fetchAll`: on the stack it would take a call of malloc each time, because it is larger than what the compiler puts there.
    @inline(always)
    private func eventRoom() -> UnsafeMutablePointer<rl_event> {
        if let events = pointee.events { return events }
        let made = makeArray(rl_event.self, count: Int(RL_EVENTS))
        pointee.events = made
        return made
    }

    /// Signals the sockets that were ready before a run, for its first pass (S-SOCK-53).
    func signalReadySockets(_ frame: RunFramePointer) {
        let mode = frame.pointee.mode
        lock(owner: true)
        let epoll = mode.pointee.ports.epoll
        unlock(owner: true)
        var signalled = false
        if epoll.isOpen { _ = fetchAll(frame, epoll, until: nil, &signalled, onlySignals: true) }
        lock(owner: true)
        mode.pointee.ports.signalAlwaysReady(in: mode, signalled: &signalled)
        unlock(owner: true)
    }
}
