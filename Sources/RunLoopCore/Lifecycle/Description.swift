import CLinux
import Synchronization

/// Descriptions for people who debug: one line, the object's type, address and state, and what the client's
/// `copyDescription` says of its info.
enum Description {
    static func of(_ object: ObjectPointer) -> UnsafeMutablePointer<CChar>? {
        var text = TextBuffer()
        switch ObjectType(rawValue: object.pointee.type.load(ordering: .relaxed)) {
        case .data: describe(cast(object, to: Data.self), &text)
        case .runLoop: describe(cast(object, to: RunLoop.self), &text)
        case .source: describe(cast(object, to: Source.self), &text)
        case .observer: describe(cast(object, to: Observer.self), &text)
        case .timer: describe(cast(object, to: Timer.self), &text)
        case .fileDescriptor: describe(cast(object, to: FileDescriptor.self), &text)
        case .socket: describe(cast(object, to: Socket.self), &text)
        case .foreignRun: describe(cast(object, to: ForeignRun.self), &text)
        case .machPort: describe(cast(object, to: MachPort.self), &text)
        case .messagePort: describe(cast(object, to: MessagePort.self), &text)
        case .thread: describe(cast(object, to: Thread.self), &text)
        case .freed, nil: trap("RLCopyDescription", "the object was released too often")
        }
        text.append("}")
        return text.terminated()
    }

    private static func cast<Record: ~Copyable>(_ object: ObjectPointer, to type: Record.Type) -> UnsafeMutablePointer<Record> {
        UnsafeMutableRawPointer(object).assumingMemoryBound(to: type)
    }

    private static func begin(_ name: StaticString, _ object: UnsafeRawPointer, _ text: inout TextBuffer) {
        text.append("<")
        text.append(name)
        text.append(" ")
        text.append(address: object)
        text.append(">{")
    }

    private static func describe(_ data: DataPointer, _ text: inout TextBuffer) {
        begin("RLData", data, &text)
        text.append("length = ")
        text.append(data.pointee.length)
    }

    private static func describe(_ loop: RunLoopPointer, _ text: inout TextBuffer) {
        begin("RLRunLoop", loop, &text)
        text.append("current mode = ")
        if let mode = loop.pointee.currentMode.load(ordering: .acquiring) {
            text.appendPrintable(mode.pointee.name)
        } else {
            text.append("(none)")
        }
        text.append(", waiting = ")
        text.append(loop.pointee.waiting.load(ordering: .acquiring))
        text.append(", modes = (")
        loop.lock()
        loop.forEachModeRecord { mode in
            guard mode.pointee.exists.load(ordering: .relaxed) else { return }
            text.append(" ")
            text.appendPrintable(mode.pointee.name)
            if mode.pointee.isCommon.load(ordering: .relaxed) { text.append(" (common)") }
            text.append(": ")
            text.append(mode.pointee.sources.count)
            text.append(" sources, ")
            text.append(mode.pointee.timerCount)
            text.append(" timers;")
        }
        loop.unlock()
        text.append(" )")
    }

    private static func describe(_ run: ForeignRunPointer, _ text: inout TextBuffer) {
        begin("RLForeignRun", run, &text)
        text.append("mode = ")
        text.appendPrintable(run.pointee.mode.pointee.name)
        text.append(", valid = ")
        text.append(run.isValid)
    }

    private static func describe(_ source: SourcePointer, _ text: inout TextBuffer) {
        begin("RLSource", source, &text)
        text.append("version = ")
        text.append(source.isPort ? 1 : 0)
        text.append(", order = ")
        text.append(source.pointee.order)
        text.append(", valid = ")
        text.append(source.isValid)
        text.append(", signalled = ")
        text.append(source.isFlagged)
        describeInfo(source.pointee.info, source.functions.copyDescription, &text)
    }

    private static func describe(_ observer: ObserverPointer, _ text: inout TextBuffer) {
        begin("RLObserver", observer, &text)
        text.append("activities = 0x")
        text.append(observer.pointee.activities, radix: 16)
        text.append(", repeats = ")
        text.append(observer.pointee.repeats)
        text.append(", order = ")
        text.append(observer.pointee.order)
        let isValid = observer.isValid
        text.append(", valid = ")
        text.append(isValid)
        let context = observer.pointee.context
        describeInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil, &text)
    }

    private static func describe(_ timer: TimerPointer, _ text: inout TextBuffer) {
        let owner = timer.lockTimer()
        let isValid = timer.isValid
        let date = isValid ? timer.details.pointee.fireDate : 0
        let order = timer.order
        timer.unlockTimer(owner)
        begin("RLTimer", timer, &text)
        text.append("next fire date = ")
        text.append(date)
        text.append(", interval = ")
        text.append(timer.interval)
        text.append(", order = ")
        text.append(order)
        text.append(", valid = ")
        text.append(isValid)
        let context = timer.context
        describeInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil, &text)
    }

    private static func describe(_ file: FileDescriptorPointer, _ text: inout TextBuffer) {
        begin("RLFileDescriptor", file, &text)
        let state = file.pointee.state.load(ordering: .acquiring)
        text.append("descriptor = ")
        text.append(Int(file.pointee.descriptor.load(ordering: .relaxed)))
        text.append(", callbacks enabled = 0x")
        text.append(UInt(state & FileDescriptorState.enabled), radix: 16)
        text.append(", closed on invalidation = ")
        text.append(state & FileDescriptorState.closesOnInvalidate != 0)
        let isValid = state & FileDescriptorState.invalid == 0
        text.append(", valid = ")
        text.append(isValid)
        let functions = file.pointee.callbacks.pointee.functions
        describeInfo(isValid ? file.pointee.info : nil, isValid ? functions.copyDescription : nil, &text)
    }

    private static func describe(_ port: MachPortPointer, _ text: inout TextBuffer) {
        port.pointee.lock.lockWord()
        let (count, limit) = (port.pointee.count, port.pointee.limit)
        port.pointee.lock.unlockWord()
        begin("RLMachPort", port, &text)
        text.append("port = ")
        text.append(Int(port.pointee.descriptor.load(ordering: .relaxed)))
        text.append(", queued = ")
        text.append(count)
        text.append(" of ")
        text.append(limit)
        let isValid = port.isValid
        text.append(", valid = ")
        text.append(isValid)
        let context = port.pointee.context
        describeInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil, &text)
    }

    private static func describe(_ port: MessagePortPointer, _ text: inout TextBuffer) {
        begin("RLMessagePort", port, &text)
        let kind: StaticString = port.pointee.isRemote ? "remote" : "local"
        text.append(kind)
        text.append(", name = ")
        MessagePortTable.lock()
        if let name = port.pointee.name { text.appendPrintable(name.bytes) } else { text.append("(none)") }
        MessagePortTable.unlock()
        text.append(", valid = ")
        text.append(port.isValid)
        let context = port.beginUseOfContext()
        describeInfo(context?.info, context?.copyDescription, &text)
        if context != nil { port.endUseOfContext() }
    }

    private static func describe(_ socket: SocketPointer, _ text: inout TextBuffer) {
        begin("RLSocket", socket, &text)
        let isValid = socket.isValid
        text.append("descriptor = ")
        text.append(Int(socket.native))
        text.append(", callback types = 0x")
        text.append(socket.pointee.types, radix: 16)
        text.append(", flags = 0x")
        text.append(socket.pointee.flags.load(ordering: .relaxed), radix: 16)
        text.append(", valid = ")
        text.append(isValid)
        let functions = socket.pointee.callbacks.pointee.functions
        describeInfo(isValid ? socket.pointee.info : nil, isValid ? functions.copyDescription : nil, &text)
    }

    private static func describe(_ thread: ThreadPointer, _ text: inout TextBuffer) {
        begin("RLThread", thread, &text)
        text.append("name = ")
        if let name = thread.pointee.name { text.appendPrintable(name) } else { text.append("(none)") }
        text.append(", executing = ")
        text.append(thread.isExecuting)
        text.append(", cancelled = ")
        text.append(thread.isCancelled)
        text.append(", finished = ")
        text.append(thread.isFinished)
    }

    /// The client's words are printed as they are: it gave them for this (S-ARG-8).
    private static func describeInfo(
        _ info: UnsafeMutableRawPointer?, _ copyDescription: DescribeFunction?, _ text: inout TextBuffer
    ) {
        text.append(", info = ")
        if let copyDescription, let words = callOutCopyDescription(copyDescription, info) {
            text.append(cString: words)
            CLinux.free(words)
        } else {
            text.append(address: info)
        }
    }
}
