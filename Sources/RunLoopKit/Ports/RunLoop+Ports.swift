// SPDX-License-Identifier: MIT
extension RunLoop {
    /// Adds a port to a mode, so that the loop receives its messages there; one that is there already stays there
    /// once (S-NSRL-11).
    ///
    /// The loop keeps the port until it is removed from all modes or becomes invalid.
    ///
    /// - Parameters:
    ///   - port: the port to receive from. An invalid one receives nothing.
    ///   - mode: the mode; ``Mode/common`` stands for the common modes.
    /// - Threads: any.
    /// - Foundation: `add(_:forMode:)`.
    @_disfavoredOverload
    public func add(_ port: Port, forMode mode: Mode) {
        guard let (known, change) = ports.insert(port, mode, loop: self) else { return }
        known.schedule(in: self, forMode: mode)
        settle(known, mode, after: change)
        // Whoever ended the thread or the port meanwhile may have come too early to find it.
        if !known.isValid { ports.forget(known.identity, if: known) }
        if executor.hasEnded { ports.forgetAll() }
    }

    /// Removes a port from a mode; what is sent to it waits in its queue.
    ///
    /// - Parameters:
    ///   - port: the port, or one equal to it: the one that was added is told (S-NSP-17).
    ///   - mode: the mode; one that does not have the port is left alone. ``Mode/common`` takes a port that was added under it
    ///     out of all common modes.
    /// - Threads: any.
    /// - Foundation: `remove(_:forMode:)`.
    @_disfavoredOverload
    public func remove(_ port: Port, forMode mode: Mode) {
        guard let (known, change) = ports.remove(port, mode, loop: self) else { return }
        known.remove(from: self, forMode: mode)
        settle(known, mode, after: change)
    }

    /// The caller has done at the port what it had noted in the table. Other threads may have changed the table meanwhile, and done their
    /// part at the port before the caller's: whoever comes last brings the port to where the table says.
    private func settle(_ port: Port, _ mode: Mode, after change: LoopPorts.Change) {
        var change = change
        // Where the caller has put ports, or may have: whichever of them the table has, and none, by the time of the last look.
        var touched: [(port: Port, modes: Set<Mode>)] = [(port, [mode])]
        while let now = ports.place(of: port, ifChangedSince: change) {
            change = now.change
            for other in touched where other.port !== now.port {
                for mode in other.modes { other.port.remove(from: self, forMode: mode) }
            }
            guard let known = now.port else { continue }
            let index = touched.firstIndex { $0.port === known } ?? touched.count
            if index == touched.count { touched.append((known, [])) }
            touched[index].modes.formUnion(now.names)
            now.modes.place(
                also: touched[index].modes.union([mode]), common: commonModes,
                add: {
                    touched[index].modes.insert($0)
                    known.schedule(in: self, forMode: $0)
                }, remove: { known.remove(from: self, forMode: $0) })
        }
    }
}

/// Which ports a loop has in which modes. It keeps the ports and, as long as it has any, the loop's object: the
/// table has to be the same for whoever asks for the loop. The end of the thread empties it.
// Sendable: the table is locked.
final class LoopPorts: @unchecked Sendable {
    /// The number of the change that a port's entry is from; 0 for a port that has none.
    typealias Change = Int

    private struct Entry {
        var modes = ModeSet()
        /// All modes that it was added to or removed from by name.
        var names: Set<RunLoop.Mode> = []
        var change = 0
        let port: Port
        let loop: RunLoop
        let observations: [Observation]
    }

    private struct Observation {
        let centre: NotificationCenter
        let observation: NotificationCenter.Observation

        func end() { centre.removeObserver(observation) }
    }

    private struct State {
        /// By what makes a port the same as another: equal ones of a remote address are one here (S-NSP-17).
        var entries: [ObjectIdentifier: Entry] = [:]
        /// How many there were, of all entries.
        var changes = 0
        /// How many threads ask a port to do what the table says, from their change of the table on. Meanwhile a call that finds the table as
        /// it wants it asks as well: it must not return before that is so. In the child of a fork a thread that is not there stays here,
        /// where that costs a call.
        var asking: [ObjectIdentifier: Int] = [:]

        mutating func noteChange(of id: ObjectIdentifier, _ mode: RunLoop.Mode) -> (Port, Change) {
            changes += 1
            entries[id]!.change = changes
            entries[id]!.names.insert(mode)
            return (entries[id]!.port, startAsking(id))
        }

        /// The caller asks the port from now on, whose entry may be gone.
        mutating func startAsking(_ id: ObjectIdentifier) -> Change {
            asking[id, default: 0] += 1
            return entries[id]?.change ?? 0
        }
    }

    private let state = Locked(State())
    /// The end of the loop's thread is watched.
    private let isWatched = Locked(false)

    private func watchEnd(of loop: RunLoop) {
        let isNew = isWatched.withLock { isWatched in
            defer { isWatched = true }
            return !isWatched
        }
        if isNew { _ = loop.executor.atEnd { [weak self] in self?.forgetAll() } }
    }

    /// The common modes, if a change of the port's modes depends on them.
    private func commonModes(for id: ObjectIdentifier, _ mode: RunLoop.Mode, _ loop: RunLoop) -> Set<RunLoop.Mode> {
        let isNeeded = state.withLock { $0.entries[id]?.modes.dependsOnCommonModes(mode) ?? false }
        return isNeeded ? loop.commonModes : []
    }

    /// Notes that the loop has the port in the mode.
    ///
    /// - Returns: whom the caller asks to be there, the port or an equal one that the loop has; nil if it is there.
    func insert(_ port: Port, _ mode: RunLoop.Mode, loop: RunLoop) -> (Port, Change)? {
        let id = port.identity
        let common = commonModes(for: id, mode, loop)
        enum Known { case no, unchanged, changed(Port, Change) }
        let known: Known = state.withLock { state in
            guard let entry = state.entries[id] else { return .no }
            if state.entries[id]!.modes.insert(mode, common: common) {
                let (port, change) = state.noteChange(of: id, mode)
                return .changed(port, change)
            }
            return state.asking[id] == nil ? .unchanged : .changed(entry.port, state.startAsking(id))
        }
        switch known {
        case .unchanged: return nil
        case .changed(let port, let change): return (port, change)
        case .no: break
        }
        watchEnd(of: loop)
        // The centre has a lock of its own, and an observer of the port may be on the stack.
        let observations = port.observedEnds.map { centre, sender in
            Observation(
                centre: centre,
                observation: centre.addObserver(
                    forName: Port.didBecomeInvalidNotification, object: sender, queue: nil
                ) { [weak self] _ in self?.forget(id) })
        }
        let entry = Entry(port: port, loop: loop, observations: observations)
        let change: (Port, Change)? = state.withLock { state in
            guard state.entries[id] == nil else { return nil }
            state.entries[id] = entry
            _ = state.entries[id]!.modes.insert(mode, common: [])
            return state.noteChange(of: id, mode)
        }
        if change == nil {
            // Another thread added the port meanwhile.
            for observation in observations { observation.end() }
            return insert(port, mode, loop: loop)
        }
        return change
    }

    /// Notes that the loop does not have the port in the mode any more.
    ///
    /// - Returns: whom the caller asks not to be there, the port or the equal one that was added; nil if it is not there.
    func remove(_ port: Port, _ mode: RunLoop.Mode, loop: RunLoop) -> (Port, Change)? {
        let id = port.identity
        let common = commonModes(for: id, mode, loop)
        let (change, last): ((Port, Change)?, Entry?) = state.withLock { state in
            guard state.entries[id]?.modes.remove(mode, common: common) == true else {
                if state.asking[id] == nil { return (nil, nil) }
                return ((state.entries[id]?.port ?? port, state.startAsking(id)), nil)
            }
            let (known, change) = state.noteChange(of: id, mode)
            return state.entries[id]!.modes.isEmpty
                ? ((known, 0), state.entries.removeValue(forKey: id)) : ((known, change), nil)
        }
        if let last { for observation in last.observations { observation.end() } }
        return change
    }

    /// Where the port is by the table, and since which change, unless the caller has asked it for that; then it asks no more. The last look and
    /// the end of asking are one: who comes later changes the table later.
    func place(
        of port: Port, ifChangedSince change: Change
    ) -> (change: Change, port: Port?, modes: ModeSet, names: Set<RunLoop.Mode>)? {
        let id = port.identity
        let isValid = port.isValid
        return state.withLock { state in
            let entry = state.entries[id]
            if isValid, (entry?.change ?? 0) != change {
                return (entry?.change ?? 0, entry?.port, entry?.modes ?? ModeSet(), entry?.names ?? [])
            }
            let others = state.asking[id]! - 1
            state.asking[id] = others == 0 ? nil : others
            return nil
        }
    }

    /// The port has become invalid.
    ///
    /// - Parameter port: with it only if it is the one that the loop has, and not an equal one.
    func forget(_ id: ObjectIdentifier, if port: Port? = nil) {
        let entry = state.withLock { state in
            if let port, state.entries[id]?.port !== port { return nil as Entry? }
            return state.entries.removeValue(forKey: id)
        }
        if let entry { for observation in entry.observations { observation.end() } }
    }

    /// The loop's thread has ended, and its modes are empty.
    func forgetAll() {
        let all = state.withLock { state in
            let all = Array(state.entries.values)
            state.entries = [:]
            return all
        }
        for entry in all {
            for observation in entry.observations { observation.end() }
            for mode in entry.modes.names { entry.port.remove(from: entry.loop, forMode: mode) }
        }
    }
}
