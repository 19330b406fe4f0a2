// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

extension MessagePort {
    /// Sends bytes and descriptors and awaits the answer, without blocking the caller's thread.
    ///
    ///     let answer = try await port.request(question, timeout: .seconds(5), on: worker.loop)
    ///
    /// A loop receives the answer; it has to be run by its thread. Any number of requests may wait at once, on one port or
    /// several, each for its own answer (S-MSG-49).
    ///
    /// - Parameters:
    ///   - bytes: what to send, at most 0x60000000 bytes. More than 32 KiB are copied to the receiver on a separate thread, which a
    ///     cancellation does not wait for; where the receiver has no room, it goes on to wait for that at most as long as it has waited.
    ///   - msgid: any number.
    ///   - descriptors: open ones, at most 128; the receiver gets duplicates. This process has duplicates too until they are sent, and their close ends its
    ///     record locks on those files, as each close does (fcntl(2)).
    ///   - timeout: for everything together; nil for no limit.
    ///   - loop: receives the answer, in its common modes, which are not empty meanwhile.
    ///   - isolation: the caller's actor, on which the caller continues; leave it out.
    /// - Returns: the bytes of the answer.
    /// - Throws: ``RequestError``: ``RequestError/sendTimeout`` or ``RequestError/receiveTimeout`` when the time is over, and other
    ///   errors of the port. ``RunLoop/ThreadEndedError`` if the loop's thread has ended or ends before the answer arrives.
    ///   `CancellationError` if the task is cancelled before; what was sent is not taken back.
    /// - Threads: any.
    /// - Foundation, CF: no counterpart.
    public func request(
        _ bytes: [UInt8] = [], msgid: Int32 = 0, descriptors: [CInt] = [], timeout: Duration? = nil, on loop: RunLoop,
        isolation: isolated (any Actor)? = #isolation
    ) async throws -> [UInt8] {
        guard let target else { throw RequestError.isInvalid }
        let request = AwaitedRequest(
            to: target.reference, on: loop, AwaitedRequest.Message(bytes: bytes, msgid: msgid, descriptors: descriptors), timeout)
        let clock = request.startClock()
        defer { clock?.cancel() }
        return try await withTaskCancellationHandler {
            try await RunLoopExecutor.staying(isolation: isolation) {
                try await withCheckedThrowingContinuation(isolation: isolation) { request.begin(LoopContinuation($0, isolation: isolation)) }
            }
        } onCancel: {
            request.end(.failure(CancellationError()))
        }
    }
}

/// A request of a message port on its way, and who awaits it.
// Sendable: what changes is locked, the references are to objects of the C library, whose functions may be called from any thread,
// and which this object keeps.
private final class AwaitedRequest: @unchecked Sendable {
    typealias Continuation = LoopContinuation<[UInt8], any Error>

    struct Message {
        let bytes: [UInt8]
        let msgid: Int32
        let descriptors: [CInt]
    }

    private enum State {
        /// Nobody waits yet.
        case new
        case waiting(Continuation)
        /// The result is there, and the request is taken back from the C library before the caller has it.
        case ending(Continuation, Result<[UInt8], any Error>)
        /// The result came before the caller waited for it.
        case early(Result<[UInt8], any Error>)
        case over
    }

    private final class Descriptors: Sendable {
        let numbers: [CInt]

        init?(_ originals: [CInt]) {
            numbers = originals.map(SocketCalls.duplicate)
            if numbers.contains(where: { $0 < 0 }) { return nil }
        }

        deinit { for number in numbers where number >= 0 { close(number) } }
    }

    private struct Sending {
        var state = State.new
        /// Of the request under way in the C library, 0 for none. That keeps this object once.
        var number: UInt32 = 0
        /// The message is queued, so the time that is over is the answer's.
        var isSent = false
    }

    private let port: RLMessagePortRef
    private let loop: RunLoop
    private let message: Message
    /// Duplicates, because a message may be sent after its caller has gone on. Nil if there were none to be had.
    private let descriptors: Descriptors?
    private let limit: ContinuousClock.Instant?
    private let sending = Locked(Sending())
    private let endHandler = Locked<UInt>(0)
    private let forkHandler = Locked<UInt>(0)
    private let generation = ForkedChild.generation

    /// A longer message may wait for its receiver in the middle.
    private static let longestAtOnce = 32768
    /// What is longer is for ever, as for the C library (S-MSG-23).
    private static var longestTimeout: Duration { .seconds(864_000) }

    init(to port: RLMessagePortRef, on loop: RunLoop, _ message: Message, _ timeout: Duration?) {
        self.port = port
        self.loop = loop
        self.message = message
        descriptors = Descriptors(message.descriptors)
        limit = timeout.flatMap { $0 < AwaitedRequest.longestTimeout ? Dates.instant(after: $0) : nil }
        _ = RLRetain(RLTypeRef(port))
    }

    deinit { RLRelease(RLTypeRef(port)) }

    /// Ends the request when the time is over.
    func startClock() -> Task<Void, Never>? {
        guard let limit else { return nil }
        return ForkedChild.runElsewhere { [weak self, loop] in
            guard await ForkedChild.sleep(until: limit, on: loop), let self else { return }
            let isSent = self.sending.withLock { $0.isSent }
            self.end(.failure(isSent ? MessagePort.RequestError.receiveTimeout : .sendTimeout))
        }
    }

    func begin(_ continuation: Continuation) {
        let early: Result<[UInt8], any Error>? = sending.withLock { sending in
            if case .early(let result) = sending.state {
                sending.state = .over
                return result
            }
            sending.state = .waiting(continuation)
            return nil
        }
        if let early { return continuation.resume(with: early) }
        let number = loop.executor.atEnd { [weak self] in self?.end(.failure(RunLoop.ThreadEndedError())) }
        // Whoever has ended the request meanwhile did not find the handler.
        endHandler.withLock { $0 = number }
        if isOver { loop.executor.forget(handler: number) }
        watchFork()
        if descriptors == nil {
            end(.failure(MessagePort.RequestError.transportError))
        } else if message.bytes.count <= AwaitedRequest.longestAtOnce {
            if !send(waiting: 0) { sendAgain() }
        } else if !RunLoop.performInBackground({ self.sendLong() }) {
            end(.failure(MessagePort.RequestError.transportError))
        }
    }

    private var isOver: Bool {
        sending.withLock { sending in
            if case .waiting = sending.state { return false }
            return true
        }
    }

    /// Tries again while the queue is full: soon, then a hundred times a second.
    private func sendAgain() {
        ForkedChild.runElsewhere {
            var pause = Duration.microseconds(100)
            while !self.isOver {
                _ = await ForkedChild.sleep(until: .now + pause, on: self.loop)
                pause = min(pause * 2, .milliseconds(10))
                if self.send(waiting: 0) { return }
            }
        }
    }

    /// On a thread of its own. It waits for room again and again, so that it ends soon after a cancellation: in no more time than it has waited.
    private func sendLong() {
        var wait = 0.1
        while !isOver {
            let left = limit.map { max($0.secondsFromNow, 0) } ?? .infinity
            if send(waiting: min(wait, left)) { return }
            if left <= wait { return end(.failure(MessagePort.RequestError.sendTimeout)) }
            wait *= 2
        }
    }

    /// False if the queue was full for so long.
    private func send(waiting seconds: Double) -> Bool {
        if isOver { return true }
        let info = Unmanaged.passRetained(self)
        var number: UInt32 = 0
        let result = message.bytes.withUnsafeBytes { bytes in
            descriptors!.numbers.withUnsafeBufferPointer { descriptors in
                RLMessagePortBeginRequest(
                    port, message.msgid, bytes.baseAddress, bytes.count, descriptors.baseAddress, descriptors.count, seconds,
                    loop.reference, kRLCommonModes,
                    { _, result, data, info in
                        let request = Unmanaged<AwaitedRequest>.fromOpaque(info!).takeRetainedValue()
                        request.end(AwaitedRequest.outcome(result, data))
                    }, info.toOpaque(), &number)
            }
        }
        guard result == CInt(kRLMessagePortSuccess) else {
            // The function is never called.
            info.release()
            if result == CInt(kRLMessagePortSendTimeout) { return false }
            end(AwaitedRequest.outcome(result, nil))
            return true
        }
        let made = number
        let isLate = sending.withLock { sending in
            sending.isSent = true
            if case .waiting = sending.state {
                sending.number = made
                return false
            }
            return true
        }
        if isLate { cancel(made) }
        return true
    }

    private static func outcome(_ result: Int32, _ data: RLDataRef?) -> Result<[UInt8], any Error> {
        if result == CInt(kRLMessagePortSuccess) { return .success(bytes(of: data)) }
        // No time was given to the C library, so the loop's is meant.
        if result == CInt(kRLMessagePortReceiveTimeout) { return .failure(RunLoop.ThreadEndedError()) }
        return .failure(MessagePort.RequestError(rawValue: result) ?? .transportError)
    }

    /// The first result counts.
    func end(_ result: Result<[UInt8], any Error>) {
        let (isFirst, number): (Bool, UInt32) = sending.withLock { sending in
            defer { sending.number = 0 }
            switch sending.state {
            case .new: sending.state = .early(result)
            case .waiting(let continuation):
                sending.state = .ending(continuation, result)
                return (true, sending.number)
            case .ending, .early, .over: break
            }
            return (false, 0)
        }
        if number != 0 { cancel(number) }
        // In a child of `fork` the one who was first may not exist.
        if isFirst || generation != ForkedChild.generation { complete() }
    }

    /// Gives the caller the result, if there is one.
    private func complete() {
        var isMine = false
        ForkGuard.whole {
            let ending: (Continuation, Result<[UInt8], any Error>)? = sending.withLock { sending in
                guard case .ending(let continuation, let result) = sending.state else { return nil }
                sending.state = .over
                return (continuation, result)
            }
            guard let (continuation, result) = ending else { return }
            isMine = true
            continuation.resume(with: result)
        }
        if !isMine { return }
        loop.executor.forget(handler: endHandler.withLock { $0 })
        ForkedChild.forget(forkHandler.withLock { $0 })
    }

    /// In a child of `fork` the port is invalid, and threads that sent, or brought an end, do not exist.
    private func watchFork() {
        let number = ForkedChild.atBeginning { [weak self] in self?.end(.failure(MessagePort.RequestError.isInvalid)) }
        forkHandler.withLock { $0 = number }
        if isOver { ForkedChild.forget(number) }
    }

    /// The C library gives up its reference to this object, unless it calls the function, which does so too.
    private func cancel(_ number: UInt32) {
        if RLMessagePortCancelRequest(port, number) { Unmanaged.passUnretained(self).release() }
    }
}
