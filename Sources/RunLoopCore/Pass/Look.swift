// SPDX-License-Identifier: MIT
/// What a wait finds when it looks once: all that its decision depends on, and nothing else. `RunLoop.look` takes it under the
/// loop's lock; `decide` is a pure function of it. The library's own waits and those that a foreign loop makes
/// (`ForeignRun+Sleep`) decide alike.
struct Look {
    var facts: Facts
    /// The next instant at which there is something to do: the deadline, the next timer, the next attempt at what the kernel refused.
    var until: Int64
    /// Where to ask for ports.
    var set = EpollSet()

    struct Facts: OptionSet {
        let rawValue: UInt32

        private init(_ bit: UInt32) { rawValue = 1 << bit }
        init(rawValue: UInt32) { self.rawValue = rawValue }

        /// The wait ends no matter what is ready: it is a poll, there is a wake-up or a stop, or the deadline has passed.
        static var isOver: Facts { Facts(0) }
        /// Among the reasons is a wake-up or a stop.
        static var isWoken: Facts { Facts(1) }
        static var timersDue: Facts { Facts(2) }
        static var inboxReady: Facts { Facts(3) }
        /// The main dispatch queue has something, and there is no set that would report it.
        static var mainQueueReady: Facts { Facts(4) }
        /// The mode has ports, or it serves the main dispatch queue.
        static var hasPorts: Facts { Facts(5) }
        /// Some of these ports are always ready: the kernel does not report those (`PortSet`).
        static var hasAlwaysReady: Facts { Facts(6) }
        /// Such a port has its turn before those that the kernel reports.
        static var prefersAlwaysReady: Facts { Facts(7) }
        static var hasSockets: Facts { Facts(8) }
        static var hasInboxes: Facts { Facts(9) }
        /// The kernel had no room for a port.
        static var isRefused: Facts { Facts(10) }
        /// The last event of the mode was the timers: if a port is ready too, it is next (S-PASS-10).
        static var servedTimers: Facts { Facts(11) }
        /// The last port of the mode was an inbox: if a descriptor is ready too, it is next (S-PASS-14).
        static var servedInbox: Facts { Facts(12) }
        /// A rousing ended the last sleep in the set. The set returns its events in the order in which they came, so there was
        /// none before it.
        static var wasRoused: Facts { Facts(13) }
        /// A poll of the ports followed this look and found nothing.
        static var hasPolled: Facts { Facts(14) }
        /// Time goes on by itself if no port is ready: the wait asks the kernel before it sleeps (S-CLK-9).
        static var pollsFirst: Facts { Facts(15) }
        /// The log has to report that sources wait for the ends of their periods.
        static var hasUntold: Facts { Facts(16) }

        // As literals these would be arrays, made in each wait, where the optimizer has much else to inline.

        /// What has its turn without the kernel.
        static var due: Facts { timersDue.union(inboxReady) }
        /// What makes the wait ask the kernel before it sleeps or ends.
        static var calls: Facts { isOver.union(mainQueueReady).union(pollsFirst).union(isReady) }
        /// What is ready as far as the kernel is not asked.
        static var isReady: Facts { due.union(hasAlwaysReady) }
        /// What may have the turn instead of timers.
        static var turns: Facts { hasPorts.union(inboxReady) }
        /// What the log has to tell.
        static var problems: Facts { isRefused.union(hasUntold) }
        static var isRoused: Facts { isWoken.union(wasRoused) }
    }

    enum Decision: Equatable {
        case serve(Choice)
        /// Ask for ports that are ready. If none is, decide again.
        case poll
        /// Sleep until that instant.
        case sleep(until: Int64)
        /// Nothing that this look saw is there any more.
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

    @inline(always)
    func has(_ fact: Facts) -> Bool { !facts.isDisjoint(with: fact) }

    /// Timers take turns with ports, and inboxes with descriptors. What has its turn is served at once; before anything else, and
    /// before its end, the wait asks the kernel.
    @inline(always)
    func decide() -> Decision {
        if !has(.hasPolled) {
            if has(.timersDue) && !(has(.servedTimers) && has(.turns)) { return .serve(.timers) }
            if has(.inboxReady) && !(has(.servedInbox) && has(.hasPorts)) { return .serve(.inbox) }
            if !has(.calls) { return .sleep(until: until) }
            let hasAsked = has(.wasRoused) && has(.isWoken) && !has(.isReady)
            if !hasAsked { return .poll }
        }
        if has(.inboxReady) { return .serve(.inbox) }
        if has(.mainQueueReady) { return .serve(.mainQueue) }
        if has(.timersDue) { return .serve(.timers) }
        if has(.isOver) { return .serve(.nothing) }
        return has(.pollsFirst) && !has(.hasAlwaysReady) ? .sleep(until: until) : .lookAgain
    }
}
