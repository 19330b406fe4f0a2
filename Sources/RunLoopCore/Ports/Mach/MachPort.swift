// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A Mach-like port: a bounded queue of messages, and the inbox by which loops receive them (section 17).
///
/// Any thread sends; the threads of the loops that have the source receive. `lock` guards the queue and is held for a few
/// instructions, never in client code. Outside of it the invariant is: if the queue is not empty, the source is ready, or a
/// thread is about to take a message, or there is no source. So only the send that finds the queue empty makes the source ready,
/// under the lock, and a receiver that leaves something makes it ready again.
///
/// The source holds the port; the port knows the source without a reference. A sender that waits for room has no reference of
/// its own, so that the port can die while it waits (S-PORT-11): `waiters` keeps the memory for it.
struct MachPort: ~Copyable, Listed {
    let header: ObjectHeader
    /// Bits of `MachPortState`. Changed by read-modify-write, `invalid` under `lock`; read by any thread. Relaxed, for `lock` orders what depends on
    /// it, except for `invalid`, which is sequentially consistent: what the invalidating thread did before is visible.
    let state: Atomic<UInt32>
    /// The eventfd, -1 until it is asked for, and again when the port dies. Written under the registry's lock, the first time under `lock` too;
    /// released and acquired, for threads that hold neither.
    let descriptor: Atomic<Int32>
    /// Changes whenever there may be room for a sender; senders wait on it. Written under `lock`, relaxed.
    let room: Atomic<UInt32>
    /// The number of senders that sleep on `room` and were not woken; perhaps more than there are. Guarded by `lock`.
    var sleepers: UInt32
    /// Senders that are inside a wait. Guarded by `lock`.
    var waiters: UInt32
    /// The number of messages queued anywhere that name this port as their reply port and have no reference to it: they keep the
    /// memory. Guarded by `lock`.
    var mentions: UInt32
    /// Messages that are queued here, or are about to be, and have a reference to their reply port (`keepReply`). Sequentially consistent.
    let keptReplies: Atomic<Int>
    /// Guards the fields that say so. Taken after the registry's lock; no other lock is taken under it.
    let lock: Lock
    // These two are fixed at creation.
    let callout: MachPortFunction?
    let context: ClientContext
    /// Guarded by `lock`.
    var invalidationCallout: InvalidationFunction?
    /// The queue, oldest first. Guarded by `lock`, all four.
    var first: MachMessagePointer?
    var last: MachMessagePointer?
    var count: Int
    var limit: Int
    /// Small messages for reuse. Guarded by `lock`.
    var spares: MachMessagePointer?
    var spareCount: Int
    /// The source, without a reference: nil before there is one, and again when its last reference is gone. Guarded by `lock`.
    var source: SourcePointer?
    /// The loops whose threads use the context's info without a reference of their own, some perhaps several times. Guarded by `lock`.
    var users: GrowingArray<RunLoopPointer>
    /// The list of all ports, also of those of which only the memory is left. Guarded by the registry's lock.
    var next: MachPortPointer?
    var previous: MachPortPointer?
}

typealias MachPortPointer = UnsafeMutablePointer<MachPort>

/// The ports of the process. The registry's lock guards it.
struct MachPorts {
    var all: RecordList<MachPort>
    /// Those that have a descriptor.
    var byDescriptor: NumberTable<MachPortPointer?>

    static var shared: UnsafeMutablePointer<MachPorts> { rl_mach_ports().assumingMemoryBound(to: MachPorts.self) }
}

/// The bits of `MachPort.state`.
enum MachPortState {
    static var invalid: UInt32 { 1 << 0 }
    /// The memory is to be freed by the last sender that waits.
    static var abandoned: UInt32 { 1 << 1 }
    /// The context is to be released by the last of `users`.
    static var releasePending: UInt32 { 1 << 2 }
}

/// A queued message; its bytes follow it in memory.
struct MachMessage {
    var next: MachMessagePointer?
    /// Nil for none.
    var replyPort: MachPortPointer?
    var length: Int
    var msgid: Int32
    var isSmall: Bool
    /// The message has a reference to the reply port, and not only its memory.
    var keepsReply: Bool

    /// What a small message has room for: 128 bytes in all.
    static var smallCapacity: Int { 96 }
    static var headSize: Int { 32 }
}

typealias MachMessagePointer = UnsafeMutablePointer<MachMessage>

extension UnsafeMutablePointer where Pointee == MachMessage {
    var bytes: UnsafeMutableRawPointer { UnsafeMutableRawPointer(self) + MachMessage.headSize }

    /// A message with room for so many bytes, to be initialized; nil if there is no memory.
    static func make(capacity: Int) -> MachMessagePointer? {
        let (size, overflows) = capacity.addingReportingOverflow(MachMessage.headSize)
        guard !overflows, let memory = malloc(size) else { return nil }
        return memory.assumingMemoryBound(to: MachMessage.self)
    }
}

extension MachPort: Object {
    static var type: ObjectType { .machPort }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLMachPort"
        kind.pointee.destroy = { MachPort.destroy($0.cast(to: MachPort.self)) }
        kind.pointee.describe = .init { $0.cast(to: MachPort.self).describe(&$1) }
        kind.pointee.forkPrepare = { MachPort.prepareFork() }
        kind.pointee.forkParent = { MachPort.forkedParent() }
        kind.pointee.forkChild = { MachPort.forkedChild(RunLoop.ofThread) }
        kind.pointee.usesContextInChild = { !$0.cast(to: MachPort.self).pointee.users.isEmpty }
    }

    /// The last reference is gone: the port dies, with all that `RLMachPortInvalidate` does (S-PORT-11).
    static func destroy(_ port: MachPortPointer) {
        port.invalidate()
        port.leaveProcess()
        port.header.markFreed()
        port.pointee.lock.lockWord()
        let waits = port.pointee.waiters > 0 || port.pointee.mentions > 0
        if waits { port.pointee.state.bitwiseOr(MachPortState.abandoned, ordering: .relaxed) }
        port.pointee.lock.unlockWord()
        if !waits { port.freeMemory() }
    }
}

extension UnsafeMutablePointer where Pointee == MachPort {
    /// A port with one reference, whose context's info is retained.
    static func make(callout: MachPortFunction?, context: ClientContext) -> MachPortPointer {
        var context = context
        context.adopt()
        let port = makeRecord(MachPort.self)
        port.initialize(to: MachPort(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)), state: Atomic(0), descriptor: Atomic(-1),
            room: Atomic(0), sleepers: 0, waiters: 0, mentions: 0, keptReplies: Atomic(0), lock: Lock.free(), callout: callout,
            context: context, invalidationCallout: nil, first: nil, last: nil, count: 0, limit: 5, spares: nil, spareCount: 0,
            source: nil, users: GrowingArray(), next: nil, previous: nil))
        port.initializeHeader()
        process.pointee.registryLock.lockWord()
        MachPorts.shared.pointee.all.insert(port)
        process.pointee.registryLock.unlockWord()
        return port
    }

    var isValid: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & MachPortState.invalid == 0 }

    /// Closes the descriptor, and takes it out of the process's table.
    fileprivate func leaveProcess() {
        process.pointee.registryLock.lockWord()
        let descriptor = pointee.descriptor.load(ordering: .relaxed)
        pointee.descriptor.store(-1, ordering: .relaxed)
        // The program may have closed the number, which then names another port.
        if let place = MachPorts.shared.pointee.byDescriptor.find(Int(descriptor)), place.pointee == self { place.pointee = nil }
        process.pointee.registryLock.unlockWord()
        if descriptor >= 0 { rl_sys_close(descriptor) }
    }

    /// Frees a port that no thread can reach any more. Until now `fork` knew its lock, which messages that name it take.
    func freeMemory() {
        process.pointee.registryLock.lockWord()
        MachPorts.shared.pointee.all.remove(self)
        process.pointee.registryLock.unlockWord()
        while let spare = pointee.spares {
            pointee.spares = spare.pointee.next
            CRunLoopLinux.free(spare)
        }
        pointee.users.free()
        CRunLoopLinux.free(self)
    }
}

extension UnsafeMutablePointer where Pointee == MachPort {
    fileprivate func describe(_ text: inout TextBuffer) {
        let context = pointee.context
        text.beginUse(of: header, context.copyDescription)
        pointee.lock.lockWord()
        let (count, limit) = (pointee.count, pointee.limit)
        pointee.lock.unlockWord()
        text.append("port = ", Int(pointee.descriptor.load(ordering: .relaxed)))
        text.append(", queued = ", count)
        text.append(" of ", limit)
        let isValid = isValid
        text.append(", valid = ", isValid)
        text.appendCallback(pointee.callout)
        text.appendInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil)
    }
}
