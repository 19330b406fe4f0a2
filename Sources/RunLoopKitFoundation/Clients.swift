// SPDX-License-Identifier: MIT
// Foundation's classes that take a run loop or its modes, for RunLoopKit's. They live on Foundation's loop of the thread, which
// RunLoopKit's then hosts.

extension Stream {
    /// Schedules the stream on Foundation's loop of the loop's thread, which the loop hosts from then on.
    ///
    /// Foundation on Linux calls no delegates of streams, whatever loop runs: use a `RunLoop.FileDescriptor`, which
    /// reports when there is something to read or room to write.
    ///
    /// - Parameters:
    ///   - aRunLoop: the calling thread's. With another thread's nothing is done: that thread would use the stream, which is not
    ///     `Sendable`, beside the calling one.
    ///   - mode: the mode in which it is to be served.
    @_disfavoredOverload
    public func schedule(in aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {
        onFoundation(of: aRunLoop, mode) { $0.schedule(in: $1, forMode: $2) }
    }

    /// Removes the stream from Foundation's loop of the loop's thread.
    ///
    /// - Parameters:
    ///   - aRunLoop: the loop it was scheduled in, the calling thread's.
    ///   - mode: the mode.
    @_disfavoredOverload
    public func remove(from aRunLoop: RunLoop, forMode mode: RunLoop.Mode) {
        onFoundation(of: aRunLoop, mode) { $0.remove(from: $1, forMode: $2) }
    }

    private func onFoundation(
        of loop: RunLoop, _ mode: RunLoop.Mode,
        _ body: (Stream, Foundation.RunLoop, Foundation.RunLoop.Mode) -> Void
    ) {
        guard loop == RunLoop.current else { return }
        RunLoop.hostsFoundation(inModes: [.common, mode])
        body(self, .current, Foundation.RunLoop.Mode(mode.rawValue))
    }
}

extension Sequence<RunLoop.Mode> {
    /// The modes of the same names of Foundation's loop.
    fileprivate var ofFoundation: [Foundation.RunLoop.Mode] { map { Foundation.RunLoop.Mode($0.rawValue) } }
}

extension FileHandle {
    /// Foundation's function of this name, with the modes of Foundation's main loop in which the notification may be posted. The main
    /// loop has to host Foundation's.
    ///
    /// - Parameter modes: their names.
    @_disfavoredOverload
    public func readInBackgroundAndNotify(forModes modes: [RunLoop.Mode]?) {
        readInBackgroundAndNotify(forModes: modes?.ofFoundation)
    }

    /// Foundation's function of this name, with the modes of Foundation's main loop in which the notification may be posted. The main
    /// loop has to host Foundation's.
    ///
    /// - Parameter modes: their names.
    @_disfavoredOverload
    public func readToEndOfFileInBackgroundAndNotify(forModes modes: [RunLoop.Mode]?) {
        readToEndOfFileInBackgroundAndNotify(forModes: modes?.ofFoundation)
    }

    /// Foundation's function of this name, with the modes of Foundation's main loop in which the notification may be posted. The main
    /// loop has to host Foundation's.
    ///
    /// - Parameter modes: their names.
    @_disfavoredOverload
    public func acceptConnectionInBackgroundAndNotify(forModes modes: [RunLoop.Mode]?) {
        acceptConnectionInBackgroundAndNotify(forModes: modes?.ofFoundation)
    }

    /// Foundation's function of this name, with the modes of Foundation's main loop in which the notification may be posted. The main
    /// loop has to host Foundation's.
    ///
    /// - Parameter modes: their names.
    @_disfavoredOverload
    public func waitForDataInBackgroundAndNotify(forModes modes: [RunLoop.Mode]?) {
        waitForDataInBackgroundAndNotify(forModes: modes?.ofFoundation)
    }
}
