// SPDX-License-Identifier: MIT
/// What a loop reports, on its way to the task that iterates.
///
/// No `AsyncStream`, which keeps the elements under a lock that `fork` does not take: in the child it may be held for ever by a consumer
/// or a canceller that does not exist there, and the loop, whose timer gives the next element, would wait for it. It also brings an actor's
/// task to the global executor for each element.
final class LoopElements<Element: Sendable>: Sendable {
    private struct State {
        /// Those that nobody has taken: first these, the last one first, and then `later` from its beginning.
        var sooner: [Element] = []
        var later: [Element] = []
        var waiting: [LoopContinuation<Element?, Never>] = []
        var isOver = false
        /// Until it is called.
        var stopping: (@Sendable () -> Void)?

        mutating func takeFirst() -> Element? {
            if sooner.isEmpty {
                sooner = later.reversed()
                later = []
            }
            return sooner.popLast()
        }
    }

    private let state = Locked(State())
    private let keepsLastOnly: Bool

    /// - Parameter keepsLastOnly: whether an element takes the place of one that nobody has taken.
    init(keepsLastOnly: Bool) { self.keepsLastOnly = keepsLastOnly }

    /// The sequence of the elements; called once.
    ///
    /// - Parameters:
    ///   - loop: the sequence is over at the end of its thread at the latest.
    ///   - stopping: called when the sequence is over, or it and its iterator are released: nobody takes an element any more.
    func sequence(of loop: RunLoop, stopping: @escaping @Sendable () -> Void) -> LoopSequence<Element> {
        let executor = loop.executor
        let handler = Locked<UInt>(0)
        state.withLock { state in
            state.stopping = {
                executor.forget(handler: handler.withLock { $0 })
                stopping()
            }
        }
        // Only the end of the thread can be earlier than the next line, and that forgets its handlers by itself.
        let number = executor.atEnd { self.end() }
        handler.withLock { $0 = number }
        return LoopSequence(self)
    }

    /// The reference of a sequence and its iterator.
    final class Consumer: Sendable {
        let elements: LoopElements

        init(_ elements: LoopElements) { self.elements = elements }

        deinit { elements.end() }
    }

    /// Gives the element to a task that waits, or keeps it for the next one that asks.
    func give(_ element: Element) {
        resume(with: element) { state in
            if state.isOver { return [] }
            if !state.waiting.isEmpty { return [state.waiting.removeFirst()] }
            if keepsLastOnly { (state.sooner, state.later) = ([], []) }
            state.later.append(element)
            return []
        }
    }

    /// Those that are kept are still given, unless the consumer was cancelled. A second call ends what the first one, of a thread that a child of
    /// `fork` does not have, began.
    func end(isCancelled: Bool = false) {
        let stopping = state.withLock { state in
            defer { (state.isOver, state.stopping) = (true, nil) }
            if isCancelled { (state.sooner, state.later) = ([], []) }
            return state.stopping
        }
        stopping?()
        resume(with: nil) { state in
            defer { state.waiting = [] }
            return state.waiting
        }
    }

    private func resume(with element: Element?, _ take: (inout State) -> [LoopContinuation<Element?, Never>]) {
        ForkGuard.whole { for waiter in state.withLock(take) { waiter.resume(returning: element) } }
    }

    /// Waits for the next one, on the caller's actor.
    func next(isolation: isolated (any Actor)?) async -> Element? {
        await withTaskCancellationHandler {
            await RunLoopExecutor.staying(isolation: isolation) {
                await withCheckedContinuation(isolation: isolation) { take(LoopContinuation($0, isolation: isolation)) }
            }
        } onCancel: {
            end(isCancelled: true)
        }
    }

    private func take(_ continuation: LoopContinuation<Element?, Never>) {
        let (element, waits): (Element?, Bool) = state.withLock { state in
            if let element = state.takeFirst() { return (element, false) }
            if !state.isOver { state.waiting.append(continuation) }
            return (nil, !state.isOver)
        }
        if !waits { continuation.resume(returning: element) }
    }
}
