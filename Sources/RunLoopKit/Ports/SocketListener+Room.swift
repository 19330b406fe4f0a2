// SPDX-License-Identifier: MIT

/// The room for messages that are not whole (S-NSP-21).
extension SocketListener {
    private enum Room {
        case enough
        case full
        /// Perhaps, if this one is closed, which was silent at that time.
        case behind(Connection, since: SuspendingClock.Instant)
    }

    /// Takes room for so many bytes of a message that is not whole; nil if the connection is closed.
    func takeRoom(_ size: Int, for connection: Connection) -> Bool? {
        let count = size - limits.free
        if count <= 0 { return true }
        // Each round but the last closes a connection.
        while true {
            let now = SuspendingClock.now
            let room: Room? = state.withLock { state in
                guard state.connections[connection.handle.descriptor] === connection else { return nil }
                if state.favoured !== connection, state.countedOfOthers + count - connection.counted > limits.all {
                    guard state.favoured == nil else {
                        connection.waitsForRoom = true
                        return silentConnection(in: &state, now).map { .behind($0, since: $0.lastBytes) } ?? .full
                    }
                    state.favoured = connection
                }
                state.settle(connection, at: count)
                connection.lastBytes = now
                connection.waitsForRoom = false
                return .enough
            }
            switch room {
            case nil: return nil
            case .enough?: return true
            case .full?: return false
            case .behind(let silent, let since)?: if !close(silent, since, now) { return false }
            }
        }
    }

    /// The one that has been silent for the longest time, if that is too long. The time of a look grows with the number of connections, so
    /// that there is one in a while.
    private func silentConnection(in state: inout State, _ now: SuspendingClock.Instant) -> Connection? {
        guard now >= state.nextLook else { return nil }
        state.nextLook = now + .milliseconds(100)
        let last = now - limits.silence
        var silent: Connection?
        for connection in state.connections.values
        where connection.counted > 0 && connection.reader == nil && !connection.waitsForRoom && connection.lastBytes <= last {
            if silent.map({ connection.lastBytes < $0.lastBytes }) ?? true { silent = connection }
        }
        return silent
    }

    /// Closes a silent connection, but not one for which this process has not looked.
    private func close(_ silent: Connection, _ since: SuspendingClock.Instant, _ now: SuspendingClock.Instant) -> Bool {
        let hasMore = SocketCalls.isReadable(silent.handle.descriptor)
        let isClosed = state.withLock { state in
            guard state.connections[silent.handle.descriptor] === silent, silent.reader == nil, silent.lastBytes == since else {
                return false
            }
            if hasMore {
                silent.lastBytes = now
                return false
            }
            state.settle(silent, at: 0)
            state.connections[silent.handle.descriptor] = nil
            // There may be another one.
            state.nextLook = now
            return true
        }
        if isClosed { silent.source.invalidate() }
        return isClosed
    }
}
