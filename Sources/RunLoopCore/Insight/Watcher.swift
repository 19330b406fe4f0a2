// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The thread that reports slow callbacks (S-SLOW), one for the process. It looks at all watched loops, stores in `wakes` until when it
/// sleeps, looks once more, and sleeps. It runs no loop and holds no lock while it reports.
extension Watcher {
    /// Called when the library is loaded.
    static func enter() {
        shared.pointee.wakes.store(Clock.never, ordering: .relaxed)
        shared.pointee.body = { _ in Watcher.run() }
        shared.pointee.meet = { $0.assumingMemoryBound(to: RunLoop.self).watchAsEnvironmentAsks() }
    }

    private static func run() {
        rl_set_thread_name("runloop-watch")
        shared.pointee.lock.lockWord()
        shared.pointee.thread = Int32(rl_gettid())
        shared.pointee.lock.unlockWord()
        while true {
            let word = shared.pointee.word.load(ordering: .acquiring)
            shared.pointee.wakes.store(awake, ordering: .sequentiallyConsistent)
            callOutGuarded({ _ in Watcher.tellAll() }, nil, { _ in Watcher.threadEnds() }, shared)
            let next = earliest()
            shared.pointee.wakes.store(next, ordering: .sequentiallyConsistent)
            // A thread that began a callback or moved a clock since the look found `wakes` at `awake`, and did not rouse this one.
            if earliest() < next { continue }
            shared.pointee.word.futexWait(while: word, until: next)
        }
    }

    private static func tellAll() {
        // The references of a thread that has ended, or does not exist in this child of `fork`.
        dropReferences()
        while tellNext() {}
    }

    /// The instant of the system's clock at which the next callback is to be reported; 0: one is to be reported now.
    private static func earliest() -> Int64 {
        var next = Clock.never
        forEachWatch { loop, watch in
            watch.lock.lockWord()
            if watch.due.load(ordering: .sequentiallyConsistent) != Clock.never {
                let due = watch.due.load(ordering: .relaxed)
                if loop.watchTime >= due {
                    next = 0
                } else if loop.manualClock == nil {
                    next = Swift.min(next, due)
                }
            }
            watch.lock.unlockWord()
            return next != 0
        }
        return next
    }

    /// Calls the body with every watched loop until it returns false. Records are never unmapped, and the list of them only grows.
    private static func forEachWatch(_ body: (RunLoopPointer, borrowing CalloutWatch) -> Bool) {
        process.pointee.registryLock.lockWord()
        var next = registry.pointee.loopRecords
        process.pointee.registryLock.unlockWord()
        while let loop = next {
            next = loop.pointee.olderRecord
            if let watch = loop.pointee.watch.load(ordering: .acquiring), !body(loop, watch.pointee) { return }
        }
    }

    /// Reports a callback whose time has come. False if there is none.
    private static func tellNext() -> Bool {
        var slow = SlowCallout()
        shared.pointee.lock.lockWord()
        forEachWatch { loop, _ in !slow.take(loop) }
        shared.pointee.loop = slow.loop
        shared.pointee.item = slow.item
        shared.pointee.handler = slow.handler
        shared.pointee.lock.unlockWord()
        if slow.loop == nil {
            slow.free()
            return false
        }
        if slow.computes { slow.ask() }
        slow.tell()
        dropReferences()
        return true
    }

    /// May call the client, who may end the thread: then the next one goes on with the others.
    private static func dropReferences() {
        while true {
            shared.pointee.lock.lockWord()
            let memory = shared.pointee.memory
            shared.pointee.memory = (nil, nil, nil, nil)
            let (loop, item, handler) = (shared.pointee.loop, shared.pointee.item, shared.pointee.handler)
            if item != nil {
                shared.pointee.item = nil
            } else if handler != nil {
                shared.pointee.handler = nil
            } else {
                shared.pointee.loop = nil
            }
            shared.pointee.lock.unlockWord()
            CRunLoopLinux.free(memory.0)
            CRunLoopLinux.free(memory.1)
            CRunLoopLinux.free(memory.2)
            CRunLoopLinux.free(memory.3)
            if let item {
                item.releaseByClient()
            } else if let handler {
                handler.release()
            } else {
                loop?.release()
                return
            }
        }
    }

    /// A function of the client has ended the thread: another one takes its place.
    fileprivate static func threadEnds() {
        shared.pointee.lock.lockWord()
        shared.pointee.isRunning = false
        shared.pointee.wakes.store(Clock.never, ordering: .sequentiallyConsistent)
        shared.pointee.lock.unlockWord()
        rouse()
    }

    /// Memory that the next `dropReferences` frees.
    fileprivate static func keep(
        _ frames: UnsafeMutableRawPointer, _ trace: UnsafeMutableRawPointer, _ symbol: UnsafeMutableRawPointer, _ name: UnsafeMutableRawPointer?
    ) {
        shared.pointee.lock.lockWord()
        shared.pointee.memory = (frames, trace, symbol, name)
        shared.pointee.lock.unlockWord()
    }

    static func prepareFork() {
        shared.pointee.lock.lockWord()
        shared.pointee.forks = shared.pointee.isRunning && shared.pointee.thread == Int32(rl_gettid())
    }
    static func forkedParent() { shared.pointee.lock.unlockWord() }

    /// The thread does not exist, unless it is the one that forked.
    static func forkedChild() {
        shared.pointee.lock.resetInChild()
        rl_forget_question()
        // The search for the next instant holds none of the locks that `fork` waits for, and changes nothing. Apart from it, only the loop's
        // thread and threads with the loop's lock take the lock of a watch.
        var next = registry.pointee.loopRecords
        while let loop = next {
            next = loop.pointee.olderRecord
            loop.pointee.watch.load(ordering: .relaxed)?.pointee.lock.resetInChild()
        }
        if shared.pointee.forks {
            shared.pointee.thread = Int32(rl_gettid())
        } else {
            shared.pointee.isRunning = false
            shared.pointee.wakes.store(Clock.never, ordering: .relaxed)
        }
    }
}

/// A callback that is reported.
private struct SlowCallout {
    private(set) var loop: RunLoopPointer?
    private(set) var item: ObjectPointer?
    private(set) var handler: SlowHandlerPointer?
    private var kind = CallOutKind.function
    private var function: UnsafeRawPointer?
    private var mode: ModePointer?
    /// In nanoseconds, and the date at which it began.
    private var time: Int64 = 0
    private var since = 0.0
    private var count: UInt32 = 0
    private let frames = makeArray(UnsafeRawPointer?.self, count: SlowCallout.capacity)
    private var frameCount = 0
    /// Where the library called the callback.
    private var stack: UnsafeRawPointer?
    /// The thread is not blocked in the kernel, and can be asked.
    private(set) var computes = false

    private static var capacity: Int { 48 }

    /// Takes references to what is reported if the loop's callback is to be reported now. The lock of the watch keeps the callback from ending.
    /// The watcher's lock is held.
    mutating func take(_ loop: RunLoopPointer) -> Bool {
        let watch = loop.pointee.watch.load(ordering: .acquiring)!
        watch.pointee.lock.lockWord()
        defer { watch.pointee.lock.unlockWord() }
        let due = watch.pointee.due.load(ordering: .sequentiallyConsistent)
        guard due != Clock.never, case let now = loop.watchTime, now >= due else { return false }
        var call = watch.pointee.call
        var distance = due - call.began
        while call.began + distance <= now { distance *= 2 }
        call.due = call.began + distance
        call.told += 1
        watch.pointee.call = call
        watch.pointee.due.store(call.due, ordering: .sequentiallyConsistent)

        loop.retain()
        self.loop = loop
        item = call.item
        item?.pointee.references.wrappingAdd(1, ordering: .relaxed)
        handler = watch.pointee.handler
        handler?.retain()
        kind = call.kind
        function = call.function
        // The innermost run is that of the callback. Modes stay as long as their loop.
        mode = loop.pointee.currentMode.load(ordering: .acquiring)
        time = now - call.began
        since = (loop.manualClock?.date(of: nil) ?? Double(Clock.wallNow()) / 1e9) - Double(time) / 1e9
        count = call.told
        let thread = loop.pointee.thread.load(ordering: .relaxed)
        stack = call.stack
        frameCount = Int(rl_blocked_backtrace(thread, stack, frames, UInt32(SlowCallout.capacity), &computes))
        computes = computes && watch.pointee.takesQuestions
        return true
    }

    /// The backtrace of a thread that computes. The thread is asked without a lock, so the callback may end meanwhile, and another one begin.
    mutating func ask() {
        let thread = loop!.pointee.thread.load(ordering: .relaxed)
        let found = rl_computing_backtrace(thread, stack, frames, UInt32(SlowCallout.capacity))
        let watch = loop!.pointee.watch.load(ordering: .acquiring)!
        watch.pointee.lock.lockWord()
        let call = watch.pointee.call
        let isSame = watch.pointee.due.load(ordering: .relaxed) != Clock.never && call.stack == stack && call.told == count
        watch.pointee.lock.unlockWord()
        if isSame { frameCount = Int(found) }
    }

    /// Calls the handler, or writes the line. No lock is held. What it makes for that is in the keeping of the watcher, as the handler may end the
    /// thread.
    mutating func tell() {
        let loop = self.loop!
        var trace = TextBuffer()
        var symbol = TextBuffer()
        symbol.append("", function: function)
        describeFrames(&trace, &symbol)
        let name = item?.copyName()
        Watcher.keep(frames, trace.terminated(), symbol.terminated(), name)
        if let handler, let function = handler.pointee.function {
            var callout = RLSlowCallout(
                version: 0, loop: loop.handle, mode: UnsafePointer(modeName), kind: RLCalloutKind(rawValue: kind.number)!,
                thread: loop.pointee.thread.load(ordering: .relaxed), item: UnsafeRawPointer(item), name: UnsafePointer(name),
                function: self.function, symbol: UnsafePointer(symbol.terminated()), since: since, time: Double(time) / 1e9, count: count,
                frameCount: UInt32(frameCount), frames: UnsafePointer(frames), trace: UnsafePointer(trace.terminated()))
            callOutSlowCallout(function, &callout, handler.pointee.info)
        } else {
            writeLine(&trace, &symbol, name)
        }
    }

    /// Goes up to the library's frame that calls the client. The function that this frame called is used if it is not known otherwise.
    @inline(never)
    private mutating func describeFrames(_ trace: inout TextBuffer, _ symbol: inout TextBuffer) {
        for index in 0..<frameCount {
            var file: UnsafePointer<CChar>?
            var offset: UInt = 0
            // If a call is a function's last instruction, the return address may belong to the next function.
            let name = rl_code_symbol(frames[index]! - (index == 0 ? 0 : 1), &file, &offset)
            if let name, strncmp(name, "RLCallOut", 9) == 0 {
                frameCount = index
                break
            }
            if index > 0 { trace.append(" < ") }
            trace.appendCode(name, file, offset)
        }
        guard function == nil else { return }
        symbol.removeAll()
        guard frameCount > 1 else { return symbol.append("?") }
        var file: UnsafePointer<CChar>?
        var offset: UInt = 0
        let name = rl_code_symbol(frames[frameCount - 1]! - 1, &file, &offset)
        symbol.appendCode(name, file, offset)
    }

    private var modeName: UnsafeMutablePointer<CChar> { (mode ?? loop!.pointee.defaultMode).pointee.name }

    @inline(never)
    private func writeLine(_ trace: inout TextBuffer, _ symbol: inout TextBuffer, _ name: UnsafeMutablePointer<CChar>?) {
        var text = TextBuffer()
        text.append("RunLoop: for ", Double(time / 1_000_000) / 1000)
        text.append(" s the loop ")
        text.append(address: UnsafeRawPointer(loop))
        if let name = loop!.header.copyName() {
            text.append(" ")
            text.appendName(name)
            CRunLoopLinux.free(name)
        }
        text.append(" (thread ", Int(loop!.pointee.thread.load(ordering: .relaxed)))
        text.append(") is in ")
        switch kind {
        case .source, .portSource, .watch: text.append("source")
        case .timer: text.append("timer")
        case .observer: text.append("observer")
        case .function: text.append("function")
        case .mainQueue: text.append("the main dispatch queue")
        }
        if let name {
            text.append(" ")
            text.appendName(name)
        }
        text.append(", ")
        text.append(cString: symbol.terminated())
        text.append(", in mode ")
        text.appendName(modeName)
        if trace.count > 0 {
            text.append(": ")
            text.append(cString: trace.terminated())
        }
        Log.line(text)
    }

    func free() { CRunLoopLinux.free(frames) }
}

extension TextBuffer {
    fileprivate mutating func appendCode(_ name: UnsafePointer<CChar>?, _ file: UnsafePointer<CChar>?, _ offset: UInt) {
        if let name {
            appendPrintable(name)
        } else if let file {
            appendPrintable(file)
            append("+0x", offset, radix: 16)
        } else {
            append("?")
        }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// `RUNLOOP_SLOW`, for a new loop (S-SLOW-9).
    fileprivate func watchAsEnvironmentAsks() {
        var limit = Watcher.shared.pointee.environment.load(ordering: .relaxed)
        if limit == 0 {
            limit = Watcher.readEnvironment()
            Watcher.shared.pointee.environment.store(limit, ordering: .relaxed)
        }
        if limit > 0 { setSlowHandler(limit, nil) }
    }
}

extension Watcher {
    /// Negative: the environment sets no limit.
    @inline(never)
    fileprivate static func readEnvironment() -> Int64 {
        guard let value = rl_environment("RUNLOOP_SLOW") else { return -1 }
        guard let seconds = decimal(value), seconds > 0 else { return misread }
        return RunLoopPointer.slowLimit(seconds)
    }

    /// A decimal number without a sign, as in C, whatever the program's locale is.
    private static func decimal(_ text: UnsafePointer<CChar>) -> Double? {
        var value = 0.0
        var unit = 0.0
        var digits = 0
        var next = text
        while next.pointee != 0 {
            switch UInt8(bitPattern: next.pointee) {
            case let digit where digit >= 48 && digit <= 57:
                value = value * 10 + Double(digit - 48)
                unit *= 10
                digits += 1
            case 46 where unit == 0: unit = 1
            default: return nil
            }
            next += 1
        }
        return digits > 0 ? value / (unit == 0 ? 1 : unit) : nil
    }
}
