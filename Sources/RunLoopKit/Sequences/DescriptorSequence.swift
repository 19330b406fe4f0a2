// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// What a descriptor can be ready for.
    public struct Readiness: OptionSet, Hashable, Sendable {
        /// The bits of `RLFileDescriptorCallBackType`.
        public let rawValue: UInt

        /// A set of those bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// A read would not block: there is data, the peer has closed, or there is an error to read.
        public static var read: Readiness { Readiness(rawValue: 1 << 0) }
        /// A write would not block.
        public static var write: Readiness { Readiness(rawValue: 1 << 1) }
    }

    /// The readiness of a descriptor, as a sequence.
    ///
    /// Each call of `next` waits until the descriptor is ready and says for what; so the consumer reads or writes what it
    /// likes in between, and a descriptor that is still ready is reported again. The loop watches nothing between the
    /// calls. The sequence
    /// ends when the task that iterates is cancelled and when the loop's thread ends.
    ///
    /// - Parameters:
    ///   - descriptor: stays the caller's. Release the sequence before closing it: a closed descriptor is never ready.
    ///   - interest: what to wait for.
    ///   - mode: the mode in which the loop watches it.
    /// - Returns: a sequence for one consumer, which watches until it and its iterator are released.
    /// - Threads: any; the loop has to be run by its thread.
    /// - Foundation, CF: `CFFileDescriptor`, with a callback.
    public func readiness(
        of descriptor: CInt, for interest: Readiness = .read, forMode mode: Mode = .common
    ) -> DescriptorSequence {
        DescriptorSequence(watch: DescriptorWatch(self, descriptor, interest, mode))
    }
}

/// What ``RunLoop/readiness(of:for:forMode:)`` returns.
public struct DescriptorSequence: AsyncSequence, Sendable {
    fileprivate let watch: DescriptorWatch

    /// Returns the only iterator.
    public func makeAsyncIterator() -> Iterator { Iterator(watch: watch) }

    /// Waits for the descriptor.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let watch: DescriptorWatch

        /// What the descriptor is ready for; nil when the sequence is over.
        public mutating func next() async -> RunLoop.Readiness? { await next(isolation: #isolation) }

        /// What the descriptor is ready for; nil when the sequence is over.
        public mutating func next(isolation: isolated (any Actor)?) async -> RunLoop.Readiness? {
            await watch.next(isolation: isolation)
        }
    }
}

/// The object of the C library behind a sequence. It goes with the last of the sequence and its iterator.
// Sendable: the references are constants to objects of the C library, whose functions may be called from any thread (S-THR-1).
final class DescriptorWatch: @unchecked Sendable {
    private let waiter: DescriptorWaiter
    private let interest: RunLoop.Readiness
    private let object: RLFileDescriptorRef?
    private let source: RLSourceRef?
    private let executor: RunLoopExecutor
    private let endHandler: UInt
    private let mode: RunLoop.Mode

    init(_ loop: RunLoop, _ descriptor: CInt, _ interest: RunLoop.Readiness, _ mode: RunLoop.Mode) {
        self.interest = interest
        self.mode = mode
        let waiter = DescriptorWaiter(interest)
        self.waiter = waiter
        var context = RLFileDescriptorContext()
        context.info = Unmanaged.passUnretained(waiter).toOpaque()
        context.retain = { UnsafeMutableRawPointer(mutating: retainInfo($0)) }
        context.release = { releaseInfo($0) }
        object = RLFileDescriptorCreate(
            descriptor, false,
            { DescriptorWaiter.unretained($2!).fulfil(RunLoop.Readiness(rawValue: $1), of: $0) }, &context)
        let source = RLFileDescriptorCreateRunLoopSource(object, 0)
        self.source = source
        mode.rawValue.withCString { RLAddSource(loop.reference, source, $0) }
        executor = loop.executor
        endHandler = executor.atEnd { waiter.end() }
        // A number that is no descriptor is never ready, and the sequence says so by being over.
        if object == nil { waiter.end() }
    }

    deinit {
        end()
        RLRelease(source.map { RLTypeRef($0) })
        RLRelease(object.map { RLTypeRef($0) })
    }

    /// Nothing is watched any more, and the descriptor may be closed.
    func end() {
        executor.forget(handler: endHandler)
        RLFileDescriptorInvalidate(object)
        waiter.end()
    }

    /// There is nothing to wait for, any more.
    var isOver: Bool { waiter.isOver }

    func next(isolation: isolated (any Actor)?) async -> RunLoop.Readiness? {
        await withTaskCancellationHandler {
            await nextEvenIfCancelled(isolation: isolation)
        } onCancel: {
            waiter.end()
        }
    }

    /// Waits a tenth of a second, or until the task is cancelled or the loop's thread ends.
    func pause(isolation: isolated (any Actor)?) async {
        var ticks = executor.loop.ticks(every: .milliseconds(100), forMode: mode).makeAsyncIterator()
        _ = await ticks.next(isolation: isolation)
    }

    func nextEvenIfCancelled(isolation: isolated (any Actor)?) async -> RunLoop.Readiness? {
        await RunLoopExecutor.staying(isolation: isolation) {
            await withCheckedContinuation(isolation: isolation) { continuation in
                if waiter.begin(LoopContinuation(continuation, isolation: isolation)) { RLFileDescriptorEnableCallBacks(object, interest.rawValue) }
            }
        }
    }
}

/// The consumer of a sequence, as the loop's thread sees it.
// Sendable: the properties are constant and Sendable; the base class has none.
private final class DescriptorWaiter: ContextInfo, @unchecked Sendable {
    private enum State {
        case idle
        case waiting(LoopContinuation<RunLoop.Readiness?, Never>)
        case over
    }

    private let interest: RunLoop.Readiness
    private let state = Locked(State.idle)

    init(_ interest: RunLoop.Readiness) { self.interest = interest }

    /// False if there is nothing to wait for.
    func begin(_ continuation: LoopContinuation<RunLoop.Readiness?, Never>) -> Bool {
        let isOver = state.withLock { state in
            switch state {
            case .idle: state = .waiting(continuation)
            case .waiting: preconditionFailure("RunLoopKit: a descriptor's readiness has one consumer")
            case .over: return true
            }
            return false
        }
        if isOver { continuation.resume(returning: nil) }
        return !isOver
    }

    var isOver: Bool {
        state.withLock { state in
            if case .over = state { return true }
            return false
        }
    }

    func fulfil(_ readiness: RunLoop.Readiness, of object: RLFileDescriptorRef?) {
        // The kind that was not reported is still watched. Before the consumer goes on, which asks for both again.
        let rest = interest.subtracting(readiness)
        if !rest.isEmpty { RLFileDescriptorDisableCallBacks(object, rest.rawValue) }
        resume(readiness, then: .idle)
    }

    func end() { resume(nil, then: .over) }

    private func resume(_ result: RunLoop.Readiness?, then next: State) {
        ForkGuard.whole {
            let continuation: LoopContinuation<RunLoop.Readiness?, Never>? = state.withLock { state in
                if case .over = state { return nil }
                defer { state = next }
                if case .waiting(let continuation) = state { return continuation }
                return nil
            }
            continuation?.resume(returning: result)
        }
    }
}
