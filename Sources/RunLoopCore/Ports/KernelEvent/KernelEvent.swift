// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The state of a kernel event source: the info of the source, which owns it.
///
/// What the kernel is asked and what it reports depends on the filter: `KernelFilter`. Some have a descriptor that a watch waits for;
/// it is read when it is ready. The others have an inbox, which the signal handler, the thread that reads the notifier, or
/// `RLKernelEventSourceTrigger` marks. What is not reported yet stays in the kernel, or in `count`, `userFlags` and `data`, whether or
/// not the source is enabled.
struct KernelEvent: ~Copyable, Listed {
    /// Guards the descriptor, and makes the taking of a report and its change of `state` one step. No client code is called under it, and
    /// no lock but the notifier's is taken.
    let lock: Lock
    /// `KernelEventState`.
    let state: Atomic<UInt32>

    // Fixed at creation.
    var ident: UInt
    var filter: UnsafePointer<KernelFilter>
    var flags: UInt32
    var fflags: UInt32
    var amount: Int64
    /// By the timer's clock, when it is due for the first time. Like `descriptor`.
    var due: Int64
    var path: UnsafeMutablePointer<CChar>?
    var callout: KernelEventFunction?
    var context: ClientContext
    /// Not retained: the source has this record. Written before any other thread knows the record, for a file under the
    /// notifier's lock. Not for the handler of a signal.
    var source: SourcePointer?

    /// What the watch waits for: a pidfd or a timerfd. -1: none, or invalid. Guarded by `lock`.
    var descriptor: Int32
    /// The descriptor is a member of `OwnFiles`. Written before other threads know the record, and in the child of `fork`.
    var isMember: Bool
    /// The source is a user of `OwnFiles`. Guarded by the registry's lock.
    var usesFiles: Bool
    /// What a source of a file knows of it; nil: invalid. Guarded by the notifier's lock.
    var vnode: VnodePointer?

    /// Signals since the last report.
    let count: Atomic<UInt64>
    /// The program's bits of a User source, or what happened to a file, and `kRLNoteTrigger` if it is to report.
    let userFlags: Atomic<UInt32>
    /// Of a process: whether it was a child of this one. Written before other threads know the record.
    let data: Atomic<Int64>

    /// For the handler of a signal, which may know the record before its source is made. Written once, releasing; read acquiring.
    let sourceForHandler: Atomic<SourcePointer?>
    /// The next source of the same signal. Changed under the registry's lock, read by the handler.
    let nextOfSignal: Atomic<KernelEventPointer?>
    /// The one before it; nil: it is the first, or in no list. Guarded by the registry's lock.
    var previousOfSignal: KernelEventPointer?
    /// All records, or those that ended in the child of `fork`. Guarded by the registry's lock.
    var next: KernelEventPointer?
    var previous: KernelEventPointer?
}

typealias Note = RLKernelNotes
typealias KernelEventPointer = UnsafeMutablePointer<KernelEvent>

/// The kernel event sources of the process.
struct KernelEvents: ~Copyable {
    /// All of them. Guarded by the registry's lock, as the next.
    var all: RecordList<KernelEvent>
    /// Those that became invalid in the child of `fork`, each with a reference to its source, linked by `next`.
    var lost: KernelEventPointer?
    /// inotify, for the sources of files.
    var notifier: Notifier
    /// For each signal the sources that watch it; made by the first, and never freed. See `Signals`.
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
        guard let filter = KernelFilter.of(event.filter) else {
            rl_set_errno(EINVAL)
            return nil
        }
        let record = makeRecord(KernelEvent.self)
        record.pointee.descriptor = -1
        record.pointee.ident = event.ident
        record.pointee.filter = filter
        record.pointee.flags = event.flags
        record.pointee.fflags = event.fflags
        record.pointee.amount = event.data
        record.pointee.callout = callout
        let isDisabled = event.flags & RLKernelEventFlags.disable.rawValue != 0
        record.pointee.state.store(isDisabled ? KernelEventState.disabled : 0, ordering: .relaxed)
        if let path = event.path, filter.pointee.takesPath {
            guard let copy = strdup(path) else { trap("RLKernelEventSourceCreate", "out of memory") }
            record.pointee.path = copy
        }
        record.pointee.usesFiles = filter.pointee.watched != nil || filter.pointee.takesPath
        guard !record.pointee.usesFiles || OwnFiles.countUser(), filter.pointee.open(record) else {
            let error = rl_errno()
            record.closeEvent()
            CRunLoopLinux.free(record.pointee.path)
            CRunLoopLinux.free(record)
            rl_set_errno(error)
            return nil
        }
        record.pointee.context = context
        // Before the client's `retain`, which may fork: the child gets a kernel object of its own.
        record.enlist()
        record.pointee.context.adopt()
        let source = record.makeEventSource()
        source.pointee.state.bitwiseOr(
            SourceState.kernelEvent | (record.pointee.vnode != nil ? SourceState.notified : 0), ordering: .relaxed)
        if let begin = filter.pointee.begin { begin.call(record, source) } else { record.pointee.source = source }
        return source
    }

    /// The record of a source; nil for other sources.
    static func of(_ source: SourcePointer) -> KernelEventPointer? {
        guard source.pointee.state.load(ordering: .relaxed) & SourceState.kernelEvent != 0 else { return nil }
        return source.pointee.info?.assumingMemoryBound(to: KernelEvent.self)
    }

    fileprivate static func free(_ info: UnsafeRawPointer?) {
        let record = KernelEventPointer(info: info)
        record.closeEvent()
        record.pointee.context.releaseInfo()
        CRunLoopLinux.free(record.pointee.path)
        CRunLoopLinux.free(record)
    }

    fileprivate static func describe(_ info: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? {
        let record = KernelEventPointer(info: info)
        var text = TextBuffer()
        text.append("{filter = ", Int(record.pointee.filter.pointee.number.rawValue))
        text.append(", ident = ", Int(bitPattern: record.pointee.ident))
        if let path = record.pointee.path {
            text.append(", path = ")
            text.appendPrintable(path)
        }
        text.append(", enabled = ", record.isEnabled)
        text.appendCallback(record.pointee.callout)
        text.appendInfo(record.pointee.context.info, record.pointee.context.copyDescription)
        text.append("}")
        return text.terminated()
    }

    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLKernelEvent"
        kind.pointee.forkPrepare = { Notifier.shared.lock() }
        kind.pointee.forkParent = { Notifier.shared.unlock() }
        kind.pointee.forkChild = { KernelEvent.renewInChild() }
        kind.pointee.forkChildEnd = { KernelEvent.endLostInChild() }
    }

    /// In the child of `fork`: descriptors of files and timers are not shared with the parent. Called by the only thread.
    private static func renewInChild() {
        // A thread that was in the signal handler does not exist here.
        KernelEvents.shared.pointee.signalHandlers.store(0, ordering: .relaxed)
        KernelEvents.shared.pointee.all.forEach { record in
            record.pointee.lock.resetInChild()
            if record.pointee.descriptor >= 0 && !record.ownsDescriptor { record.pointee.descriptor = -1 }
            // Of the parent's set.
            record.pointee.isMember = false
            record.pointee.filter.pointee.watched?.renewInChild?.call(record)
        }
        Notifier.shared.renewInChild()
        OwnFiles.renewInChild()
        if NotifierPort.shared.pointee.users > 0 { NotifierPort.shared.enterNumbersLocked() }
        KernelEvents.shared.pointee.all.forEach { record in
            guard record.pointee.descriptor >= 0 else { return }
            rl_number_begins(record.pointee.descriptor)
            record.pointee.isMember = OwnFiles.enter(record.pointee.descriptor)
        }
    }

    /// The last step in the child of `fork`: sources that got no kernel object are invalid (S-KEV-11). No client code is called
    /// here, where its locks may be held for ever: a loop drops the references later and logs.
    private static func endLostInChild() {
        KernelEvents.shared.pointee.all.forEach { record in
            // Another thread made it invalid, and did not come to that.
            if let source = record.pointee.source, !source.isValid { return record.closeKernelObjects() }
            // What a one-shot source had to report was reported in the parent, or is by this thread now.
            if record.isSpent || (record.pointee.filter.pointee.watched != nil && record.pointee.descriptor < 0) { record.lose() }
        }
        Notifier.shared.forEachSource {
            guard $0.pointee.isLost else { return true }
            // A source with a descriptor of its own looks at its file without a watch too.
            let event = $0.pointee.event
            if event.pointee.filter.pointee.tell == nil { event.lose() } else { event.closeVnode() }
            return true
        }
    }

    /// A part of `Process.tellLost` (`Lifecycle/Load.swift`). True if there was anything to tell.
    static func tellLost() -> Bool {
        // Of what was spent nothing is lost.
        var isAny = false, isToLog = false
        while let source = Notifier.shared.copyLostSource() {
            source.invalidate()
            source.release()
            isToLog = true
        }
        process.pointee.registryLock.lockWord()
        var lost = KernelEvents.shared.pointee.lost
        KernelEvents.shared.pointee.lost = nil
        process.pointee.registryLock.unlockWord()
        while let record = lost {
            lost = record.pointee.next
            record.pointee.next = nil
            if !record.isSpent { isToLog = true }
            isAny = true
            record.pointee.source?.release()
        }
        if isToLog { Log.write("RunLoop", ": some sources of files or timers lost their kernel objects: they are invalid") }
        return isAny || isToLog
    }
}

extension UnsafeMutablePointer where Pointee == KernelEvent {
    var isSpent: Bool { pointee.state.load(ordering: .relaxed) & KernelEventState.spent != 0 }
    var isEnabled: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & KernelEventState.disabled == 0 }

    func refuse() -> Bool {
        rl_set_errno(EINVAL)
        return false
    }

    /// A new descriptor for the watch. False with errno if the kernel made none.
    @inline(never)
    func own(_ descriptor: Int32) -> Bool {
        pointee.descriptor = descriptor
        guard descriptor >= 0 else { return false }
        rl_number_begins(descriptor)
        pointee.isMember = OwnFiles.enter(descriptor)
        return pointee.isMember || rl_errno() == 0
    }

    /// Whether the number is still that of the source's descriptor.
    @inline(never)
    var ownsDescriptor: Bool {
        OwnFiles.has(pointee.descriptor, pointee.filter.pointee.watched.unsafelyUnwrapped.kind, isMember: pointee.isMember)
    }

    fileprivate func makeEventSource() -> SourcePointer {
        var functions = SourceFunctions()
        functions.release = { KernelEvent.free($0) }
        functions.copyDescription = { KernelEvent.describe($0) }
        functions.invalidated = { KernelEventPointer(info: $0).closeEvent() }
        functions.abandoned = { KernelEventPointer(info: $0).endIfSpent() }
        if pointee.descriptor >= 0 {
            return SourcePointer.makeWatch(
                descriptor: pointee.descriptor, order: 0, info: self, functions: functions, interest: isEnabled ? .read : [],
                owned: true
            ) { info, _ in KernelEventPointer(info: info).reportReadiness() }
        }
        functions.watch = { info, _ in KernelEventPointer(info: info).reportMark() }
        return SourcePointer.makeInbox(order: 0, info: self, functions: functions)
    }

    @inline(never)
    fileprivate func lose() {
        // One that a vanished thread was destroying has no owner.
        guard let source = pointee.source, source.isValid, source.tryRetain() else { return }
        source.invalidate()
        pointee.next = KernelEvents.shared.pointee.lost
        KernelEvents.shared.pointee.lost = self
        Losses.note()
    }

    /// The source is invalid, or dies: the kernel is not asked any more.
    func closeEvent() {
        // Before it leaves the list: the child of a fork makes new locks for those in the list.
        closeKernelObjects()
        delist()
    }

    @inline(never)
    fileprivate func closeKernelObjects() {
        pointee.filter.pointee.close?.call(self)
        guard let kind = pointee.filter.pointee.watched?.kind else { return }
        pointee.lock.lockWord()
        let closing = pointee.descriptor
        // In this order, as in `EpollSet.close`.
        pointee.descriptor = -1
        rl_compiler_barrier()
        if closing >= 0 { closeOwn(closing, kind, isMember: pointee.isMember) }
        pointee.lock.unlockWord()
    }

    fileprivate func enlist() {
        process.pointee.registryLock.lockWord()
        KernelEvents.shared.pointee.all.insert(self)
        process.pointee.registryLock.unlockWord()
    }

    fileprivate func delist() {
        process.pointee.registryLock.lockWord()
        KernelEvents.shared.pointee.all.remove(self)
        let usesFiles = pointee.usesFiles
        pointee.usesFiles = false
        process.pointee.registryLock.unlockWord()
        if usesFiles { OwnFiles.countUser(-1) }
    }
}
