// SPDX-License-Identifier: MIT
extension RunLoop {
    /// The signals that the process is sent, as a sequence of their numbers.
    ///
    /// While it exists, the default actions of these signals, such as ending the process, do not happen; a handler that the
    /// program had set for them is called as well (S-KEV-3), and is restored after the last sequence or source of these
    /// signals. Signals of one kind that arrive close together count as one, as always. Several sequences and sources
    /// may have the same signal, on one loop or on several, and each gets it. Numbers that the consumer has not taken wait for it, however
    /// many they are.
    ///
    /// The signals are unblocked on the calling thread: a program that was started with them blocked would not get them.
    ///
    /// The sequence exists until it and its iterator are released, the task that iterates is cancelled, or the loop's
    /// thread ends. While it exists its mode is not empty.
    ///
    /// - Parameters:
    ///   - numbers: such as `SIGINT`. Those that a ``Source/init(onSignal:options:name:perform:)`` cannot have, such as
    ///     `SIGKILL`, make the sequence end at once.
    ///   - mode: the mode in which the loop reports them.
    /// - Returns: a sequence for one consumer.
    /// - Threads: any; the loop has to be run by its thread.
    /// - Foundation, CF: no counterpart. libdispatch: `DispatchSource.makeSignalSource`.
    public func signals(_ numbers: CInt..., forMode mode: Mode = .common) -> LoopSequence<CInt> {
        let elements = LoopElements<CInt>(keepsLastOnly: false)
        var sources: [Source] = []
        for number in Set(numbers) {
            guard let source = try? Source(onSignal: number, perform: { _, _ in elements.give(number) }) else {
                for source in sources { source.invalidate() }
                elements.end()
                return LoopSequence(elements)
            }
            sources.append(source)
        }
        let made = sources
        let sequence = elements.sequence(of: self) { for source in made { source.invalidate() } }
        for source in made { add(source, forMode: mode) }
        return sequence
    }
}
