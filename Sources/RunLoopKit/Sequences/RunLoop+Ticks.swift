// SPDX-License-Identifier: MIT
extension RunLoop {
    /// The dates of a repeating timer of this loop, as a sequence.
    ///
    /// The timer exists from this call until the sequence and its iterator are released, the task that iterates is cancelled,
    /// or the loop's thread ends; the sequence is over then. While it exists its modes are not empty. It fires when the
    /// loop runs, and the element says which date it was; if the consumer was too slow for several, it gets the last.
    ///
    /// - Parameters:
    ///   - interval: between two dates; the first is one interval from now.
    ///   - tolerance: see ``Timer/tolerance``.
    ///   - mode: where the timer is added.
    /// - Returns: a sequence for one consumer.
    /// - Threads: any.
    /// - Foundation: `Timer.publish`, which is part of Combine.
    public func ticks(
        every interval: Duration, tolerance: Duration = .zero, forMode mode: Mode = .common
    ) -> LoopSequence<ContinuousClock.Instant> {
        let elements = LoopElements<ContinuousClock.Instant>(keepsLastOnly: true)
        let timer = Timer.add(to: self, forMode: mode, after: interval, repeats: true, tolerance: tolerance) { timer in
            let date: ContinuousClock.Instant = timer.fireDate
            elements.give(date)
        }
        return elements.sequence(of: self) { timer.invalidate() }
    }
}
