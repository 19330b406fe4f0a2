// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// What the C library's message ports can do beyond Foundation's: requests that get an answer, and descriptors that
// travel. C code at the other end sees an ordinary request of `RLMessagePortSendRequest`.

extension MessagePort {
    /// A message that a request handler serves, for the time of its call.
    public final class Request {
        /// The number that the sender gave.
        public let msgid: Int32
        /// The data, empty if none were sent (S-MSG-14).
        public let bytes: [UInt8]
        private let port: RLMessagePortRef
        /// Those of a message that a queue serves; nil if the C library has them.
        private let descriptors: CarriedDescriptors?
        /// The one that was being served on the thread when this one came. Set while the handler is called, by its thread.
        private var outer: Request?

        fileprivate init(msgid: Int32, bytes: [UInt8], port: RLMessagePortRef, descriptors: CarriedDescriptors?) {
            self.msgid = msgid
            self.bytes = bytes
            self.port = port
            self.descriptors = descriptors
            _ = RLRetain(RLTypeRef(port))
        }

        deinit { RLRelease(RLTypeRef(port)) }

        /// Takes the descriptors that came with the message, in the order in which they were sent.
        ///
        /// - Returns: close-on-exec descriptors, the caller's to close; none if they were taken before, and after the
        ///   handler has returned: what it does not take is closed then.
        /// - Threads: the one that calls the handler.
        public func takeDescriptors() -> [CInt] {
            if let descriptors { return descriptors.take() }
            // The C library gives those of the innermost message of the port.
            var innermost = Request.served.get()
            while let other = innermost, other.port != port { innermost = other.outer }
            return innermost === self ? RunLoopKit.takeDescriptors(of: port) : []
        }

        /// The innermost one that the calling thread serves.
        static let served = ThreadKey<Request>()

        /// Calls the handler, in which the request has its descriptors.
        fileprivate func serve<Result>(_ handler: () -> Result) -> Result {
            outer = Request.served.get()
            Request.served.set(self)
            defer {
                Request.served.set(outer)
                outer = nil
            }
            return handler()
        }
    }

    /// Why a request has no answer.
    public enum RequestError: Int32, Error, Hashable, Sendable {
        /// The queue stayed full for as long as the call may wait (S-MSG-23).
        case sendTimeout = -1
        /// There was no answer in time; a late one is discarded (S-MSG-28).
        case receiveTimeout = -2
        /// The port is invalid, or none that can be sent to (S-MSG-21).
        case isInvalid = -3
        /// The message cannot travel: it is too large, or there is no memory or descriptor for it (S-MSG-22).
        case transportError = -4
        /// The port became invalid while the answer was waited for (S-MSG-29).
        case becameInvalid = -5
    }

    /// Sets the handler that answers incoming messages, in place of the ``Port/delegate()``.
    ///
    /// The handler gets every message of the port as it travelled; of one that was sent with components that is the form
    /// in which they travel. It is called on the loop's thread, one message in each pass (S-MSG-13).
    ///
    /// - Parameter handler: returns the bytes of the answer; nil answers with none (S-MSG-17). A sender that does
    ///   not wait gets nothing (S-MSG-16). With a nil handler the delegate gets the messages again. It is kept until the port
    ///   becomes invalid (S-MSG-34).
    /// - Threads: any.
    /// - CF: the callback of `CFMessagePortCreateLocal`.
    public func setRequestHandler(_ handler: (@Sendable (MessagePort, Request) -> [UInt8]?)?) {
        // What is replaced may hold the last reference of anything: it goes after the lock.
        let old = requestHandler.withLock { stored in
            let old = stored
            stored = handler.map { RequestHandler(answer: $0) }
            return old
        }
        withExtendedLifetime(old) {}
        // The end of the port, which takes the handler, may have come before this one.
        if handler != nil, isAnnounced.withLock({ $0 }) { setRequestHandler(nil) }
    }

    /// Sends bytes and descriptors and waits for the answer.
    ///
    /// The calling thread's loop runs meanwhile in one mode, in which it serves everything else too; ``RunLoop/stop()``
    /// does not end the wait (S-MSG-25, S-MSG-26). Both ends may be on one thread, if that mode has the port that
    /// answers (S-MSG-27).
    ///
    /// - Parameters:
    ///   - bytes: what to send, at most 0x60000000 bytes.
    ///   - msgid: any number.
    ///   - descriptors: open ones, at most 128; the receiver gets duplicates.
    ///   - sendTimeout: how long to wait while the queue is full; nil for no limit.
    ///   - replyTimeout: how long to wait for the answer; nil for no limit.
    ///   - mode: the mode to run, which need not hold anything (S-MSG-33).
    /// - Returns: the bytes of the answer.
    /// - Threads: any; requests of several threads, and nested ones, get their own answers (S-MSG-32).
    /// - Foundation: none. CF: `CFMessagePortSendRequest` with a reply mode.
    @available(*, noasync, message: "a run blocks its thread; an asynchronous function may not")
    public func request(
        _ bytes: [UInt8] = [], msgid: Int32 = 0, descriptors: [CInt] = [], sendTimeout: Duration? = nil,
        replyTimeout: Duration? = nil, mode: RunLoop.Mode = .default
    ) throws(RequestError) -> [UInt8] {
        var answer: RLDataRef?
        try mode.rawValue.withName { name throws(RequestError) in
            try transmit(bytes, msgid, descriptors, sendTimeout, replyTimeout, name, &answer)
        }
        defer { RLRelease(answer.map { RLTypeRef($0) }) }
        return RunLoopKit.bytes(of: answer)
    }

    /// Sends bytes and descriptors and does not wait for an answer (S-MSG-24).
    ///
    /// - Parameters:
    ///   - bytes: what to send, at most 0x60000000 bytes.
    ///   - msgid: any number.
    ///   - descriptors: open ones, at most 128; the receiver gets duplicates.
    ///   - timeout: how long to wait while the queue is full; nil for no limit.
    /// - Threads: any.
    /// - Foundation: ``PortMessage`` for components. CF: `CFMessagePortSendRequest` without a reply mode.
    public func post(
        _ bytes: [UInt8] = [], msgid: Int32 = 0, descriptors: [CInt] = [], timeout: Duration? = nil
    ) throws(RequestError) {
        var answer: RLDataRef?
        try transmit(bytes, msgid, descriptors, timeout, nil, nil, &answer)
    }

    private func transmit(
        _ bytes: [UInt8], _ msgid: Int32, _ descriptors: [CInt], _ sendTimeout: Duration?, _ replyTimeout: Duration?,
        _ mode: UnsafePointer<CChar>?, _ answer: inout RLDataRef?
    ) throws(RequestError) {
        // One sends to a port of one's own by its name, as everybody does.
        guard let target = target else { throw .isInvalid }
        let result = bytes.withUnsafeBytes { bytes in
            descriptors.withUnsafeBufferPointer { descriptors in
                RunLoopExecutor.runningNested {
                    RLMessagePortSendRequestWithDescriptors(
                        target.reference, msgid, bytes.baseAddress, bytes.count, descriptors.baseAddress, descriptors.count,
                        sendTimeout?.inSeconds ?? .infinity, replyTimeout?.inSeconds ?? .infinity, mode, &answer)
                }
            }
        }
        if let error = RequestError(rawValue: result) { throw error }
    }

    /// What the port's handler says of a message; nil if it has none.
    func answer(
        _ reference: RLMessagePortRef, _ msgid: Int32, _ data: RLDataRef, _ descriptors: CarriedDescriptors?
    ) -> RLDataRef?? {
        guard let handler = requestHandler.withLock({ $0 }) else { return nil }
        let request = Request(msgid: msgid, bytes: RunLoopKit.bytes(of: data), port: reference, descriptors: descriptors)
        guard let answer = request.serve({ handler.answer(self, request) }) else { return .some(nil) }
        return .some(answer.withUnsafeBytes { RLDataCreate($0.baseAddress, $0.count) })
    }
}

@available(*, unavailable)
extension MessagePort.Request: Sendable {}

extension String {
    /// Calls `body` with the text as a C string; unlike `withCString` it lets typed errors through.
    fileprivate func withName<E: Error>(_ body: (UnsafePointer<CChar>) throws(E) -> Void) throws(E) {
        let result = withCString { name -> Result<Void, E> in
            do throws(E) { return .success(try body(name)) } catch { return .failure(error) }
        }
        try result.get()
    }
}
