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
        port.schedule(in: self, forMode: mode)
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
        if ports.remove(port, mode) { port.remove(from: self, forMode: mode) }
    }
}

/// Which ports a loop has in which modes. It keeps the ports and, as long as it has any, the loop's object: the
/// table has to be the same for whoever asks for the loop. The end of the thread empties it.
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

    private let entries = Locked<[ObjectIdentifier: Entry]>([:])
    /// The end of the loop's thread is watched.
    private let isWatched = Locked(false)

    private func watchEnd(of loop: RunLoop) {
        let isNew = isWatched.withLock { isWatched in
            defer { isWatched = true }
            return !isWatched
        }
        if isNew { _ = loop.executor.atEnd { [weak self] in self?.forgetAll() } }
    }

    /// Notes that the loop has the port in the mode; false if it had it.
    func insert(_ port: Port, _ mode: RunLoop.Mode, loop: RunLoop) -> Bool {
        let id = ObjectIdentifier(port)
        let isKnown: Bool? = entries.withLock { entries in
            guard entries[id] != nil else { return nil }
            return !entries[id]!.modes.insert(mode).inserted
        }
        if let isKnown { return !isKnown }
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
        let isNew: Bool? = entries.withLock { entries in
            guard entries[id] == nil else { return nil }
            entries[id] = entry
            return true
        }
        if isNew == nil {
            // Another thread added the port meanwhile.
            for observation in observations { observation.end() }
            return insert(port, mode, loop: loop)
        }
        return true
    }

    /// Notes that the loop does not have the port in the mode any more; false if it had not.
    func remove(_ port: Port, _ mode: RunLoop.Mode) -> Bool {
        let id = ObjectIdentifier(port)
        let (hadIt, last): (Bool, Entry?) = entries.withLock { entries in
            guard entries[id]?.modes.remove(mode) != nil else { return (false, nil) }
            return (true, entries[id]!.modes.isEmpty ? entries.removeValue(forKey: id) : nil)
        }
        if let last { for observation in last.observations { observation.end() } }
        return hadIt
    }

    /// The port has become invalid.
    func forget(_ id: ObjectIdentifier) {
        let entry = entries.withLock { $0.removeValue(forKey: id) }
        if let entry { for observation in entry.observations { observation.end() } }
    }

    /// The loop's thread has ended, and its modes are empty.
    func forgetAll() {
        let all = entries.withLock { entries in
            let all = Array(entries.values)
            entries = [:]
            return all
        }
        for entry in all {
            for observation in entry.observations { observation.end() }
            for mode in entry.modes { entry.port.remove(from: entry.loop, forMode: mode) }
        }
    }
}
