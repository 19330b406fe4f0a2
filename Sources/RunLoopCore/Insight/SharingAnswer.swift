// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A datagram of a peer, with a NUL behind it.
struct SharingRequest {
    var bytes: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
}

/// What a process reports about its loops (S-OUT-3).
enum SharingAnswer {
    case known(TextBuffer)
    /// A trace of this many bytes, which `rl_trace_free` frees.
    case trace(UnsafeMutableRawPointer, Int)
    /// The request is unknown.
    case none

    /// After this many bytes no further loop is added.
    private static var limit: Int { 512 * 1024 }

    static func make(
        _ request: SharingRequest, measures: inout Bool, trace: inout SharingTrace, mayTrace: Bool
    ) -> SharingAnswer {
        var request = request
        return withUnsafePointer(to: &request.bytes) { bytes in
            let word = UnsafeRawPointer(bytes).assumingMemoryBound(to: CChar.self)
            if strcmp(word, "trace start") == 0 {
                let starts = mayTrace && Trace.start(nil, loops: 0)
                if starts { trace = .recorded }
                return .known(traceLine(starts))
            }
            if strcmp(word, "trace stop") == 0 {
                var bytes: UnsafeMutableRawPointer?
                let isRecorded = trace == .recorded
                if isRecorded { trace = .none }
                guard isRecorded, case let count = Trace.stop(isLent: true, taken: &bytes), count > 0, let bytes else {
                    return .known(traceLine(false))
                }
                trace = .sent
                return .trace(bytes, count)
            }
            if strcmp(word, "measure") == 0 {
                measures = true
            } else if strncmp(word, "dump", 4) == 0 {
                if word[4] == 0 { return .known(dump(nil)) }
                // strtol(3) also takes blanks and signs.
                guard word[4] == 0x20, word[5] >= 0x30, word[5] <= 0x39 else { return .none }
                var end: UnsafeMutablePointer<CChar>?
                let thread = strtol(word + 4, &end, 10)
                return end!.pointee == 0 ? .known(dump(thread)) : .none
            } else if strcmp(word, "statistics") != 0 {
                return .none
            }
            return .known(statistics(measures))
        }
    }

    private static func traceLine(_ isOn: Bool) -> TextBuffer {
        var text = TextBuffer()
        text.append(isOn ? "{\"trace\":true}\n" : "{\"trace\":false}\n")
        return text
    }

    /// Calls the body with loops while the answer is short; returns how many were left out.
    private static func forEachLoop(_ text: inout TextBuffer, _ body: (RunLoopPointer, inout TextBuffer) -> Void) -> Int {
        var left = 0
        RunLoop.forEachAlive {
            if text.count > limit { left += 1 } else { body($0, &text) }
            return true
        }
        return left
    }

    private static func dump(_ thread: Int?) -> TextBuffer {
        var text = TextBuffer()
        let left = forEachLoop(&text) { loop, text in
            if let thread, Int(loop.pointee.thread.load(ordering: .relaxed)) != thread { return }
            RunLoop.append(loop, &text)
        }
        if left > 0 {
            text.append("and ")
            text.append(left, " more loop")
            text.append("\n")
        }
        return text
    }

    private static func statistics(_ measures: Bool) -> TextBuffer {
        var text = TextBuffer()
        text.append("{\"version\":1,\"process\":", Int(getpid()))
        text.append(",\"time\":", nanoseconds: Clock.now())
        text.append("}\n")
        let left = forEachLoop(&text) { loop, text in
            if measures { loop.setAccounting(true, for: AccountingAsker.peer) }
            loop.appendStatistics(&text)
        }
        text.append("{\"left\":", left)
        text.append("}\n")
        return text
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The number of items reported at most: those that took the most time.
    private static var toldItems: Int { 8 }
    /// The number of accounts of items that are looked at under the lock at most.
    private static var looks: Int { 1024 }

    /// One line of JSON.
    fileprivate func appendStatistics(_ text: inout TextBuffer) {
        text.append("{\"loop\":\"")
        text.append(address: self)
        text.append("\",\"thread\":", Int(pointee.thread.load(ordering: .relaxed)))
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(RL_THREAD_NAME_SIZE)) { name in
            if rl_thread_name(pointee.thread.load(ordering: .relaxed), name.baseAddress!) > 0 { text.append(",\"threadName\":", json: name.baseAddress!) }
        }
        text.appendName(of: header)
        if let mode = pointee.currentMode.load(ordering: .acquiring) { text.append(",\"mode\":", json: mode.pointee.name) }
        text.append(",\"waiting\":", json: pointee.waiting.load(ordering: .acquiring))
        text.append(",\"asleep\":", json: WakeState.isAsleep(pointee.wake.load(ordering: .relaxed)))
        text.append(",\"measured\":", json: isAccounting)
        text.append(",\"queuedPosts\":", pointee.posts.unseenCount)
        text.append(",\"queuedRequests\":", requests.pointee.count.load(ordering: .relaxed) + orderedRequests.pointee.count.load(ordering: .relaxed))
        appendCalls(&text)
        appendCounters(&text)
        text.append(",\"callOutTimes\":", quantiles: self, .callOuts)
        text.append(",\"lateness\":", quantiles: self, .lateness)
        text.append(",\"signals\":", quantiles: self, .signals)
        appendItems(&text)
        text.append("}\n")
    }

    /// The timers and sources whose callbacks are on the stack, the innermost first.
    private func appendCalls(_ text: inout TextBuffer) {
        var called = ItemList(room: UnsafeMutablePointer.toldItems)
        lock()
        isCalling(TimerCall.self) { !called.append($0.pointee.timer.header) }
        isCalling(SourceCall.self) { !called.append($0.pointee.source.header) }
        unlock()
        text.append(",\"inCall\":[")
        for index in 0..<called.count {
            if index > 0 { text.append(",") }
            text.append("", json: called.items[index]!)
        }
        text.append("]")
        called.free()
    }

    /// The fields of `RLStatistics` after its version, each a word, with their names.
    private func appendCounters(_ text: inout TextBuffer) {
        var statistics = RLStatistics()
        readCounters(&statistics)
        readAccounting(&statistics)
        withUnsafeBytes(of: &statistics) { bytes in
            var name = rl_statistics_names()!
            for index in 1..<bytes.count / 8 {
                text.append(",\"")
                // A mark before the name says that the field is a time.
                let isTime = name[0] == 0x2a
                text.append(cString: isTime ? name + 1 : name)
                text.append("\":")
                let word = bytes.load(fromByteOffset: 8 * index, as: UInt64.self)
                if isTime {
                    text.append("", nanoseconds: Int64(Double(bitPattern: word) * 1e9))
                } else {
                    text.append(Int(truncatingIfNeeded: word))
                }
                name += strlen(name) + 1
            }
        }
    }

    private func appendItems(_ text: inout TextBuffer) {
        var list = ItemList(room: UnsafeMutablePointer.toldItems)
        withUnsafeTemporaryAllocation(of: ItemAccount.self, capacity: UnsafeMutablePointer.toldItems) { accounts in
            copyLargestAccounts(accounts.baseAddress!, UnsafeMutablePointer.looks, &list)
            text.append(",\"items\":[")
            for index in 0..<list.count {
                if index > 0 { text.append(",") }
                text.append("{\"what\":", json: list.items[index]!)
                text.appendName(of: list.items[index]!)
                text.append(",\"calls\":", Int(truncatingIfNeeded: accounts[index].calls))
                text.append(",\"total\":", nanoseconds: Int64(accounts[index].total))
                text.append(",\"longest\":", nanoseconds: Int64(accounts[index].longest))
                text.append(",\"last\":", nanoseconds: Int64(accounts[index].last))
                text.append("}")
            }
            text.append("]")
        }
        list.free()
    }
}

extension TextBuffer {
    /// A label and a time in seconds.
    fileprivate mutating func append(_ label: StaticString, nanoseconds: Int64) {
        append(label, Int(nanoseconds))
        append("e-9")
    }

    @inline(never)
    fileprivate mutating func append(_ label: StaticString, json value: Bool) {
        append(label)
        let word: StaticString = value ? "true" : "false"
        append(word)
    }

    /// The median, the 99th percentile, and the longest.
    fileprivate mutating func append(_ label: StaticString, quantiles loop: RunLoopPointer, _ kind: HistogramKind) {
        append(label, nanosecondsOf: loop.quantile(kind, 0.5), "[")
        append(",", nanosecondsOf: loop.quantile(kind, 0.99), "")
        append(",", nanosecondsOf: loop.quantile(kind, 1), "")
        append("]")
    }

    private mutating func append(_ label: StaticString, nanosecondsOf seconds: Double, _ bracket: StaticString) {
        append(label)
        append(bracket, nanoseconds: Int64(seconds * 1e9))
    }

    fileprivate mutating func appendName(of object: ObjectPointer) {
        guard let name = object.copyName() else { return }
        append(",\"name\":", json: name)
        CRunLoopLinux.free(name)
    }

    /// The description of an object, without the client's part.
    @inline(never)
    fileprivate mutating func append(_ label: StaticString, json object: ObjectPointer) {
        var words = TextBuffer()
        words.callsClient = false
        object.describe(&words)
        append(label, json: words.terminated())
        words.free()
    }

    /// A JSON string; bytes that are not UTF-8 become U+FFFD (S-OUT-9).
    @inline(never)
    fileprivate mutating func append(_ label: StaticString, json string: UnsafePointer<CChar>) {
        append(label, "\"")
        var rest = string
        while rest[0] != 0 {
            let length = Int(rl_utf8_length(rest))
            let byte = UInt8(bitPattern: rest[0])
            if length == 0 {
                append("\\ufffd")
            } else if byte < 0x20 || byte == 0x7f || byte == 0x22 || byte == 0x5c {
                append("\\u00")
                append(UInt(byte >> 4), radix: 16)
                append(UInt(byte & 15), radix: 16)
            } else {
                append(bytes: rest, count: length)
            }
            rest += Swift.max(length, 1)
        }
        append("\"")
    }
}
