extension RunLoop {
    /// The signals that the process is sent, as a sequence of their numbers.
    ///
    /// While it exists, these signals do not do what they do by default, such as end the process; what the program had set
    /// for them comes back with the end of the last sequence that wants them. Signals of one kind that come close together are
    /// one, as everywhere. Several sequences may want the same signal, on one loop or on several, and each gets it.
    ///
    /// The signals are unblocked on the calling thread: a program that was started with them blocked would not get them.
    ///
    /// The sequence exists until it and its iterator are let go of, the task that iterates is cancelled, or the loop's
    /// thread ends. While it exists its mode is not empty.
    ///
    /// - Parameters:
    ///   - numbers: such as `SIGINT`. Those that no process can handle make the sequence end at once.
    ///   - mode: in which the loop takes notice.
    /// - Returns: a sequence for one consumer.
    /// - Threads: any; the loop has to be run by its thread.
    /// - Foundation, CF: no counterpart. libdispatch: `DispatchSource.makeSignalSource`.
    public func signals(_ numbers: CInt..., forMode mode: Mode = .common) -> AsyncStream<CInt> {
        let (stream, continuation) = AsyncStream.makeStream(of: CInt.self)
        let sources = Set(numbers).map { number in (number, Source { _ in continuation.yield(number) }) }
        let isPossible = sources.allSatisfy { SignalHub.canHandle($0.0) }
        stop(continuation) {
            for (number, source) in sources {
                if isPossible { SignalHub.remove(source.reference, for: number) }
                source.invalidate()
            }
        }
        guard isPossible else {
            continuation.finish()
            return stream
        }
        for (number, source) in sources {
            add(source, forMode: mode)
            if !SignalHub.add(SignalHub.Subscriber(source: source.reference, loop: reference), for: number) {
                continuation.finish()
                return stream
            }
        }
        // The thread may have ended meanwhile: then what was added after that is taken back.
        if executor.hasEnded {
            continuation.finish()
            for (number, source) in sources { SignalHub.remove(source.reference, for: number) }
        }
        return stream
    }
}
