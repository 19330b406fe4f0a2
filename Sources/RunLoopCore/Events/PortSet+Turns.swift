// SPDX-License-Identifier: MIT
// Which of the events that are ready together has its turn.

extension PortSet {
    /// An event that the kernel reported is chosen: the slots that are always ready have the next turn.
    mutating func chooseOfKernel() { servedAlwaysReady = false }

    // MARK: Of a batch of events. Those that are not chosen come again, in an order that says nothing.

    /// How many turns of others there were since the port of an event had its last.
    @inline(never)
    func age(_ token: UInt64) -> UInt32 {
        switch token {
        case EpollSet.mainQueueToken: return turn &- shared.mainQueueServed
        case EpollSet.notifierToken: return turn &- shared.notifierServed
        default: return turn &- (slots.find(Int(token & 0xffff_ffff))?.pointee.served ?? 0)
        }
    }

    /// The event is chosen.
    @inline(never)
    mutating func takeTurn(_ token: UInt64) {
        turn &+= 1
        switch token {
        case EpollSet.mainQueueToken: shared.mainQueueServed = turn
        case EpollSet.notifierToken: shared.notifierServed = turn
        default: slots.find(Int(token & 0xffff_ffff))?.pointee.served = turn
        }
        chooseOfKernel()
    }

    /// A number below `limit` that looks like chance, another one each turn.
    func chanceOfTurn(_ limit: Int) -> Int { Int((turn &* 0x9e37_79b1) >> 8) % limit }

    /// Whether an event may be of interest to a watch that signals, or says something about the set.
    @inline(never)
    func concernsSockets(_ token: UInt64) -> Bool {
        if token >= EpollSet.notifierToken { return false }
        guard let slot = slots.find(Int(token & 0xffff_ffff)), slot.pointee.isCurrent(token) else { return true }
        // An edge-triggered event does not come again unless it is accepted, which makes it level-triggered.
        if slot.pointee.marks.contains(.edge) { return true }
        for place in 0..<slot.pointee.members.count where slot.pointee.members[place].isSignallingWatch { return true }
        return false
    }

    // MARK: Of the slots that are always ready

    /// Signals the watches that signal on slots that are always ready. No turn is taken by it.
    @inline(never)
    mutating func signalAlwaysReady(in mode: ModePointer, signalled: inout Bool) {
        guard signalsAlwaysReady else { return }
        for place in 0..<alwaysReady.count {
            let index = alwaysReady[place]
            let slot = slots[index]
            guard slot.pointee.state == .alwaysReady else { continue }
            let wanted = slot.pointee.wanted(bySignalling: true)
            if wanted.isEmpty { continue }
            let ready = mustLook(slot) ? readiness(of: Int32(index), wanted, believed: wanted) : wanted
            if ready.isEmpty { slot.pointee.lose() } else { _ = signalMembers(slot, ready, in: mode, &signalled) }
        }
    }

    /// The next turn of the slots that are always ready, after all watches that signal on such slots were signalled.
    @inline(never)
    mutating func takeAlwaysReady(in mode: ModePointer, signalled: inout Bool) -> (token: UInt64, ready: Readiness)? {
        signalAlwaysReady(in: mode, signalled: &signalled)
        // Those that signal stay in the queue: each is met once.
        for _ in 0..<alwaysReady.count {
            guard let index = alwaysReady.first else { return nil }
            alwaysReady.removeFirst()
            let slot = slots[index]
            slot.pointee.marks.remove(.queued)
            guard slot.pointee.state == .alwaysReady else { continue }
            if slot.pointee.hasLimited { withdrawSpent(slot, in: mode) }
            let wanted = slot.pointee.wanted(bySignalling: false)
            if wanted.isEmpty {
                _ = enqueueAlwaysReady(index)
                continue
            }
            let ready = mustLook(slot) ? readiness(of: Int32(index), wanted, believed: wanted) : wanted
            if ready.isEmpty {
                slot.pointee.lose()
                continue
            }
            _ = enqueueAlwaysReady(index)
            servedAlwaysReady = true
            return (slot.pointee.token(index), ready)
        }
        return nil
    }

    /// Queues an always ready slot for a turn if it is of interest, to `newest` if that is the only member of which it is not known. True if it was
    /// not queued before.
    @inline(never)
    mutating func enqueueAlwaysReady(_ index: Int, for newest: SourcePointer? = nil) -> Bool {
        let slot = slots[index]
        if let newest {
            if slot.pointee.interest(of: newest).isEmpty { return false }
            if newest.isSignallingWatch { signalsAlwaysReady = true }
        } else {
            if !slot.pointee.wanted(bySignalling: true).isEmpty { signalsAlwaysReady = true }
            if slot.pointee.wanted.isEmpty { return false }
        }
        if slot.pointee.marks.contains(.queued) { return false }
        slot.pointee.marks.insert(.queued)
        alwaysReady.append(index)
        return true
    }
}
