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
        guard ports.insert(port, mode, loop: self) else { return }
        ports.carryOut(port, mode, loop: self)
        // Whoever ended the thread or the port meanwhile may have come too early to find it.
        if !port.isValid { ports.forget(ObjectIdentifier(port)) }
        if executor.hasEnded { ports.forgetAll() }
    }

    /// Removes a port from a mode; what is sent to it waits in its queue.
    ///
    /// - Parameters:
    ///   - port: the port.
    ///   - mode: the mode; one that does not have the port is left alone.
    /// - Threads: any.
    /// - Foundation: `remove(_:forMode:)`.
    @_disfavoredOverload
    public func remove(_ port: Port, forMode mode: Mode) {
        if ports.remove(port, mode) { ports.carryOut(port, mode, loop: self) }
    }
}

/// Which ports a loop has in which modes. It keeps the ports and, as long as it has any, the loop's object: the
/// table has to be the same for whoever asks for the loop. The end of the thread empties it.
///
/// The table says what is to be, and then the port is asked to do it, outside of the lock, because it may be the program's. Two threads may
/// do that at once, and the one that changed the table first may ask last. So each looks at the table again when the port has done what it
/// was asked, until both agree: the last one that asks leaves what the table says.
// Sendable: the table is locked.
final class LoopPorts: @unchecked Sendable {
    private struct Entry {
        var modes: Set<RunLoop.Mode>
        let port: Port
        let loop: RunLoop
        let observations: [Observation]
    }

    private struct Observation {
        let centre: NotificationCenter
        let observation: NotificationCenter.Observation

        func end() { centre.removeObserver(observation) }
    }

    private struct Place: Hashable {
        let id: ObjectIdentifier
        let mode: RunLoop.Mode
    }

    private struct State {
        var entries: [ObjectIdentifier: Entry] = [:]
        /// How many threads ask a port to do what the table says, from their change of the table on. Meanwhile a call that finds the table as
        /// it wants it asks as well: it must not return before that is so. In the child of a fork a thread that is not there stays here,
        /// where that costs a call.
        var asking: [Place: Int] = [:]

        /// - Returns: whether the port has to be asked.
        mutating func asks(_ place: Place, isChanged: Bool) -> Bool {
            if !isChanged && asking[place] == nil { return false }
            asking[place, default: 0] += 1
            return true
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

    /// Notes that the loop has the port in the mode.
    ///
    /// - Returns: whether ``carryOut(_:_:loop:)`` has to follow; false if the port is there.
    func insert(_ port: Port, _ mode: RunLoop.Mode, loop: RunLoop) -> Bool {
        let id = ObjectIdentifier(port)
        let place = Place(id: id, mode: mode)
        let asks: Bool? = state.withLock { state in
            guard state.entries[id] != nil else { return nil }
            let isNew = state.entries[id]!.modes.insert(mode).inserted
            return state.asks(place, isChanged: isNew)
        }
        if let asks { return asks }
        watchEnd(of: loop)
        // The centre has a lock of its own, and an observer of the port may be on the stack.
        let observations = port.observedEnds.map { centre, sender in
            Observation(
                centre: centre,
                observation: centre.addObserver(
                    forName: Port.didBecomeInvalidNotification, object: sender, queue: nil
                ) { [weak self] _ in self?.forget(id) })
        }
        let entry = Entry(modes: [mode], port: port, loop: loop, observations: observations)
        let isNew = state.withLock { state in
            guard state.entries[id] == nil else { return false }
            state.entries[id] = entry
            return state.asks(place, isChanged: true)
        }
        if !isNew {
            // Another thread added the port meanwhile.
            for observation in observations { observation.end() }
            return insert(port, mode, loop: loop)
        }
        return true
    }

    /// Notes that the loop does not have the port in the mode any more.
    ///
    /// - Returns: whether ``carryOut(_:_:loop:)`` has to follow; false if the port is not there.
    func remove(_ port: Port, _ mode: RunLoop.Mode) -> Bool {
        let id = ObjectIdentifier(port)
        let (asks, last): (Bool, Entry?) = state.withLock { state in
            let hadIt = state.entries[id]?.modes.remove(mode) != nil
            let last = hadIt && state.entries[id]!.modes.isEmpty ? state.entries.removeValue(forKey: id) : nil
            return (state.asks(Place(id: id, mode: mode), isChanged: hadIt), last)
        }
        if let last { for observation in last.observations { observation.end() } }
        return asks
    }

    /// Has the port do what the table says of the mode.
    func carryOut(_ port: Port, _ mode: RunLoop.Mode, loop: RunLoop) {
        let place = Place(id: ObjectIdentifier(port), mode: mode)
        var isIn: Bool?
        while true {
            // The last look and the end of asking are one: who comes later changes the table later.
            let isWanted: Bool? = state.withLock { state in
                let isWanted = state.entries[place.id]?.modes.contains(mode) ?? false
                if isIn != isWanted { return isWanted }
                let others = state.asking[place]! - 1
                state.asking[place] = others == 0 ? nil : others
                return nil
            }
            guard let isWanted else { return }
            if isWanted { port.schedule(in: loop, forMode: mode) } else { port.remove(from: loop, forMode: mode) }
            isIn = isWanted
        }
    }

    /// The port has become invalid.
    func forget(_ id: ObjectIdentifier) {
        let entry = state.withLock { $0.entries.removeValue(forKey: id) }
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
            for mode in entry.modes { entry.port.remove(from: entry.loop, forMode: mode) }
        }
    }
}
