// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// Starting and stopping a trace, and the trace in the child of `fork`.
extension Trace {
    /// The number of loops that have rings if the program does not set one.
    static var usualLoops: Int { 16 }
    static var mostLoops: Int { 1024 }

    /// Starts a trace; if that is not possible, logs one line and returns false. nil: in memory, and nothing is logged. No lock is held.
    static func start(_ path: UnsafePointer<CChar>?, loops: Int) -> Bool {
        guard claim(isLent: path == nil) else {
            if path != nil { Log.write("RLTraceStart", ": a trace is on already") }
            return false
        }
        shared.pointee.usesClock.store(rl_counts_of_moment() <= 1, ordering: .relaxed)
        let ringCount = loops <= 0 ? usualLoops : Swift.min(loops, mostLoops)
        var header = self.header(ringCount: ringCount)
        let length = Int(header.file_size)
        var error: Int32 = 0
        var others: Int32 = 0
        // A shorter trace takes the beginning of the mapping, so that starts with different numbers of loops do not use up addresses.
        let former = length <= shared.pointee.room ? shared.pointee.memory.load(ordering: .relaxed) : nil
        guard let memory = rl_trace_create(path, &header, former, &error, &others) else {
            shared.pointee.state.store(TraceState.off, ordering: .releasing)
            if let path { tellFailure(path, error) }
            return false
        }
        process.pointee.registryLock.lockWord()
        if memory != former { shared.pointee.room = length }
        shared.pointee.length = length
        shared.pointee.namesUsed = 0
        prepareRingsLocked(ringCount)
        shared.pointee.memory.store(memory, ordering: .releasing)
        // Under the lock: `fork` comes before both or after both.
        if path != nil { rl_trace_known(memory, length) }
        Names.shared.pointee.records.forEach { word in
            let record = UnsafeMutablePointer<NameRecord>(bitPattern: word)!
            nameLocked(.object, record.pointee.object, UnsafeRawPointer(record + 1).assumingMemoryBound(to: CChar.self), 0, 0)
        }
        process.pointee.registryLock.unlockWord()
        shared.pointee.loads = 0
        nameFiles()
        // A stop turns the recording off under the same lock, so after this; and a loop looks for a ring under it.
        process.pointee.registryLock.lockWord()
        shared.pointee.generation.wrappingAdd(1, ordering: .releasing)
        shared.pointee.state.store(TraceState.on(isLent: path == nil), ordering: .releasing)
        rl_set_tracing(true)
        process.pointee.registryLock.unlockWord()
        // Now that the trace is on: the log handler may fork, or end its thread.
        if others > 0, let path { tellOther(path, others) }
        return true
    }

    private static func prepareRingsLocked(_ count: Int) {
        let room = shared.pointee.ringRoom
        if count > room {
            shared.pointee.rings = growArray(shared.pointee.rings, count: count)
            memset(shared.pointee.rings! + room, 0, count - room)
            shared.pointee.ringRoom = count
        }
        shared.pointee.ringCount = count
        for index in 0..<room {
            let state = shared.pointee.rings![index]
            let isLoops = state == TraceRingState.inUse || state == TraceRingState.held
            shared.pointee.rings![index] = isLoops ? TraceRingState.held : TraceRingState.unused
        }
    }

    /// Claims the right to start a trace. A trace for another process gives way to the program's own, even while it is started or stopped.
    private static func claim(isLent: Bool) -> Bool {
        var nap = timespec(nanoseconds: 1_000_000)
        var rest = 1000
        while true {
            switch move(from: TraceState.off, to: TraceState.changing(isLent: isLent)) {
            case TraceState.off: return true
            case TraceState.on(isLent: true), TraceState.changing(isLent: true):
                guard !isLent, rest > 0 else { return false }
                stop(isLent: true)
                rl_sys_nanosleep(&nap)
                rest -= 1
            default: return false
            }
        }
    }

    /// Stops the program's trace, or the one for another process, whose memory the caller then owns if it passes `taken`.
    @discardableResult
    static func stop(isLent: Bool = false, taken: UnsafeMutablePointer<UnsafeMutableRawPointer?>? = nil) -> Int {
        let on = TraceState.on(isLent: isLent)
        guard move(from: on, to: TraceState.changing(isLent: isLent)) == on else { return 0 }
        nameFiles()
        process.pointee.registryLock.lockWord()
        rl_set_tracing(false)
        let memory = shared.pointee.memory.load(ordering: .relaxed)!
        let header = memory.assumingMemoryBound(to: rl_trace_header.self)
        let end = moment()
        header.pointee.end_stamp = end.stamp
        header.pointee.end_time = end.time
        let length = shared.pointee.length
        taken?.pointee = rl_trace_take(memory, length)
        rl_trace_forget(memory, length)
        rl_trace_unlock(false)
        process.pointee.registryLock.unlockWord()
        shared.pointee.state.store(TraceState.off, ordering: .releasing)
        return length
    }

    /// Whether the program's own trace is on.
    static var isOn: Bool { shared.pointee.state.load(ordering: .acquiring) == TraceState.on(isLent: false) }

    /// Records the names of the loaded files, whose functions may be called, if they changed since they were last named.
    private static func nameFiles() {
        var loads = shared.pointee.loads
        shared.pointee.loadsLock.lockWord()
        _ = rl_for_each_loaded({ path, base, end in Trace.name(.file, UInt(base), path!, end, 0) }, &loads)
        shared.pointee.loadsLock.unlockWord()
        shared.pointee.loads = loads
    }

    /// The state before: the move was made if that is `old`.
    private static func move(from old: UInt32, to new: UInt32) -> UInt32 {
        shared.pointee.state.compareExchange(expected: old, desired: new, ordering: .acquiringAndReleasing).original
    }

    /// A stamp and the monotonic clock at nearly the same time. If the thread is stopped between the two readings they lie far apart, so
    /// the closest of a few tries is taken.
    @inline(never)
    private static func moment() -> (stamp: UInt64, time: Int64) {
        var closest = UInt64.max
        var found: (stamp: UInt64, time: Int64) = (0, 0)
        for _ in 0..<4 {
            let before = stamp()
            let time = Clock.now()
            let distance = stamp() &- before
            if distance <= closest {
                closest = distance
                found = (before, time)
            }
        }
        return found
    }

    private static func header(ringCount: Int) -> rl_trace_header {
        var header = rl_trace_header()
        header.header_size = UInt32(MemoryLayout<rl_trace_header>.size)
        header.process = UInt32(bitPattern: getpid())
        header.flags = shared.pointee.usesClock.load(ordering: .relaxed) ? 1 : 0
        header.ring_count = UInt32(ringCount)
        header.ring_records = UInt32(ringSlots)
        header.shared_records = UInt32(sharedSlots)
        header.file_size = UInt64(ringsOffset + ringCount * ringStride)
        header.shared_offset = UInt64(sharedOffset)
        header.names_offset = UInt64(namesOffset)
        header.names_size = UInt64(namesSize)
        header.rings_offset = UInt64(ringsOffset)
        header.ring_stride = UInt64(ringStride)
        let start = moment()
        header.start_stamp = start.stamp
        header.start_time = start.time
        header.start_wall = Clock.read(CLOCK_REALTIME)
        return header
    }

    @inline(never)
    private static func tellFailure(_ path: UnsafePointer<CChar>, _ error: Int32) {
        var text = TextBuffer()
        text.append("RLTraceStart: no trace to ")
        text.appendName(path)
        text.append(": ")
        if error == EEXIST { text.append("it is no trace, and is not replaced") } else { text.append(cString: strerror(error)) }
        Log.line(text)
    }

    @inline(never)
    private static func tellOther(_ path: UnsafePointer<CChar>, _ others: Int32) {
        var text = TextBuffer()
        text.append("RLTraceStart: ")
        text.appendName(path)
        text.append(" is the trace of a living process; this one's name ends with .", Int(getpid()))
        if others > 1 { text.append(".", Int(others)) }
        Log.line(text)
    }

    // MARK: The environment

    /// `RUNLOOP_TRACE=file` and `RUNLOOP_TRACE_LOOPS=number`, read when the process makes its first loop.
    static func startByEnvironment() {
        guard let path = rl_trusted_environment("RUNLOOP_TRACE") else { return }
        var loops = 0
        var isMisread = false
        if let number = rl_trusted_environment("RUNLOOP_TRACE_LOOPS") {
            var end: UnsafeMutablePointer<CChar>?
            loops = strtol(number, &end, 10)
            isMisread = loops < 1 || loops > mostLoops || end!.pointee != 0
        }
        if path.pointee == 0 { Log.write("RUNLOOP_TRACE", " names no file; nothing is traced") } else { _ = start(path, loops: isMisread ? 0 : loops) }
        if isMisread { Log.write("RUNLOOP_TRACE_LOOPS", " is no number from 1 to 1024; 16 loops are traced") }
    }

    // MARK: Fork

    static func prepareFork() { shared.pointee.loadsLock.lockWord() }

    static func forkedParent() { shared.pointee.loadsLock.unlockWord() }

    /// The file is the parent's.
    static func forkedChild() {
        shared.pointee.loadsLock.resetInChild()
        rl_set_tracing(false)
        rl_forget_thread_number()
        rl_trace_unlock(true)
        if let memory = shared.pointee.memory.load(ordering: .relaxed) { rl_trace_forget(memory, shared.pointee.room) }
        if let rings = shared.pointee.rings { memset(rings, 0, shared.pointee.ringRoom) }
        shared.pointee.state.store(TraceState.off, ordering: .relaxed)
    }
}
