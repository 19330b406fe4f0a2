/// What a wait finds when it looks once: all that its decision depends on, and nothing else. `RunLoop.look` takes it under the
/// loop's lock; `decide` is a pure function of it. Waits of the library and of a foreign loop (`ForeignRun+Sleep`) decide alike.
struct Look {
    /// The wait ends whatever is ready: it is a poll, or there is a wake-up, a stop, or the deadline has passed.
    var isOver = false
    /// Among the reasons is a wake-up or a stop.
    var isWoken = false
    var timersDue = false
    var inboxReady = false
    /// Ports that are always ready: the kernel does not tell of them (`PortSet`).
    var hasAlwaysReady = false
    /// The main dispatch queue has something, and there is no set that would tell so.
    var mainQueueReady = false
    /// The mode has ports, or it serves the main dispatch queue.
    var hasPorts = false
    /// The last event of the mode was the timers: if a port is ready too, it is next (S-PASS-10).
    var servedTimers = false
    /// The last port of the mode was an inbox: if a descriptor is ready too, it is next (S-PASS-14).
    var servedInbox = false
    /// The last sleep in the set ended by the rousing. The set gives its events in the order in which they came, so there was
    /// none before it.
    var wasRoused = false
    /// This look was followed by a poll of the ports, which found nothing.
    var hasPolled = false
    /// When there is something to do by time alone: the deadline, the next timer, the next try of what the kernel refused.
    var until = Clock.never

    // For who carries the decision out.

    var set = EpollSet()
    var hasSockets = false
    var hasInboxes = false
    /// A port that is always ready has its turn before those that the kernel tells of.
    var prefersAlwaysReady = false
    /// The kernel had no room for a port.
    var isRefused = false

    enum Decision: Equatable {
        case serve(Choice)
        /// Ask for ports that are ready. If none is, decide again.
        case poll
        /// Sleep until that instant.
        case sleep(until: Int64)
        /// Nothing of what this look saw is there any more.
        case lookAgain
    }

    /// What can be served without asking the kernel for it.
    enum Choice {
        /// The wait is over and nothing is ready.
        case nothing
        case timers
        /// The inbox that has been ready longest.
        case inbox
        case mainQueue
    }

    /// Timers take turns with ports, and inboxes with descriptors. What has its turn is served at once; before anything else, and
    /// before the end of the wait, the kernel is asked.
    @inline(__always)
    func decide() -> Decision {
        if !hasPolled {
            if timersDue && !(servedTimers && (hasPorts || inboxReady)) { return .serve(.timers) }
            if inboxReady && !(servedInbox && hasPorts) { return .serve(.inbox) }
            if !isOver && !timersDue && !inboxReady && !hasAlwaysReady && !mainQueueReady { return .sleep(until: until) }
            let hasAsked = wasRoused && isWoken && !timersDue && !inboxReady && !hasAlwaysReady
            if !hasAsked { return .poll }
        }
        if inboxReady { return .serve(.inbox) }
        if mainQueueReady { return .serve(.mainQueue) }
        if timersDue { return .serve(.timers) }
        return isOver ? .serve(.nothing) : .lookAgain
    }
}
