// SPDX-License-Identifier: MIT
/// What a loop reports, as a sequence: the dates of ``RunLoop/ticks(every:tolerance:forMode:)`` and the numbers of
/// ``RunLoop/signals(_:forMode:)``.
///
/// A consumer on an actor stays on its actor while it waits.
public struct LoopSequence<Element: Sendable>: AsyncSequence, Sendable {
    fileprivate let consumer: LoopElements<Element>.Consumer

    init(_ elements: LoopElements<Element>) { consumer = .init(elements) }

    /// Returns the only iterator.
    public func makeAsyncIterator() -> Iterator { Iterator(consumer: consumer) }

    /// Waits for what the loop reports.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let consumer: LoopElements<Element>.Consumer

        /// The next report; nil when the sequence is over.
        public mutating func next() async -> Element? { await next(isolation: #isolation) }

        /// The next report; nil when the sequence is over.
        public mutating func next(isolation: isolated (any Actor)?) async -> Element? {
            await consumer.elements.next(isolation: isolation)
        }
    }
}
