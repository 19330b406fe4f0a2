// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The trace of the process (section 45 of the specification): what its loops do, recorded in a file that is mapped while it is written. The format
/// is in Docs/trace-format.md.
///
/// A loop has a ring of records, which only its thread writes. What any thread does to loops goes to one shared ring, whose slots are
/// claimed by an addition; each slot is a cache line, so that no two claimers write to the same line. A signal handler may interrupt a
/// thread while it writes to either ring: the handler writes only to the shared one.
///
/// Threads write without a lock to a file that another thread closes. So the mapping is never removed: the stop maps memory of the
/// process in its place, and the next start of the same size maps another file there. What decides where is written (address, number of
/// slots) is read from the process's memory, never from the file, which another process may change.
struct Trace: ~Copyable {
    /// A `TraceState`. The thread that changes it from `off`, or from being on, is the only one that starts or stops.
    let state: Atomic<UInt32>
    /// Grows with each start: rings of earlier traces are not written to. Released with `memory`.
    let generation: Atomic<UInt32>
    /// The mapping, which stays until the process ends; nil before the first start. Released when the file is complete.
    let memory: Atomic<UnsafeMutableRawPointer?>
    /// The next slot of the shared ring. Relaxed: a thread that got a number has a slot of its own.
    let claimed: Atomic<UInt64>
    /// Stamps are nanoseconds, because the processor's counter is not usable. Every start writes the same; relaxed, because a thread may still be
    /// recording for the trace before.
    let usesClock: Atomic<Bool>
    /// Length of the mapping: that of the longest trace. Guarded by the registry's lock, like the next.
    var room: Int
    /// Length of the trace, and the number of loops' rings.
    var length: Int
    var ringCount: Int
    /// A `TraceRingState` for each ring of any trace so far, and how many these are.
    var rings: UnsafeMutablePointer<UInt8>?
    var ringRoom: Int
    /// Bytes of names in the file.
    var namesUsed: Int
    /// How many files the dynamic linker had loaded and unloaded when the files were last named. Only the thread that starts or stops uses it.
    var loads: UInt64
    /// Held while the dynamic linker lists these files, under a lock of its own that `fork` also takes: otherwise a child made at that moment
    /// could not start a trace. Taken before every other lock.
    let loadsLock: Lock

    static var shared: UnsafeMutablePointer<Trace> { rl_trace().assumingMemoryBound(to: Trace.self) }

    /// Whether a trace or a probe records anything.
    @inline(always)
    static var isWanted: Bool { rl_tracing() != 0 }

    /// Powers of two.
    static var ringSlots: UInt64 { 32768 }
    static var ringSlotSize: Int { 32 }
    static var sharedSlots: UInt64 { 32768 }
    static var sharedSlotSize: Int { 64 }
    static var page: Int { 4096 }
    static var sharedOffset: Int { page }
    static var namesOffset: Int { sharedOffset + Int(sharedSlots) * sharedSlotSize }
    static var namesSize: Int { 512 << 10 }
    static var ringsOffset: Int { namesOffset + namesSize }
    static var ringStride: Int { page + Int(ringSlots) * ringSlotSize }

    @inline(always)
    static func stamp() -> UInt64 { shared.pointee.usesClock.load(ordering: .relaxed) ? UInt64(Clock.now()) : rl_order_of_time() }
}

/// In one word: whether there is a trace, and which of the two kinds it is. The program's own, or one that is lent: in memory and for another
/// process (S-OUT-11). A thread that saw them one after the other would take a lent trace for the program's.
enum TraceState {
    static var off: UInt32 { 0 }
    /// It is being started or stopped: 1, or 3 if it is lent.
    static func changing(isLent: Bool) -> UInt32 { isLent ? 3 : 1 }
    /// It records: 2, or 4 if it is lent.
    static func on(isLent: Bool) -> UInt32 { isLent ? 4 : 2 }
    static func isOn(_ state: UInt32) -> Bool { state != off && state & 1 == 0 }
}

enum TraceRingState {
    static var unused: UInt8 { 0 }
    static var inUse: UInt8 { 1 }
    /// Its loop has ended; another one may have it when there is no unused one.
    static var ended: UInt8 { 2 }
    /// It was a loop's in an earlier trace. Until that loop records again or ends, its thread may be about to write there; so another one has it only
    /// when there is nothing else.
    static var held: UInt8 { 3 }
}

/// What a record describes. Kinds from 32 on are in the shared ring.
enum TraceKind: UInt8 {
    case runBegin = 2
    case runEnd = 3
    case pass = 4
    case sleepBegin = 5
    case sleepEnd = 6
    case callOutBegin = 7
    case callOutEnd = 8
    case loopEnd = 9

    case post = 32
    case request = 33
    case signal = 34
    case wakeUp = 35
    case stop = 36
    case messageSend = 37
    case messageReceive = 38
}

/// What an entry of the names is for.
enum TraceName: UInt16 {
    case thread = 1
    case object = 2
    case mode = 3
    case file = 4
    case port = 5
}

/// A loop's ring, as its thread sees it. Loop's thread only.
struct TraceRing {
    var slots: UnsafeMutableRawPointer?
    /// How many records there are, as the file says too.
    var head: UInt64 = 0
    /// The generation of the ring's trace; 0: none.
    var generation: UInt32 = 0
    var index: Int32 = 0
    /// The last stamp at which the clock was read.
    var clockStamp: UInt64 = 0
}

// MARK: The loop's thread

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Records something in the loop's ring. Loop's thread, and no signal handler.
    @inline(never)
    func record(_ kind: TraceKind, _ detail: UInt8 = 0, extra: UInt32 = 0, item: UInt = 0, info: UInt = 0) {
        if rl_is_probed() { rl_probe(kind.rawValue, detail, UInt64(UInt(bitPattern: self)), UInt64(item), UInt64(info), UInt64(extra)) }
        if !rl_is_traced() { return }
        if pointee.ring.generation != Trace.shared.pointee.generation.load(ordering: .acquiring) && !claimRing() { return }
        // No ring was left for this loop.
        guard let slots = pointee.ring.slots else { return }
        let stamp = Trace.stamp()
        // If the counter was set back, the difference is larger than any distance.
        if stamp &- pointee.ring.clockStamp > clockDistance { readTraceClock(slots - Trace.page) }
        let slot = slots + Int(pointee.ring.head & (Trace.ringSlots - 1)) * Trace.ringSlotSize
        slot.storeBytes(of: stamp, as: UInt64.self)
        slot.storeBytes(of: UInt64(kind.rawValue) | UInt64(detail) << 8 | UInt64(extra) << 32, toByteOffset: 8, as: UInt64.self)
        slot.storeBytes(of: UInt64(item), toByteOffset: 16, as: UInt64.self)
        slot.storeBytes(of: UInt64(info), toByteOffset: 24, as: UInt64.self)
        pointee.ring.head &+= 1
        // Released, for a process that reads the file while it is written.
        (slots - Trace.page).assumingMemoryBound(to: Atomic<UInt64>.self).pointee.store(pointee.ring.head, ordering: .releasing)
    }

    /// After this many counts the clock is read again: about a sixteenth of a second.
    private var clockDistance: UInt64 { 1 << 27 }

    /// Writes the clock and the counter before the records: with these and the beginning of the trace, readers convert stamps to times.
    @inline(never)
    private func readTraceClock(_ header: UnsafeMutableRawPointer) {
        pointee.ring.clockStamp = Trace.stamp()
        header.storeBytes(of: pointee.ring.clockStamp, toByteOffset: 32, as: UInt64.self)
        header.storeBytes(of: Clock.now(), toByteOffset: 40, as: Int64.self)
    }

    /// Gets a ring of the present trace. False if there is none left.
    @inline(never)
    private func claimRing() -> Bool {
        let trace = Trace.shared
        process.pointee.registryLock.lockWord()
        let own = releaseRingLocked()
        pointee.ring = TraceRing()
        pointee.ring.generation = trace.pointee.generation.load(ordering: .relaxed)
        guard TraceState.isOn(trace.pointee.state.load(ordering: .relaxed)), let index = Trace.freeRing(own) else {
            Trace.countLostLoopLocked()
            process.pointee.registryLock.unlockWord()
            return false
        }
        let memory = trace.pointee.memory.load(ordering: .relaxed)! + Trace.ringsOffset + index * Trace.ringStride
        trace.pointee.rings![index] = TraceRingState.inUse
        pointee.ring.index = Int32(index)
        pointee.ring.slots = memory + Trace.page
        memory.storeBytes(of: 0, as: UInt64.self)
        memory.storeBytes(of: UInt64(UInt(bitPattern: self)), toByteOffset: 8, as: UInt64.self)
        memory.storeBytes(of: Trace.stamp(), toByteOffset: 16, as: UInt64.self)
        memory.storeBytes(of: UInt32(bitPattern: pointee.thread.load(ordering: .relaxed)), toByteOffset: 24, as: UInt32.self)
        process.pointee.registryLock.unlockWord()
        readTraceClock(memory)
        nameThread()
        forEachModeRecord { Trace.name(.mode, UInt(bitPattern: $0), $0.pointee.name, 0, 0) }
        return true
    }

    private func nameThread() {
        let number = pointee.thread.load(ordering: .relaxed)
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(RL_THREAD_NAME_SIZE)) { name in
            name[0] = 0
            _ = rl_thread_name(number, name.baseAddress!)
            Trace.name(.thread, UInt(bitPattern: self), name.baseAddress!, UInt64(number), 0)
        }
    }

    /// The loop's thread ends: another loop may have the ring.
    func leaveRing() {
        let generation = pointee.ring.generation
        if generation == 0 { return }
        record(.loopEnd)
        process.pointee.registryLock.lockWord()
        let trace = Trace.shared
        if pointee.ring.generation == trace.pointee.generation.load(ordering: .relaxed) && pointee.ring.slots != nil {
            trace.pointee.rings![Int(pointee.ring.index)] = TraceRingState.ended
        } else {
            _ = releaseRingLocked()
        }
        pointee.ring = TraceRing()
        process.pointee.registryLock.unlockWord()
    }

    /// The loop does not write to its ring of an earlier trace any more. The number of that, nil if it had none.
    private func releaseRingLocked() -> Int? {
        guard pointee.ring.slots != nil else { return nil }
        let index = Int(pointee.ring.index)
        let state = Trace.shared.pointee.rings! + index
        if state.pointee == TraceRingState.held { state.pointee = TraceRingState.unused }
        return index
    }
}

extension Trace {
    /// An unused ring, the loop's own of an earlier trace if it is one; else one whose loop has ended, or is that of an earlier trace. The
    /// registry's lock is held.
    fileprivate static func freeRing(_ own: Int?) -> Int? {
        if let own, own < shared.pointee.ringCount, shared.pointee.rings![own] == TraceRingState.unused { return own }
        return ring(in: TraceRingState.unused) ?? ring(in: TraceRingState.ended) ?? ring(in: TraceRingState.held)
    }

    private static func ring(in state: UInt8) -> Int? {
        for index in 0..<shared.pointee.ringCount where shared.pointee.rings![index] == state { return index }
        return nil
    }

    fileprivate static func countLostLoopLocked() {
        guard TraceState.isOn(shared.pointee.state.load(ordering: .relaxed)) else { return }
        shared.pointee.memory.load(ordering: .relaxed)!.assumingMemoryBound(to: rl_trace_header.self).pointee.lost_loops &+= 1
    }
}

// MARK: Any thread

extension Trace {
    /// Records in the shared ring what a thread does to a loop; also in a signal handler. `caller`: the code that called the library.
    @inline(never)
    static func tell(_ kind: TraceKind, _ loop: RunLoopPointer?, item: UInt = 0, info: UInt = 0, extra: UInt64 = 0, caller: UInt = 0) {
        let loop = UInt64(UInt(bitPattern: loop))
        if rl_is_probed() { rl_probe(kind.rawValue, 0, loop, UInt64(item), UInt64(info), UInt64(caller)) }
        guard rl_is_traced(), let memory = shared.pointee.memory.load(ordering: .acquiring) else { return }
        let number = shared.pointee.claimed.wrappingAdd(1, ordering: .relaxed).oldValue
        let slot = memory + sharedOffset + Int(number & (sharedSlots - 1)) * sharedSlotSize
        let sequence = slot.assumingMemoryBound(to: Atomic<UInt64>.self)
        // A reader sees meanwhile that the record is not complete.
        sequence.pointee.store(0, ordering: .relaxed)
        atomicMemoryFence(ordering: .releasing)
        slot.storeBytes(of: stamp(), toByteOffset: 8, as: UInt64.self)
        slot.storeBytes(
            of: UInt64(kind.rawValue) | UInt64(UInt32(bitPattern: rl_get_thread_number())) << 32, toByteOffset: 16, as: UInt64.self)
        slot.storeBytes(of: loop, toByteOffset: 24, as: UInt64.self)
        slot.storeBytes(of: UInt64(item), toByteOffset: 32, as: UInt64.self)
        slot.storeBytes(of: UInt64(info), toByteOffset: 40, as: UInt64.self)
        slot.storeBytes(of: UInt64(caller), toByteOffset: 48, as: UInt64.self)
        slot.storeBytes(of: extra, toByteOffset: 56, as: UInt64.self)
        sequence.pointee.store(number &+ 1, ordering: .releasing)
    }

    /// Adds a name to those in the file. Not in a signal handler; the registry's lock is not held.
    static func name(_ kind: TraceName, _ address: UInt, _ text: UnsafePointer<CChar>, _ first: UInt64, _ second: UInt64) {
        process.pointee.registryLock.lockWord()
        nameLocked(kind, address, text, first, second)
        process.pointee.registryLock.unlockWord()
    }

    static func nameLocked(_ kind: TraceName, _ address: UInt, _ text: UnsafePointer<CChar>, _ first: UInt64, _ second: UInt64) {
        guard let memory = shared.pointee.memory.load(ordering: .relaxed) else { return }
        let header = memory.assumingMemoryBound(to: rl_trace_header.self)
        let length = Swift.min(strlen(text), Int(PATH_MAX))
        let size = (40 + length + 7) & ~7
        guard shared.pointee.namesUsed + size <= namesSize else {
            header.pointee.lost_names &+= 1
            return
        }
        let entry = memory + namesOffset + shared.pointee.namesUsed
        entry.storeBytes(of: stamp(), as: UInt64.self)
        entry.storeBytes(of: UInt64(address), toByteOffset: 8, as: UInt64.self)
        entry.storeBytes(of: first, toByteOffset: 16, as: UInt64.self)
        entry.storeBytes(of: second, toByteOffset: 24, as: UInt64.self)
        entry.storeBytes(of: UInt64(kind.rawValue) | UInt64(length) << 32, toByteOffset: 32, as: UInt64.self)
        memcpy(entry + 40, text, length)
        shared.pointee.namesUsed += size
        atomicMemoryFence(ordering: .releasing)
        header.pointee.names_used = UInt64(shared.pointee.namesUsed)
    }
}
