import CLinux
import CRunLoop
import Synchronization

/// What stands behind a kernel event source: the info of the source, which owns it.
///
/// Processes and timers have a descriptor that a watch waits for; it is read when it is ready. Signals, files and the program's
/// own events have an inbox, which the signal handler, whoever reads the notifier, and `RLKernelEventSourceTrigger` mark. What
/// is not reported yet stays in the kernel, or in `count`, `userFlags` and `data`, whether or not the source is enabled.
struct KernelEvent: ~Copyable, Listed {
    /// Guards the descriptor. No client code and no other lock is taken under it.
    let lock: Lock
    /// `KernelEventState`.
    let state: Atomic<UInt32>

    // Fixed at creation.
    var ident: UInt
    var filter: RLKernelFilter
    var flags: UInt32
    var fflags: UInt32
    var amount: Int64
    var path: UnsafeMutablePointer<CChar>?
    var callout: KernelEventFunction?
    var context: ClientContext
    /// Not retained: the source has this record. Written before anybody else knows the record, for a file under the notifier's
    /// lock.
    var source: SourcePointer?

    /// What the watch waits for: a pidfd or a timerfd. -1: none, or invalid. Guarded by `lock`.
    var descriptor: Int32
    /// What a source of a file knows of it; nil: invalid. Guarded by the notifier's lock.
    var vnode: VnodePointer?

    /// Signals since the last report.
    let count: Atomic<UInt64>
    /// The program's bits of a User source, or what happened to a file, and `kRLNoteTrigger` if it is to report.
    let userFlags: Atomic<UInt32>
    let data: Atomic<Int64>

    /// The next source of the same signal. Changed under the registry's lock, read by the handler.
    let nextOfSignal: Atomic<KernelEventPointer?>
    /// The one before it; nil: it is the first, or in no list. Guarded by the registry's lock.
    var previousOfSignal: KernelEventPointer?
    /// All records with a descriptor, or those that ended in the child of `fork`. Guarded by the registry's lock.
    var next: KernelEventPointer?
    var previous: KernelEventPointer?
}

typealias Note = RLKernelNotes
typealias KernelEventPointer = UnsafeMutablePointer<KernelEvent>
typealias KernelEventFunction = @convention(c) (OpaquePointer?, UnsafePointer<RLKernelEvent>, UnsafeMutableRawPointer?) -> Void

/// The kernel event sources of the process.
struct KernelEvents: ~Copyable {
    /// Those that have a descriptor. Guarded by the registry's lock, as the next.
    var all: RecordList<KernelEvent>
    /// Those that became invalid in the child of `fork`, each with a reference to its source, linked by `next`.
    var lost: KernelEventPointer?
    /// inotify, for the sources of files.
    var notifier: Notifier
    /// For each signal the sources that hear it; made by the first, and never given back. See `Signals`.
    var signals: UnsafeMutablePointer<SignalList>?
    /// How many threads are in the library's signal handler.
    let signalHandlers: Atomic<Int>

    static var shared: UnsafeMutablePointer<KernelEvents> { rl_kernel_events().assumingMemoryBound(to: KernelEvents.self) }
}

enum KernelEventState {
    static var disabled: UInt32 { 1 << 0 }
    /// A one-shot source has made its report.
    static var spent: UInt32 { 1 << 1 }
}

extension KernelEvent {
    /// A source with one reference; nil with errno if the kernel refuses.
    static func make(_ event: RLKernelEvent, callout: KernelEventFunction?, context: ClientContext) -> SourcePointer? {
        let record = makeRecord(KernelEvent.self)
        record.pointee.descriptor = -1
        record.pointee.ident = event.ident
        record.pointee.filter = event.filter
        record.pointee.flags = event.flags
        record.pointee.fflags = event.fflags
        record.pointee.amount = event.data
        record.pointee.callout = callout
        let isDisabled = event.flags & RLKernelEventFlags.disable.rawValue != 0
        record.pointee.state.store(isDisabled ? KernelEventState.disabled : 0, ordering: .relaxed)
        if let path = event.path, event.filter == .vnode {
            guard let copy = strdup(path) else { trap("RLKernelEventSourceCreate", "out of memory") }
            record.pointee.path = copy
        }
        guard record.openEvent() else {
            let error = rl_errno()
            record.closeKernelObjects()
            CLinux.free(record.pointee.path)
            CLinux.free(record)
            rl_set_errno(error)
            return nil
        }
        record.pointee.context = context
        record.pointee.context.adopt()
        var functions = SourceFunctions()
        functions.release = { KernelEvent.free($0) }
        functions.copyDescription = { KernelEvent.describe($0) }
        functions.invalidated = { $0!.assumingMemoryBound(to: KernelEvent.self).closeEvent() }
        functions.abandoned = { $0!.assumingMemoryBound(to: KernelEvent.self).endIfSpent() }
        if record.pointee.descriptor >= 0 {
            record.pointee.source = SourcePointer.makeWatch(
                descriptor: record.pointee.descriptor, order: 0, info: record, functions: functions,
                interest: record.isEnabled ? .read : [], owned: true
            ) { info, _ in info!.assumingMemoryBound(to: KernelEvent.self).reportReadiness() }
            record.enlist()
        } else {
            functions.perform = { $0!.assumingMemoryBound(to: KernelEvent.self).reportMark() }
            let source = SourcePointer.makeInbox(order: 0, info: record, functions: functions)
            if record.pointee.filter == .vnode {
                source.pointee.state.bitwiseOr(SourceState.notified, ordering: .relaxed)
                record.beginVnode(source)
            } else {
                record.pointee.source = source
                if record.pointee.filter == .signal { Signals.add(record) }
            }
        }
        record.pointee.source?.pointee.state.bitwiseOr(SourceState.kernelEvent, ordering: .relaxed)
        return record.pointee.source
    }

    /// The record of a source; nil for other sources.
    static func of(_ source: SourcePointer) -> KernelEventPointer? {
        guard source.pointee.state.load(ordering: .relaxed) & SourceState.kernelEvent != 0 else { return nil }
        return source.pointee.info?.assumingMemoryBound(to: KernelEvent.self)
    }

    private static func free(_ info: UnsafeRawPointer?) {
        let record = UnsafeMutableRawPointer(mutating: info!).assumingMemoryBound(to: KernelEvent.self)
        record.closeEvent()
        record.pointee.context.releaseInfo()
        CLinux.free(record.pointee.path)
        CLinux.free(record)
    }

    private static func describe(_ info: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? {
        let record = UnsafeMutableRawPointer(mutating: info!).assumingMemoryBound(to: KernelEvent.self)
        var text = TextBuffer()
        text.append("{filter = ")
        text.append(Int(record.pointee.filter.rawValue))
        text.append(", ident = ")
        text.append(Int(bitPattern: record.pointee.ident))
        if let path = record.pointee.path {
            text.append(", path = ")
            text.appendPrintable(path)
        }
        text.append(", enabled = ")
        text.append(record.isEnabled)
        text.append(", info = ")
        let context = record.pointee.context
        if let copy = context.copyDescription, let words = callOutCopyDescription(copy, context.info) {
            text.append(cString: words)
            CLinux.free(words)
        } else {
            text.append(address: context.info)
        }
        text.append("}")
        return text.terminated()
    }

    /// In the child of `fork`: files and timers are not shared with the parent. Called by the only thread.
    static func renewInChild() {
        // A thread that was in the signal handler does not exist here.
        KernelEvents.shared.pointee.signalHandlers.store(0, ordering: .relaxed)
        KernelEvents.shared.pointee.all.forEach { record in
            record.pointee.lock.resetInChild()
            if record.pointee.filter == .timer { record.renewTimer() }
        }
        Notifier.shared.renewInChild()
    }

    /// The last step in the child of `fork`: sources for which the kernel had nothing are invalid (S-KEV-11). Nothing of the
    /// client's is called here, where its locks may be held for ever: a loop drops the references later and logs.
    static func endLostInChild() {
        KernelEvents.shared.pointee.all.forEach { record in
            if record.pointee.filter == .timer && record.pointee.descriptor < 0 { record.lose() }
        }
        var vnode = Notifier.shared.pointee.sources
        while let current = vnode {
            vnode = current.pointee.next
            if current.pointee.isLost { current.pointee.event.lose() }
        }
    }

    /// Called by a loop that finds that something was lost; true if it was sources. No lock is held.
    static func tellLost() -> Bool {
        var isAny = false
        while let source = Notifier.shared.copyLostSource() {
            source.invalidate()
            source.release()
            isAny = true
        }
        process.pointee.registryLock.lockWord()
        var lost = KernelEvents.shared.pointee.lost
        KernelEvents.shared.pointee.lost = nil
        process.pointee.registryLock.unlockWord()
        while let record = lost {
            lost = record.pointee.next
            record.pointee.next = nil
            record.pointee.source?.release()
            isAny = true
        }
        if isAny { Log.write("RunLoop", ": some sources of files or timers lost their kernel objects: they are invalid") }
        return isAny
    }
}

extension UnsafeMutablePointer where Pointee == KernelEvent {
    var isEnabled: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & KernelEventState.disabled == 0 }

    // MARK: Asking the kernel

    /// False with errno.
    fileprivate func openEvent() -> Bool {
        switch pointee.filter {
        case .process: return openProcess()
        case .timer: return openTimer()
        case .vnode: return openVnode()
        case .signal:
            guard let number = Int32(exactly: pointee.ident), pointee.fflags == 0 else { return refuse() }
            return Signals.take(number)
        case .user: return true
        default: return refuse()
        }
    }

    func refuse() -> Bool {
        rl_set_errno(EINVAL)
        return false
    }

    private func openProcess() -> Bool {
        let known = Note.exit.rawValue | Note.exitStatus.rawValue | Note.reap.rawValue
        guard let process = Int32(exactly: pointee.ident), process > 0, pointee.fflags & ~known == 0 else { return refuse() }
        pointee.flags |= RLKernelEventFlags.oneShot.rawValue
        pointee.descriptor = highNumber(rl_pidfd_open(process))
        return pointee.descriptor >= 0
    }

    // MARK: Reports

    func setEnabled(_ enabled: Bool) {
        if enabled {
            pointee.state.bitwiseAnd(~KernelEventState.disabled, ordering: .sequentiallyConsistent)
            guard let source = pointee.source else { return }
            if source.isWatch {
                source.enableInterest(.read)
            } else if hasPending {
                source.markReady()
            }
        } else {
            pointee.state.bitwiseOr(KernelEventState.disabled, ordering: .sequentiallyConsistent)
            if let source = pointee.source, source.isWatch { source.disableInterest(.read) }
        }
    }

    func trigger(_ fflags: UInt32, _ data: Int64) {
        guard pointee.filter == .user else { return }
        let triggers = fflags & Note.trigger.rawValue
        // The data first: who sees the bits sees them.
        if triggers != 0 { pointee.data.store(data, ordering: .sequentiallyConsistent) }
        let given = fflags & Note.userMask.rawValue
        var old = pointee.userFlags.load(ordering: .relaxed)
        var new: UInt32
        repeat {
            let bits = old & Note.userMask.rawValue
            switch fflags & Note.copy.rawValue {
            case Note.and.rawValue: new = bits & given
            case Note.or.rawValue: new = bits | given
            case Note.copy.rawValue: new = given
            default: new = bits
            }
            new |= triggers | (old & Note.trigger.rawValue)
            // Retried only when another thread, or a handler, changed the word in between.
        } while !pointee.userFlags.replace(&old, by: new)
        if triggers != 0 && mayReport { pointee.source?.markReady() }
    }

    /// What happened to a file; any thread that holds the notifier's lock.
    func tell(_ notes: UInt32) {
        pointee.userFlags.bitwiseOr(notes | Note.trigger.rawValue, ordering: .sequentiallyConsistent)
        if mayReport { pointee.source?.markReady() }
    }

    /// In the child of `fork`: what happened to a file and was not reported is reported by the parent.
    func forgetReports() {
        pointee.userFlags.store(0, ordering: .relaxed)
        pointee.source?.pointee.state.bitwiseAnd(
            ~(SourceState.signalled | SourceState.marked | SourceState.flagged), ordering: .sequentiallyConsistent)
    }

    @inline(never)
    fileprivate func lose() {
        // One that a thread which vanished was destroying is nobody's.
        guard let source = pointee.source, source.isValid, source.tryRetain() else { return }
        source.invalidate()
        pointee.next = KernelEvents.shared.pointee.lost
        KernelEvents.shared.pointee.lost = self
        process.pointee.lostDescriptor.store(true, ordering: .relaxed)
    }

    /// The handler of the watch.
    fileprivate func reportReadiness() -> Bool {
        pointee.lock.lockWord()
        var happened = blankEvent
        let isLost = pointee.descriptor >= 0 && !rl_is_kind(pointee.descriptor, kind)
        if isLost { pointee.descriptor = -1 }
        let isReport = mayReport && pointee.descriptor >= 0 && readDescriptor(&happened)
        pointee.lock.unlockWord()
        if isLost {
            Log.write("RunLoop", ": the descriptor of a kernel event source was closed or replaced: it is invalid")
            pointee.source?.invalidate()
        }
        if isReport { report(&happened) }
        return isReport
    }

    /// The perform of the inbox.
    fileprivate func reportMark() {
        guard mayReport else { return }
        var happened = blankEvent
        if pointee.filter == .signal {
            let count = pointee.count.exchange(0, ordering: .sequentiallyConsistent)
            if count == 0 { return }
            happened.data = Int64(clamping: count)
        } else {
            let flags = pointee.userFlags.load(ordering: .sequentiallyConsistent)
            if flags & Note.trigger.rawValue == 0 { return }
            happened.fflags = pointee.userFlags.exchange(0, ordering: .sequentiallyConsistent) & Note.userMask.rawValue
            happened.data = pointee.data.load(ordering: .sequentiallyConsistent)
        }
        report(&happened)
    }

    /// Whether a signal, a change of a file, or a trigger is to be reported.
    var hasPending: Bool {
        pointee.count.load(ordering: .sequentiallyConsistent) != 0
            || pointee.userFlags.load(ordering: .sequentiallyConsistent) & Note.trigger.rawValue != 0
    }

    var mayReport: Bool { pointee.state.load(ordering: .sequentiallyConsistent) == 0 }

    /// What the source was made for.
    var registration: RLKernelEvent {
        var event = blankEvent
        event.flags = event.flags & ~RLKernelEventFlags.disable.rawValue | (isEnabled ? 0 : RLKernelEventFlags.disable.rawValue)
        event.fflags = pointee.fflags
        event.data = pointee.amount
        return event
    }

    private var blankEvent: RLKernelEvent {
        RLKernelEvent(
            ident: pointee.ident, filter: pointee.filter, flags: pointee.flags & ~RLKernelEventFlags.disable.rawValue, fflags: 0,
            data: 0, path: pointee.path)
    }

    private func report(_ happened: inout RLKernelEvent) {
        guard let source = pointee.source else { return }
        let isOneShot = pointee.flags & RLKernelEventFlags.oneShot.rawValue != 0
        if isOneShot {
            pointee.state.bitwiseOr(KernelEventState.spent, ordering: .sequentiallyConsistent)
            if source.isWatch { source.disableInterest(.read) }
        } else if pointee.flags & RLKernelEventFlags.dispatch.rawValue != 0 {
            setEnabled(false)
        }
        if let callout = pointee.callout { callOutKernelEvent(callout, source.handle, &happened, pointee.context.info) }
        if isOneShot { source.invalidate() }
    }

    /// The callback ended its thread (S-KEV-8).
    fileprivate func endIfSpent() {
        guard pointee.state.load(ordering: .sequentiallyConsistent) & KernelEventState.spent != 0 else { return }
        pointee.source?.invalidate()
    }

    /// What a descriptor that is ready tells; false if that interests nobody. Caller holds the lock.
    private func readDescriptor(_ happened: inout RLKernelEvent) -> Bool {
        switch pointee.filter {
        case .timer: return readTimer(&happened)
        default: return readProcess(&happened)
        }
    }

    private func readProcess(_ happened: inout RLKernelEvent) -> Bool {
        var status: Int32 = 0
        happened.flags |= RLKernelEventFlags.EOF.rawValue
        happened.fflags = Note.exit.rawValue
        switch rl_child_status(pointee.descriptor, pointee.fflags & Note.reap.rawValue != 0 ? 1 : 0, &status) {
        case 0: return false
        case 1:
            happened.fflags |= Note.exitStatus.rawValue
            happened.data = Int64(status)
        default: break  // Somebody else's child, or somebody else waited for it.
        }
        return true
    }

    // MARK: The end

    /// The source is invalid, or dies: the kernel is asked no more.
    func closeEvent() {
        if pointee.filter == .signal { Signals.remove(self) }
        // Before it leaves the list: for those in there the child of a fork makes the lock anew.
        closeKernelObjects()
        delist()
    }

    fileprivate func closeKernelObjects() {
        if pointee.filter == .vnode { return closeVnode() }
        guard pointee.filter == .timer || pointee.filter == .process else { return }
        pointee.lock.lockWord()
        let closing = pointee.descriptor
        // In this order, as in `EpollSet.close`.
        pointee.descriptor = -1
        rl_compiler_barrier()
        if closing >= 0 { closeOwn(closing, kind) }
        pointee.lock.unlockWord()
    }

    /// Of its descriptor.
    private var kind: rl_kind { pointee.filter == .timer ? RL_TIMER : RL_PROCESS }

    fileprivate func enlist() {
        process.pointee.registryLock.lockWord()
        KernelEvents.shared.pointee.all.insert(self)
        process.pointee.registryLock.unlockWord()
    }

    fileprivate func delist() {
        process.pointee.registryLock.lockWord()
        KernelEvents.shared.pointee.all.remove(self)
        process.pointee.registryLock.unlockWord()
    }
}
