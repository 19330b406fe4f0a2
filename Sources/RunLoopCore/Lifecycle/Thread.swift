// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A thread that lives in its loop: `RLThreadRef`.
///
/// The thread holds a reference to its object while it executes, and the object one to the loop. What `start` publishes goes
/// through `phase`, which leaves `created` under the registry's lock.
struct Thread: ~Copyable {
    let header: ObjectHeader
    /// A `ThreadPhase`; a thread that waits for a change sleeps on it. A thread that sees a phase also sees what was written before it.
    /// Sequentially consistent with the flag `awaited`.
    let phase: Atomic<UInt32>
    /// Bits of `ThreadFlags`. Sequentially consistent with `loop`: a thread that cancels sets its flag and then looks for the loop,
    /// the new thread stores the loop and then looks at the flags.
    let flags: Atomic<UInt32>
    /// A `ThreadJoin`; those that wait for another joiner sleep on it. Sequentially consistent with the flag `awaited`.
    let joining: Atomic<UInt32>
    /// How often the process had been forked when the thread was started; in the child of `fork` other threads do not exist. Relaxed:
    /// written before other threads see the phase, or while there is one thread.
    let forkGeneration: Atomic<UInt32>
    /// Set by the thread before it executes, never cleared; a reference. Released and acquired for the record.
    let loop: Atomic<RunLoopPointer?>
    // These three are fixed at creation.
    let body: ThreadFunction?
    let release: PerformFunction?
    let info: UnsafeMutableRawPointer?
    /// 0 until it is known. Written by the thread that starts it and by the thread itself. Released and
    /// acquired for what the C library has initialised.
    let handle: Atomic<UInt>
    /// From malloc. Written before the start under the registry's lock, like the next two.
    var name: UnsafeMutablePointer<CChar>?
    var stackSize: Int
    var priority: Int32
    /// The kernel's number, or one of `ThreadNumber`. Guarded by the registry's lock; so are the next four.
    var number: pid_t
    var exitCallbacks: UnsafeMutablePointer<ExitCallback>?
    /// The sources that wait for its end.
    var endWatchers: KernelEventPointer?
    /// In the list of `Threads`.
    var next, previous: ThreadPointer?
    /// Written by the thread itself; `phase` orders it.
    var result: UnsafeMutableRawPointer?
    /// What keeps the default mode of a thread without a function from being empty. The thread's.
    var keep: SourcePointer?
}

typealias ThreadPointer = UnsafeMutablePointer<Thread>

enum ThreadPhase {
    static var created: UInt32 { 0 }
    static var starting: UInt32 { 1 }
    static var executing: UInt32 { 2 }
    static var finished: UInt32 { 3 }
}

enum ThreadFlags {
    static var cancelled: UInt32 { 1 << 0 }
    /// `end` was called, or `stop` like it: what was queued before is performed before the thread ends, unless `dropping` is set.
    static var ending: UInt32 { 1 << 1 }
    /// `stop` was called that drops what is queued.
    static var dropping: UInt32 { 1 << 5 }
    /// `release` was called, or is being called: it may end the thread.
    static var released: UInt32 { 1 << 2 }
    /// The exit callbacks were called, and no more are taken. Guarded by the registry's lock.
    static var exited: UInt32 { 1 << 3 }
    /// A thread sleeps on `phase` or `joining`, or is about to. Sequentially consistent with them: the sleeper sets the flag and then
    /// looks at the phase, the thread that changes the phase looks at the flag after that.
    static var awaited: UInt32 { 1 << 4 }
}

/// The values of `Thread.number` while the kernel's number is not known.
enum ThreadNumber {
    /// In no list of the process's threads.
    static var unlisted: pid_t { 0 }
    /// Listed by the thread that starts it.
    static var starting: pid_t { -1 }
}

enum ThreadJoin {
    static var none: UInt32 { 0 }
    static var underWay: UInt32 { 1 }
    static var done: UInt32 { 2 }
    static var detached: UInt32 { 3 }
}

extension Thread: Object {
    static var type: ObjectType { .thread }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLThread"
        kind.pointee.destroy = { Thread.destroy($0.cast(to: Thread.self)) }
        kind.pointee.describe = .init { $0.cast(to: Thread.self).describe(&$1) }
        kind.pointee.forkChild = { ThreadPointer.renewInChild() }
    }

    static func destroy(_ thread: ThreadPointer) {
        if thread.pointee.phase.load(ordering: .acquiring) == ThreadPhase.created {
            if let release = thread.pointee.release { callOutPerformedRelease(release, thread.pointee.info) }
        } else if thread.pointee.joining.load(ordering: .acquiring) == ThreadJoin.none && !thread.isVanished {
            pthread_detach(thread.systemHandle)
        }
        thread.header.markFreed()
        thread.pointee.loop.load(ordering: .acquiring)?.release()
        while let callback = thread.takeExitCallback() { CRunLoopLinux.free(callback) }
        CRunLoopLinux.free(thread.pointee.name)
        CRunLoopLinux.free(thread)
    }
}

extension UnsafeMutablePointer where Pointee == Thread {
    static func make(_ body: ThreadFunction?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?) -> ThreadPointer {
        let thread = makeRecord(Thread.self)
        thread.initialize(to: Thread(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)), phase: Atomic(ThreadPhase.created), flags: Atomic(0),
            joining: Atomic(ThreadJoin.none), forkGeneration: Atomic(0), loop: Atomic(nil), body: body, release: release,
            info: info, handle: Atomic(0), name: nil, stackSize: 0, priority: 0,
            number: ThreadNumber.unlisted, exitCallbacks: nil, endWatchers: nil, next: nil, previous: nil, result: nil))
        thread.initializeHeader()
        return thread
    }

    /// The object of the calling thread; nil once that has finished, because the object may be freed then.
    static var current: ThreadPointer? {
        let object = UInt(bitPattern: rl_thread_object_get())
        return object & finishedBit == 0 ? ThreadPointer(bitPattern: object) : nil
    }

    /// Beside the object of a thread that has finished and still calls destructors.
    private static var finishedBit: UInt { 1 }

    /// Whether the thread is the calling one, also when it has finished. By then another thread's object may have the address.
    var isCalling: Bool {
        let object = UInt(bitPattern: rl_thread_object_get())
        if object == UInt(bitPattern: self) { return true }
        return object == UInt(bitPattern: self) | Self.finishedBit && systemHandle == pthread_self()
    }

    var isNew: Bool { pointee.phase.load(ordering: .acquiring) == ThreadPhase.created }
    var isCancelled: Bool { pointee.flags.load(ordering: .sequentiallyConsistent) & ThreadFlags.cancelled != 0 }

    /// True from the start on, though the thread may not have reached its body yet.
    var isExecuting: Bool {
        let phase = pointee.phase.load(ordering: .acquiring)
        return (phase == ThreadPhase.starting || phase == ThreadPhase.executing) && !isVanished
    }

    var isFinished: Bool {
        let phase = pointee.phase.load(ordering: .acquiring)
        return phase == ThreadPhase.finished || (phase != ThreadPhase.created && isVanished)
    }

    /// Whether the thread was one of the parent's and this is the child of `fork`.
    var isVanished: Bool {
        pointee.phase.load(ordering: .acquiring) != ThreadPhase.created
            && pointee.forkGeneration.load(ordering: .relaxed) != process.pointee.forkGeneration.load(ordering: .relaxed)
    }

    /// In the child of `fork`, for the thread that forked.
    static func renewInChild() {
        guard let current else { return Threads.keepInChild(nil) }
        current.pointee.forkGeneration.store(process.pointee.forkGeneration.load(ordering: .relaxed), ordering: .relaxed)
        // The thread that was joining it does not exist here.
        _ = current.pointee.joining.compareExchange(
            expected: ThreadJoin.underWay, desired: ThreadJoin.none, ordering: .relaxed)
        Threads.keepInChild(current)
    }

    /// Calls the body unless the thread was started. No other thread does so or starts it meanwhile.
    func setUp(_ body: (ThreadPointer) -> Void) {
        process.pointee.registryLock.lockWord()
        if isNew { body(self) }
        process.pointee.registryLock.unlockWord()
    }

    func setName(_ name: UnsafePointer<CChar>?) {
        var name = name.flatMap { strdup($0) }
        setUp { swap(&$0.pointee.name, &name) }
        CRunLoopLinux.free(name)
    }

    var name: UnsafeMutablePointer<CChar>? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        return pointee.name
    }

    // MARK: Start

    /// `RLThreadStart`.
    func start() -> Bool {
        guard isNew && isAlive else { return false }
        // Before anything is changed: the function that this calls may end the thread, and may fork.
        Threads.becomeMany()
        var isFirst = false
        setUp {
            // First the generation: a thread that sees the phase sees it too.
            $0.pointee.forkGeneration.store(process.pointee.forkGeneration.load(ordering: .relaxed), ordering: .relaxed)
            $0.pointee.phase.store(ThreadPhase.starting, ordering: .sequentiallyConsistent)
            enterListLocked()
            isFirst = true
        }
        guard isFirst else { return false }
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        if pointee.stackSize > 0 { pthread_attr_setstacksize(&attributes, stackSize) }
        retain()
        var handle = pthread_t()
        let status = pthread_create(&handle, &attributes, { argument in
            argument!.assumingMemoryBound(to: Thread.self).execute()
            return nil
        }, self)
        pthread_attr_destroy(&attributes)
        guard status == 0 else {
            leaveList(phase: ThreadPhase.created)
            // Not the last reference: the caller has one.
            release()
            return false
        }
        pointee.handle.store(UInt(handle), ordering: .releasing)
        return true
    }

    var systemHandle: pthread_t { pthread_t(pointee.handle.load(ordering: .acquiring)) }

    func change(to phase: UInt32) {
        pointee.phase.store(phase, ordering: .sequentiallyConsistent)
        if isAwaited { pointee.phase.futexWakeAll() }
    }

    var isAwaited: Bool { pointee.flags.load(ordering: .sequentiallyConsistent) & ThreadFlags.awaited != 0 }

    /// Returns when the thread is in another phase; at once on the thread itself, and for a thread that does not exist in this child of `fork`.
    func wait(while phase: UInt32) {
        if pointee.phase.load(ordering: .acquiring) != phase || isVanished || ThreadPointer.current == self { return }
        pointee.flags.bitwiseOr(ThreadFlags.awaited, ordering: .sequentiallyConsistent)
        // A signal handler may fork here.
        while pointee.phase.load(ordering: .sequentiallyConsistent) == phase, !isVanished { pointee.phase.futexWait(while: phase) }
    }

    /// Returns when the thread's loop exists.
    func waitForStart() { wait(while: ThreadPhase.starting) }

    /// The thread's function.
    private func execute() {
        pointee.handle.store(UInt(pthread_self()), ordering: .releasing)
        rl_thread_object_set(self)
        if let name = pointee.name { rl_set_thread_name(name) }
        if pointee.priority != 0 { rl_set_thread_priority(pointee.priority) }
        // A log handler may end the thread before its loop is made: then the key's destructor begins, and ends, what others wait for.
        pthread_setspecific(process.pointee.threadKey, self)
        let loop = begin()

        if let body = pointee.body {
            callOutThread(body, handle, pointee.info)
        } else {
            live(in: loop)
        }
        // What is called from now on, also by exit callbacks, may run the loop.
        if pointee.body == nil { loop.endRuns() }
        finish(afterBodyIn: loop)
    }

    /// Whether `stop` or `end` was called.
    var isStopped: Bool { pointee.flags.load(ordering: .sequentiallyConsistent) & (ThreadFlags.ending | ThreadFlags.dropping) != 0 }

    /// Makes the loop; from now on the thread counts as executing.
    private func begin() -> RunLoopPointer {
        let loop = RunLoop.current()
        loop.retain()
        pointee.loop.store(loop, ordering: .sequentiallyConsistent)
        // `stop` has found no loop for its marker.
        if isStopped { loop.endRuns() }
        setNumber(loop.pointee.thread.load(ordering: .relaxed))
        if pointee.joining.load(ordering: .relaxed) == ThreadJoin.detached { pthread_detach(systemHandle) }
        change(to: ThreadPhase.executing)
        return loop
    }

    /// The calling thread's loop, for the key's destructor; nil if it has none, or has torn it down.
    static var loopToEnd: RunLoopPointer? {
        // A log handler may have ended the thread while its loop was made.
        if let current, current.pointee.loop.load(ordering: .relaxed) == nil { return current.begin() }
        return RunLoop.ofThread
    }

    /// The thread's last use of its object. If a callback ends the thread, the end of the loop calls this (S-LOOP-19), without a loop.
    func finish(afterBodyIn loop: RunLoopPointer? = nil) {
        callExitCallbacks(afterBodyIn: loop)
        let isReleased = pointee.flags.bitwiseOr(ThreadFlags.released, ordering: .relaxed).oldValue & ThreadFlags.released != 0
        if !isReleased, let release = pointee.release { callOutPerformedRelease(release, pointee.info) }
        change(to: ThreadPhase.finished)
        tellEnd()
        rl_thread_object_set(UnsafeMutableRawPointer(bitPattern: UInt(bitPattern: self) | Self.finishedBit))
        release()
    }

    /// Runs the default mode, which never becomes empty, until the thread is cancelled.
    private func live(in loop: RunLoopPointer) {
        // An info that no source of the program's has: it equals none.
        let keep = SourcePointer.makeInbox(order: 0, info: process, functions: SourceFunctions())
        keep.becomeOwn()
        loop.addSource(keep, to: .named(kRLDefaultMode))
        pointee.keep = keep
        while !isCancelled {
            _ = loop.run(in: .named(kRLDefaultMode), seconds: .infinity, returnsAfterSource: false)
        }
        endLife()
    }

    /// Also if a callback has ended the thread. The thread itself.
    func endLife() {
        guard let keep = pointee.keep else { return }
        pointee.keep = nil
        keep.invalidate()
        keep.release()
    }

    /// Performs what the thread's runs have left of what was queued before `end`: they were in other modes, had a limit, or were stopped in
    /// the middle of a pass. A thread that sees the flag `ending` sees all of that, so one pass is enough. Not after a `stop` that drops it.
    func drain(_ loop: RunLoopPointer) {
        // The marker may not have been performed.
        loop.endRuns()
        if pointee.flags.load(ordering: .sequentiallyConsistent) & ThreadFlags.dropping != 0 { return }
        let mode = loop.pointee.defaultMode
        guard loop.findPost(for: mode) || loop.requests.hasEligible(in: mode) || loop.orderedRequests.hasEligible(in: mode) else { return }
        // There is no later pass for what a limit would put off, whoever sets one now.
        mode.pointee.passLimit.store(-1, ordering: .relaxed)
        // Exit callbacks may set one for their own runs.
        defer { mode.pointee.passLimit.store(0, ordering: .relaxed) }
        guard loop.run(in: .named(kRLDefaultMode), seconds: 0, returnsAfterSource: false) == .stopped else { return }
        // An Entry observer let no pass begin, and may do so each time.
        _ = loop.performBatch(of: loop.orderedRequests, in: mode)
        loop.performRound(in: mode)
        _ = loop.performBatch(of: loop.requests, in: mode)
    }
}

extension UnsafeMutablePointer where Pointee == Thread {
    fileprivate func describe(_ text: inout TextBuffer) {
        if !header.isNamed {
            text.append("name = ")
            if let name = pointee.name { text.appendPrintable(name) } else { text.append("(none)") }
            text.append(", ")
        }
        text.append("executing = ", isExecuting)
        text.append(", cancelled = ", isCancelled)
        text.append(", finished = ", isFinished)
    }
}
