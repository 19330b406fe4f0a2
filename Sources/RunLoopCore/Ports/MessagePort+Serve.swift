import CLinux
import Synchronization

/// Serving a local port on the loop's thread: one message per pass (S-MSG-13).
extension UnsafeMutablePointer where Pointee == MessagePort {
    /// What one look at the set came to.
    private enum Step {
        case idle
        /// A connection came, left or said hello: look on.
        case progress
        case message(IncomingMessage, token: UInt64)
        /// A datagram was refused, and its connection closed.
        case malformed(WireError, process: pid_t)
        case stranger(user: uid_t, process: pid_t)
        case paused
    }

    /// Takes connections, greetings and ends as they come, until there is a message to serve. What is left stays ready and is for
    /// the next pass, so that a crowd of connections cannot keep the loop here. Returns whether there was a message.
    func serve() -> Bool {
        guard tryRetain() else { return false }
        defer { release() }
        for _ in 0..<64 {
            lock()
            let step = stepLocked()
            unlock()
            switch step {
            case .idle: return false
            case .progress: break
            case .message(let message, let token):
                deliver(message, token)
                resumeListener()
                return true
            case .malformed(let error, let process):
                logRefusal("dropped a message ", error.words, process: process, user: nil)
            case .stranger(let user, let process):
                logRefusal("refused a connection", "", process: process, user: user)
            case .paused:
                Log.once(.noDescriptor, "RLMessagePort", ": no descriptor for a connection; trying again")
                resumeLater()
                return false
            }
        }
        return false
    }

    private func stepLocked() -> Step {
        var events: UInt32 = 0
        var token: UInt64 = 0
        // The set is of the valid port alone; see `closeSetLocked`.
        var noTime = timespec()
        guard isValid, rl_epoll_wait(pointee.local.epoll, &noTime, &token, &events) > 0 else { return .idle }
        if token == MessagePortPointer.listenerToken {
            switch acceptLocked() {
            case .accepted, .nothing: return .progress
            case .refused(let user, let process): return .stranger(user: user, process: process)
            case .paused: return .paused
            }
        }
        guard let place = placeLocked(token: token) else { return .progress }
        if pointee.local.connections![place].replies != nil {
            if events & (EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0 {
                closeLocked(place)
            } else {
                flushLocked(place)
            }
            return .progress
        }
        return receiveLocked(place, token)
    }

    private func receiveLocked(_ place: Int, _ token: UInt64) -> Step {
        let connection = pointee.local.connections![place]
        let receiver: WireReceiver = connection.isServing ? .serving : .awaitingHello
        switch IncomingMessage.receive(from: connection.descriptor, by: receiver, scratch: scratchLocked()) {
        case .nothing: return .progress
        case .ended:
            closeLocked(place)
            return .progress
        case .refused(let error):
            closeLocked(place)
            return .malformed(error, process: connection.process)
        case .message(var message):
            guard message.header.kind == .hello else { return .message(message, token: token) }
            let isForUs = isOwnNameLocked(message.data)
            message.discard()
            if isForUs {
                pointee.local.connections![place].isServing = true
                return .progress
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

    // MARK: The callback

    private func deliver(_ message: IncomingMessage, _ token: UInt64) {
        guard let data = message.data else {
            // The kernel had it, and this process could not take it.
            logRefusal("no descriptor or memory for a message", "", process: nil, user: nil)
            return answer(message, token, nil, isFailure: true)
        }
        lock()
        guard isValid else {
            unlock()
            var message = message
            return message.discard()
        }
        pointee.local.contextUsers += 1
        let context = pointee.local.context
        let callout = pointee.local.callout
        unlock()
        var info = context.info
        if let retain = context.retain {
            info = UnsafeMutableRawPointer(mutating: callOutRetain(retain, info))
            endUseOfContext()
        }
        var frame = MessageFrame(thread: pthread_self(), message: message)
        let reply = withUnsafeMutablePointer(to: &frame) { frame in
            push(frame)
            let reply = callout.flatMap { callOutMessage($0, handle, message.header.number, data.handle, info) }
            pop(frame)
            return reply.map { DataPointer($0) }
        }
        if context.retain == nil { endUseOfContext() } else if let release = context.release { callOutRelease(release, info) }
        if message.header.id != 0 { answer(message, token, reply, isFailure: false) }
        reply?.release()
        frame.message.discard()
    }

    private func answer(_ message: IncomingMessage, _ token: UInt64, _ data: DataPointer?, isFailure: Bool) {
        guard message.header.id != 0 else { return }
        let length = data?.pointee.length ?? 0
        let isTooLong = length > WireHeader.lengthLimit
        let header = WireHeader(
            kind: .reply, flags: 0, id: message.header.id,
            number: isFailure || isTooLong ? WireHeader.failed : WireHeader.succeeded, length: isTooLong ? 0 : UInt64(length),
            descriptors: 0)
        var outgoing = OutgoingMessage(header, bytes: data.map { UnsafeRawPointer($0.bytes) })
        // Before the lock is taken: it may be long.
        if !outgoing.prepare() { outgoing = OutgoingMessage(header.failed, bytes: nil) }
        lock()
        if isValid, let place = placeLocked(token: token) {
            replyLocked(place, outgoing, data)
        } else {
            outgoing.finish()
        }
        unlock()
    }

    /// The callback has its own hold on the info, or is over: an invalidation that came meanwhile left the context to this.
    private func endUseOfContext() {
        lock()
        pointee.local.contextUsers -= 1
        let isDue = !isValid && pointee.state.load(ordering: .relaxed) & MessagePortState.lostInFork == 0
        unlock()
        if isDue { releaseContext() }
    }

    private func push(_ frame: UnsafeMutablePointer<MessageFrame>) {
        lock()
        frame.pointee.outer = pointee.local.frames
        pointee.local.frames = frame
        unlock()
    }

    /// Threads leave in any order.
    private func pop(_ frame: UnsafeMutablePointer<MessageFrame>) {
        lock()
        defer { unlock() }
        if pointee.local.frames == frame {
            pointee.local.frames = frame.pointee.outer
            return
        }
        var other = pointee.local.frames
        while let current = other, current.pointee.outer != frame { other = current.pointee.outer }
        other?.pointee.outer = frame.pointee.outer
    }

    /// `RLMessagePortTakeDescriptors`: from the message whose callback is the innermost one of this port on this thread.
    func takeDescriptors(_ descriptors: UnsafeMutablePointer<Int32>?, _ capacity: Int) -> Int {
        lock()
        defer { unlock() }
        let thread = pthread_self()
        var frame = pointee.local.frames
        while let current = frame, current.pointee.thread != thread { frame = current.pointee.outer }
        guard let frame else { return 0 }
        let left = frame.pointee.message.descriptorCount - frame.pointee.taken
        guard let descriptors else { return left }
        let count = Swift.max(0, Swift.min(left, capacity))
        for index in 0..<count {
            let place = frame.pointee.taken + index
            descriptors[index] = frame.pointee.message.descriptors![place]
            frame.pointee.message.descriptors![place] = -1
        }
        frame.pointee.taken += count
        return count
    }

    // MARK: No descriptor

    /// Looks at the listener again in a tenth of a second, on this loop (S-ARG-10).
    private func resumeLater() {
        let context = ClientContext(
            info: self,
            retain: { info in
                MessagePortPointer.from(info).holdMemory()
                return info
            },
            release: { MessagePortPointer.from($0).releaseMemory() }, copyDescription: nil)
        let timer = TimerPointer.make(
            date: Double(Clock.wallNow()) / 1e9 + 0.1, interval: 0, order: 0,
            callout: { _, info in MessagePortPointer.from(info).resumeListener() }, context: context)
        let loop = RunLoop.current()
        if let mode = loop.pointee.frame?.pointee.mode { loop.addTimer(timer, to: .named(mode.pointee.name)) }
        timer.release()
    }

    // MARK: Log

    private func logRefusal(_ what: StaticString, _ why: StaticString, process: pid_t?, user: uid_t?) {
        var text = TextBuffer()
        text.append("RLMessagePort: ")
        text.append(what)
        text.append(why)
        if let process {
            text.append(" of process ")
            text.append(Int(process))
        }
        if let user {
            text.append(" of user ")
            text.append(Int(user))
        }
        text.append(", port ")
        MessagePortTable.lock()
        if let name = pointee.name { text.appendPrintable(name.bytes) } else { text.append("without a name") }
        MessagePortTable.unlock()
        Log.line(&text)
        text.free()
    }
}
