// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// So many lines of a port tell of what was refused, for its peers decide how much there is. The zero value has told nothing.
struct RefusalLimit {
    private var second: Int64 = 0
    private var lines = 0
    /// Refusals that no line has told of.
    var omitted = 0

    init() {}

    static var linesPerSecond: Int { 16 }

    /// How many refusals the line is to tell of besides its own; nil: there is to be none.
    mutating func admit() -> Int? {
        let now = Clock.now() / 1_000_000_000
        if now != second {
            second = now
            lines = 0
        }
        lines += 1
        guard lines <= RefusalLimit.linesPerSecond else {
            omitted += 1
            return nil
        }
        defer { omitted = 0 }
        return omitted
    }
}

/// Serving a local port on the loop's thread, or on a thread of the queue: one message per pass (S-MSG-13).
extension UnsafeMutablePointer where Pointee == MessagePort {
    /// The result of one look at the set.
    private enum Step {
        case idle
        /// A connection came, left or said hello, or so many bytes of a message came: continue.
        case progress(Int)
        case message(IncomingMessage, token: UInt64)
        /// A datagram was refused, and its connection closed.
        case malformed(WireError, process: pid_t)
        case stranger(user: uid_t, process: pid_t)
        /// The kernel had the data of a message, and this process could not take them.
        case dropped
        case paused
        case crowded
        /// The number is not the set's any more.
        case lost
    }

    /// A line for the log.
    private struct Line {
        let port: MessagePortPointer
        let step: Step
    }

    /// Serves one message, if there is one: the watch's handler, and that of the queue's source.
    func serve() -> Bool {
        guard tryRetain() else { return false }
        guard let frame = nextMessage() else {
            release()
            return false
        }
        frame.serve()
        return true
    }

    /// Takes connections, greetings and ends as they come, until there is a message to serve. What is left stays ready and is for
    /// the next pass, so that many connections, or parts, cannot keep the loop here. The frame takes over the caller's reference.
    private func nextMessage() -> MessageFramePointer? {
        var left = 64
        while left > 0 {
            left -= 1
            lock()
            let step = stepLocked()
            left -= pointee.local.closingCost
            pointee.local.closingCost = 0
            unlock()
            switch step {
            case .idle: return nil
            case .progress(let bytes): left -= bytes / WireHeader.placeSize
            case .message(let message, let token):
                if Trace.isWanted { tellTrace(.messageReceive, message.header, token: token) }
                if let frame = frame(for: message, token) { return frame }
            case .malformed, .stranger, .dropped, .crowded: log(step)
            case .paused:
                resumeLater()
                log(step)
                return nil
            case .lost:
                invalidate()
                log(step)
                return nil
            }
        }
        return nil
    }

    private func stepLocked() -> Step {
        var events: UInt32 = 0
        var token: UInt64 = 0
        // Only a valid port has the set; see `closeSetLocked`.
        var noTime = timespec()
        guard isValid else { return .idle }
        if pointee.held.isMuch { closeStalledLocked(holdingReplies: false) }
        if pointee.local.waitingMemory > HeldByParts.memoryLimit { closeStalledLocked(holdingReplies: true) }
        let count = rl_epoll_wait(pointee.local.epoll, &noTime, &token, &events)
        guard count > 0 else {
            if count == 0 { return .idle }
            return rl_errno() == EINTR ? .progress(0) : rl_errno() == EBADF || rl_errno() == EINVAL ? .lost : .idle
        }
        if token == MessagePortPointer.listenerToken {
            switch acceptLocked() {
            case .accepted, .nothing: return .progress(0)
            case .crowded: return .crowded
            case .refused(let user, let process): return .stranger(user: user, process: process)
            case .paused: return .paused
            }
        }
        guard let place = placeLocked(token: token) else { return .progress(0) }
        if pointee.local.connections![place].replies != nil {
            flushLocked(place)
            return .progress(0)
        }
        return receiveLocked(place, token)
    }

    private func receiveLocked(_ place: Int, _ token: UInt64) -> Step {
        let connection = pointee.local.connections![place]
        let receiver: WireReceiver = connection.isServing ? .serving : .awaitingHello
        let scratch = scratchLocked()
        switch IncomingMessage.receive(
            from: connection.descriptor, by: receiver, scratch: scratch, partial: &pointee.local.connections![place].partial,
            held: &pointee.held)
        {
        case .nothing: return .progress(0)
        case .later:
            // The set reports its end once nevertheless, and must report nothing all the time.
            if connection.isPaused { return .progress(0) }
            // What resumes others resumes this one too.
            let isFirst = !hasPausedLocked
            pointee.local.connections![place].isPaused = true
            watchLocked(place, RL_EPOLLET)
            return isFirst ? .paused : .progress(0)
        case .part(let count): return .progress(count)
        case .ended:
            closeLocked(place)
            return .progress(0)
        case .refused(let error):
            closeLocked(place)
            return .malformed(error, process: connection.process)
        case .message(var message):
            guard message.header.kind == .hello else { return .message(message, token: token) }
            let isForUs = isOwnNameLocked(message.data)
            message.discard()
            if isForUs {
                pointee.local.connections![place].isServing = true
                return .progress(0)
            }
            closeLocked(place)
            return .malformed(.name, process: connection.process)
        }
    }

    private func isOwnNameLocked(_ data: DataPointer?) -> Bool {
        guard let data, let name = pointee.name else { return false }
        let length = strlen(name.bytes)
        return data.pointee.length == length && memcmp(data.bytes, name.bytes, length) == 0
    }

    // MARK: Messages

    /// What serves the message; nil if its data were lost on the way, or the port is not valid any more.
    private func frame(for message: IncomingMessage, _ token: UInt64) -> MessageFramePointer? {
        var message = message
        guard message.data != nil else {
            answer(message.header, token, nil, isFailure: true)
            message.discard()
            log(.dropped)
            return nil
        }
        guard let context = beginUseOfContext() else {
            message.discard()
            return nil
        }
        let frame = makeArray(MessageFrame.self, count: 1)
        frame.initialize(to: MessageFrame(
            port: self, message: message, token: token, callout: pointee.local.callout, context: context))
        return frame
    }

    /// Replies, if a reply is wanted.
    func answer(_ request: WireHeader, _ token: UInt64, _ data: DataPointer?, isFailure: Bool) {
        guard request.id != 0 else { return }
        let length = data?.pointee.length ?? 0
        let isTooLong = length > WireHeader.lengthLimit
        let header = WireHeader(
            kind: .reply, flags: 0, id: request.id,
            number: isFailure || isTooLong ? WireHeader.failed : WireHeader.succeeded, length: isTooLong ? 0 : UInt64(length),
            descriptors: 0)
        if let data, KeptMemoryPointer.isWorthwhile(header.length), replyInParts(header, token, data) { return }
        var outgoing = OutgoingMessage(header, bytes: data.map { UnsafeRawPointer($0.bytes) })
        // Before the lock is taken: it may be long.
        if !outgoing.prepare() { outgoing = OutgoingMessage(WireHeader.failed(header.id), bytes: nil) }
        lock()
        if isValid, let place = placeLocked(token: token) {
            replyLocked(place, outgoing, data)
        } else {
            outgoing.finish()
        }
        unlock()
    }

    // MARK: No descriptor, no memory

    /// Looks at what is paused again in a tenth of a second (S-ARG-10), by the port's queue or a thread of the library: this loop may not run
    /// this mode again, while the port's source is in another mode or loop. Without a thread the port is not looked at here for as long, and
    /// without room in its set, which then reports nothing, this loop looks.
    func resumeLater() {
        if resumeByQueue() { return }
        holdMemory()
        if rl_start_thread({ MessagePortPointer(info: $0).resumeSoon() }, self) { return }
        if resumePaused() {
            releaseMemory()
            return RunLoop.deferServedWatch()
        }
        // A queue that the port has left is not waited for.
        guard let loop = RunLoop.ofThread, let frame = loop.pointee.frame else { return resumeSoon() }
        let modes = makeArray(UInt.self, count: 3)
        modes[0] = 2
        modes[1] = UInt(bitPattern: frame.pointee.mode)
        // The common ones.
        modes[2] = 0
        let look = Post(
            perform: { info in
                let port = MessagePortPointer(info: info)
                if !port.resumePaused() { port.resumeLater() }
            }, release: { MessagePortPointer(info: $0).releaseMemory() }, info: self, modes: PostModes(list: modes))
        loop.performDelayed(look, target: self, delay: Double(Clock.retryDelay) / 1e9)
    }

    /// The thread, which has a hold on the memory.
    private func resumeSoon() {
        var pause = timespec(nanoseconds: Clock.retryDelay)
        repeat { _ = rl_sys_nanosleep(&pause) } while !resumePaused()
        releaseMemory()
    }

    // MARK: Log

    /// Logs what happened, after all that has to be done about it: the handler may end its thread, and then gives back the reference of `serve`.
    private func log(_ step: Step) {
        var line = Line(port: self, step: step)
        withUnsafeMutablePointer(to: &line) { line in
            callOutGuarded(
                {
                    let line = UnsafeMutableRawPointer($0!).cast(to: Line.self)
                    line.pointee.port.write(line.pointee.step)
                }, line, { MessagePortPointer(info: $0).release() }, self)
        }
    }

    private func write(_ step: Step) {
        switch step {
        case .malformed(let error, let process): logRefusal("dropped a message ", error.words, process: process, user: nil)
        case .stranger(let user, let process): logRefusal("refused a connection", "", process: process, user: user)
        case .dropped: logRefusal("no descriptor or memory for a message", "", process: nil, user: nil)
        case .paused: Log.once(.noDescriptor, "RLMessagePort", ": cannot take a connection or message for now; trying again")
        case .lost: Log.write("RLMessagePort", ": the descriptor of a local port was closed or replaced: it is invalid")
        case .crowded: Log.once(.messagePortCrowded, "RLMessagePort", ": connections above half of the descriptors; closed")
        case .idle, .progress, .message: break
        }
    }

    /// The caller may have a hold on the memory alone: a port that is valid under the table's lock still has its name.
    @inline(never)
    func logRefusal(_ what: StaticString, _ why: StaticString, process: pid_t?, user: uid_t?) {
        lock()
        let omitted = pointee.refusals.admit()
        unlock()
        guard let omitted else { return }
        var text = TextBuffer()
        text.append("RLMessagePort: ", what)
        text.append(why)
        if let process {
            text.append(" of process ", Int(process))
        }
        if let user {
            text.append(" of user ", Int(user))
        }
        text.append(", port ")
        MessagePortTable.lock()
        if isValid, let name = pointee.name { text.appendPrintable(name.bytes) } else { text.append("without a name") }
        MessagePortTable.unlock()
        if omitted > 0 { text.append(", and more that were not logged: ", omitted) }
        if !Log.line(text) {
            lock()
            pointee.refusals.omitted += omitted + 1
            unlock()
        }
    }
}
