// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The description of a loop: its state, its contents, and what keeps its modes from being finished (S-SEE-5 to 9). Any thread.
///
/// Under the loop's lock, items are retained and counted, no more than are shown. Everything that is written about them is determined
/// without the lock: it may call the client, and the dynamic linker and the kernel take their time.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The number of items of a kind shown for a mode at most, and of modes.
    private static var shown: Int { 32 }

    func describe(_ text: inout TextBuffer) {
        let isOwn = RunLoop.currentIfMade() == self
        // S-SEE-9
        text.callsClient = isOwn
        describeState(isOwn, &text)
        describeCalls(&text)
        var count = 0
        forEachModeRecord { mode in
            guard mode.pointee.exists.load(ordering: .acquiring) else { return }
            count += 1
            if count <= UnsafeMutablePointer.shown { describe(mode, isOwn, &text) }
        }
        if count > UnsafeMutablePointer.shown {
            text.append("\n    and ")
            text.append(count - UnsafeMutablePointer.shown, " more mode")
        }
        text.append("\n")
        text.callsClient = true
    }

    @inline(never)
    private func describeState(_ isOwn: Bool, _ text: inout TextBuffer) {
        let thread = pointee.thread.load(ordering: .relaxed)
        text.append("thread = ", Int(thread))
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(RL_THREAD_NAME_SIZE)) { name in
            let known = rl_thread_name(thread, name.baseAddress!)
            guard known > 0 else { return text.append(known < 0 ? " (ended)" : "") }
            text.append(" ")
            text.appendName(name.baseAddress!)
        }
        text.append(", current mode = ")
        if let mode = pointee.currentMode.load(ordering: .acquiring) {
            text.appendName(mode.pointee.name)
        } else {
            text.append("(none)")
        }
        var frame = isOwn ? pointee.frame?.pointee.outer : nil
        while let outer = frame {
            text.append(" nested in ")
            text.appendName(outer.pointee.mode.pointee.name)
            frame = outer.pointee.outer
        }
        text.append(", waiting = ", pointee.waiting.load(ordering: .acquiring))
        switch pointee.wake.load(ordering: .relaxed) {
        case WakeState.asleepInFutex: text.append(", asleep in a futex")
        case WakeState.asleepInEpoll: text.append(", asleep in epoll")
        case WakeState.wakeUp: text.append(", a wake-up is pending")
        default: break
        }
        if pointee.stop.load(ordering: .relaxed) == StopState.stopRequested { text.append(", a stop was requested") }
        if !isOwn && pointee.posts.word.load(ordering: .relaxed) != pointee.posts.seen {
            text.append(", functions were posted that it has not looked at")
        }
    }

    /// The callbacks of timers and sources that are on the stack.
    @inline(never)
    private func describeCalls(_ text: inout TextBuffer) {
        var called = ItemList(room: UnsafeMutablePointer.shown)
        lock()
        isCalling(TimerCall.self) { !called.append($0.pointee.timer.header) }
        isCalling(SourceCall.self) { !called.append($0.pointee.source.header) }
        unlock()
        append(called, "\n    calls ", of: called.count, &text)
    }

    @inline(never)
    private func describe(_ mode: ModePointer, _ isOwn: Bool, _ text: inout TextBuffer) {
        var sources = ItemList(room: UnsafeMutablePointer.shown)
        var timers = ItemList(room: UnsafeMutablePointer.shown)
        var observers = ItemList(room: UnsafeMutablePointer.shown)
        lock()
        append(.sources, of: mode, to: &sources)
        append(.timers, of: mode, to: &timers)
        append(.observers, of: mode, to: &observers)
        let sourceCount = count(.sources, in: mode)
        let timerCount = count(.timers, in: mode)
        let observerCount = count(.observers, in: mode)
        unlock()
        let functions = queuedFunctions(in: mode, isOwn: isOwn)

        text.append("\n    mode ")
        text.appendName(mode.pointee.name)
        if mode.pointee.isCommon.load(ordering: .relaxed) { text.append(" (common)") }
        text.append(":")
        append(sources, "\n        ", of: sourceCount, &text)
        append(timers, "\n        ", of: timerCount, &text)
        append(observers, "\n        ", of: observerCount, &text)
        for index in 0..<functions.shownCount {
            text.append("\n        function ", function: unsafeBitCast(functions[index].perform, to: UnsafeRawPointer?.self))
            text.append(", info = ")
            text.append(address: functions[index].info)
        }
        appendRest(functions.count - functions.shownCount, &text)

        // S-SEE-7
        text.append("\n        ")
        let servesMainQueue = servesMainQueue(in: mode)
        if sourceCount + timerCount + functions.count == 0 && !servesMainQueue {
            text.append("nothing keeps this mode from being finished")
        } else {
            text.append("kept from being finished by")
            var comma: StaticString = " "
            func append(_ count: Int, _ thing: StaticString) {
                if count == 0 { return }
                text.append(comma)
                text.append(count, thing)
                comma = ", "
            }
            append(sourceCount, " source")
            append(timerCount, " timer")
            append(functions.count, " queued function")
            if !functions.hasAll { text.append(" or more") }
            if servesMainQueue {
                text.append(comma)
                text.append("the main dispatch queue")
            }
        }
        functions.free()
    }

    /// Writes a line for each item, and one for those that had no room in the list. Frees the list.
    @inline(never)
    private func append(_ list: ItemList, _ label: StaticString, of count: Int, _ text: inout TextBuffer) {
        for index in 0..<list.count {
            text.append(label)
            list.items[index]!.describe(&text)
        }
        appendRest(count - list.count, &text)
        list.free()
    }

    private func appendRest(_ count: Int, _ text: inout TextBuffer) {
        if count <= 0 { return }
        text.append("\n        and ")
        text.append(count)
        text.append(" more")
    }
}

/// `RLDump`.
extension RunLoop {
    /// Writes the description of a loop, or those of all whose threads live. False if not all of it was written.
    static func dump(_ loop: RunLoopPointer?, _ descriptor: Int32) -> Bool {
        var text = TextBuffer()
        if let loop {
            append(loop, &text)
        } else {
            forEachAlive {
                append($0, &text)
                return true
            }
        }
        defer { text.free() }
        return rl_write_all(descriptor, text.bytes, text.count)
    }

    /// Calls the body, without a lock, with each loop whose thread lives, until it returns false. The loop is retained meanwhile.
    static func forEachAlive(_ body: (RunLoopPointer) -> Bool) {
        process.pointee.registryLock.lockWord()
        var record = registry.pointee.loopRecords
        process.pointee.registryLock.unlockWord()
        var goesOn = true
        while goesOn, let current = record {
            record = current.pointee.olderRecord
            guard current.retainIfAlive() else { continue }
            goesOn = body(current)
            current.release()
        }
    }

    static func append(_ loop: RunLoopPointer, _ text: inout TextBuffer) {
        loop.header.describe(&text)
        text.append("\n")
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Takes a reference to a record that may be in the pool, if its thread lives: the thread drops its own reference only after it has
    /// cleared `threadAlive`, under the lock.
    fileprivate func retainIfAlive() -> Bool {
        lock()
        defer { unlock() }
        let isLoop = header.pointee.type.load(ordering: .acquiring) == ObjectType.runLoop.rawValue
        guard isLoop, pointee.threadAlive.load(ordering: .acquiring) else { return false }
        retain()
        return true
    }
}
