// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What is reported of a callback while it runs (S-SLOW-1). Nothing of it lies in the callback's frames: if a callback ends its thread, the
/// cleanup handlers of the thread run there.
struct WatchedCall {
    let item: ObjectPointer?
    let function: UnsafeRawPointer?
    let kind: CallOutKind
    /// An address in the frame that calls it: the end of the callback's part of the stack. Nothing is read or written there.
    let stack: UnsafeRawPointer
    /// When it began, by the loop's clock, and when it is reported next. Runs inside it move both later (S-SLOW-4).
    var began: Int64
    var due: Int64
    /// How often it was reported.
    var told: UInt32 = 0
    /// When the run inside it began.
    var pausedAt: Int64 = 0
}

/// A loop's part in the watching of its callbacks. It is made when watching is first requested and never freed: like the loop's memory it
/// serves the next loop there.
struct CalloutWatch: ~Copyable {
    /// Held by a thread that looks at the call, and by the loop's thread at the call's end: so what the call names exists meanwhile. Taken
    /// after the watcher's lock and before the registry's.
    let lock: Lock
    /// How long a callback may take, in nanoseconds; 0: no limit. Written under `lock`; sequentially consistent with `due` where
    /// a call begins while the watching ends, else relaxed.
    let limit: Atomic<Int64>
    /// When the current callback is reported, by the loop's clock; `Clock.never`: there is none. The loop's thread publishes the call by it, and
    /// withdraws it under `lock`, as does the thread that ends the watching. Sequentially consistent with `Watcher.wakes` and `limit`.
    let due: Atomic<Int64>
    /// The current callback. Written by the loop's thread while `due` is `never`; else under `lock`.
    var call: WatchedCall
    /// Whether the thread may be asked while it computes, and when the loop's thread checks that again, by the loop's clock. Written as `call` is.
    var takesQuestions: Bool
    var looksAt: Int64
    /// nil: a line is logged. Guarded by `lock`.
    var handler: SlowHandlerPointer?
}

typealias CalloutWatchPointer = UnsafeMutablePointer<CalloutWatch>

/// The handler that the program set. Each loop that has it and each call of it holds a reference.
struct SlowHandler: ~Copyable {
    let references: Atomic<UInt32>
    let function: SlowCalloutFunction?
    let info: UnsafeMutableRawPointer?
    let releaseInfo: PerformFunction?
}

typealias SlowHandlerPointer = UnsafeMutablePointer<SlowHandler>

extension UnsafeMutablePointer where Pointee == SlowHandler {
    static func make(
        _ function: SlowCalloutFunction?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
    ) -> SlowHandlerPointer {
        let handler = makeRecord(SlowHandler.self)
        handler.initialize(to: SlowHandler(references: Atomic(1), function: function, info: info, releaseInfo: release))
        return handler
    }

    func retain() { pointee.references.wrappingAdd(1, ordering: .relaxed) }

    /// Calls the client, who may end the thread, when nothing is left to do: no lock is held.
    func release() {
        if pointee.references.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue != 0 { return }
        let (release, info) = (pointee.releaseInfo, pointee.info)
        CRunLoopLinux.free(self)
        if let release { callOutPerformedRelease(release, info) }
    }
}

/// The state of the process's thread that reports (`Insight/Watcher.swift`).
struct Watcher: ~Copyable {
    /// Guards the fields that do not say otherwise. Taken before the lock of a `CalloutWatch`, and by `fork`.
    let lock: Lock
    /// The instant at which the thread looks next; `Clock.never`: it waits to be roused, or does not run; `awake`: it looks, or will
    /// do so at once. Sequentially consistent with `CalloutWatch.due`.
    let wakes: Atomic<Int64>
    /// Counts the calls that rouse the thread. The thread sleeps on it.
    let word: Atomic<UInt32>
    /// Whether the thread was started.
    var isRunning: Bool
    /// The kernel's number of the thread.
    var thread: Int32
    /// Whether it is the thread that calls `fork`.
    var forks: Bool
    /// Whether a loop was ever watched. Sequentially consistent with the targets of clocks: one that moves without seeing it moves before.
    let isUsed: Atomic<Bool>
    /// The limit in the environment, in nanoseconds; 0: it was not read yet; negative: there is none, or it was `misread`. Relaxed: every thread reads the same.
    let environment: Atomic<Int64>
    /// The references and the memory that the thread holds while it reports: the next such thread releases them if this one ends, or does not
    /// exist in the child of `fork`.
    var loop: RunLoopPointer?
    var item: ObjectPointer?
    var handler: SlowHandlerPointer?
    var memory: (UnsafeMutableRawPointer?, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?, UnsafeMutableRawPointer?)
    /// The thread's function. Written when the library is loaded.
    var body: (@convention(c) (UnsafeMutableRawPointer?) -> Void)?
    /// Called with each new loop, to apply the limit in the environment. Written when the library is loaded.
    var meet: (@convention(c) (UnsafeMutableRawPointer) -> Void)?

    static var shared: UnsafeMutablePointer<Watcher> { rl_watcher().assumingMemoryBound(to: Watcher.self) }
    static var awake: Int64 { .min }
    static var misread: Int64 { .min }

    /// Makes the thread look at all loops, and starts it if it does not run. Any thread; no lock is held.
    @inline(never)
    static func rouse() {
        if shared.pointee.wakes.exchange(awake, ordering: .sequentiallyConsistent) == awake { return }
        shared.pointee.word.wrappingAdd(1, ordering: .releasing)
        shared.pointee.lock.lockWord()
        var isThere = shared.pointee.isRunning
        if !isThere {
            isThere = rl_start_thread(shared.pointee.body.unsafelyUnwrapped, nil)
            shared.pointee.isRunning = isThere
            // The next callback tries again.
            if !isThere { shared.pointee.wakes.store(Clock.never, ordering: .sequentiallyConsistent) }
        } else {
            shared.pointee.word.futexWakeOne()
        }
        shared.pointee.lock.unlockWord()
        if !isThere { Log.once(.noWatcher, "RLSetSlowCalloutHandler", ": no thread to watch with; trying again") }
    }

    /// A clock of the program was moved.
    static func clockMoved() {
        if shared.pointee.isUsed.load(ordering: .sequentiallyConsistent) { rouse() }
    }
}

/// The loop's thread.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// A callback begins whose frames are below the given address. Returns nil if the loop is not watched.
    @inline(never)
    func beginWatched(_ stack: UnsafeRawPointer, _ item: ObjectPointer?, _ function: UnsafeRawPointer?) -> CalloutWatchPointer? {
        guard let watch = pointee.watch.load(ordering: .acquiring), case let limit = watch.pointee.limit.load(ordering: .relaxed), limit != 0
        else { return nil }
        let began = watchTime
        if began >= watch.pointee.looksAt {
            watch.pointee.takesQuestions = rl_takes_questions()
            watch.pointee.looksAt = began &+ limit
        }
        let (kind, function) = CallOutKind.of(item, function)
        begin(WatchedCall(item: item, function: function, kind: kind, stack: stack, began: began, due: began &+ limit), watch)
        return watch
    }

    /// The time by which callbacks are watched. The program's clock has already reached the time to which it was moved, also where the
    /// loop still follows.
    var watchTime: Int64 { manualClock?.time ?? Clock.now() }

    /// A run begins inside a callback (S-SLOW-4). Returns nil if the callback is not watched.
    @inline(never)
    func pauseWatch() -> WatchedCall? {
        guard let watch = pointee.watch.load(ordering: .acquiring), watch.pointee.due.load(ordering: .relaxed) != Clock.never else { return nil }
        watch.end()
        var call = watch.pointee.call
        call.pausedAt = watchTime
        return call
    }

    /// The run has ended.
    @inline(never)
    func resumeWatch(_ paused: WatchedCall) {
        let watch = pointee.watch.load(ordering: .relaxed)!
        if watch.pointee.limit.load(ordering: .relaxed) == 0 { return }
        var call = paused
        let distance = watchTime - call.pausedAt
        call.began &+= distance
        call.due &+= distance
        begin(call, watch)
    }

    private func begin(_ call: WatchedCall, _ watch: CalloutWatchPointer) {
        watch.pointee.call = call
        watch.pointee.due.store(call.due, ordering: .sequentiallyConsistent)
        // A thread that ended the watching since the limit was read found no call to withdraw, or will withdraw this one.
        if watch.pointee.limit.load(ordering: .sequentiallyConsistent) == 0 { return watch.end() }
        // With a clock of the program there are no instants at which the thread wakes: the thread that moves the clock rouses it, and may have
        // done so just before.
        let comes = manualClock?.time ?? Watcher.shared.pointee.wakes.load(ordering: .sequentiallyConsistent)
        if manualClock == nil ? call.due < comes : call.due <= comes { Watcher.rouse() }
    }

    /// The loop's thread abandoned the callback.
    func abandonWatch() { pointee.watch.load(ordering: .relaxed)?.end() }
}

extension UnsafeMutablePointer where Pointee == CalloutWatch {
    @inline(never)
    func end() {
        pointee.lock.lockWord()
        pointee.due.store(Clock.never, ordering: .relaxed)
        pointee.lock.unlockWord()
    }
}

/// Any thread.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// A limit in nanoseconds for one in seconds; 0: nothing is reported.
    static func slowLimit(_ seconds: Double) -> Int64 {
        seconds > 0 ? Clock.nanoseconds(Swift.min(Swift.max(seconds, 0.001), Clock.longestInterval)) : 0
    }

    /// `RLSetSlowCalloutHandler`; takes over the handler's reference. No lock is held: it may call the client.
    func setSlowHandler(_ limit: Int64, _ handler: SlowHandlerPointer?) {
        lock()
        if limit == 0 && pointee.watch.load(ordering: .relaxed) == nil || pointee.closing.load(ordering: .relaxed) {
            unlock()
            handler?.release()
            return
        }
        let watch = pointee.watch.load(ordering: .relaxed) ?? makeWatchLocked()
        watch.pointee.lock.lockWord()
        watch.pointee.limit.store(limit, ordering: .sequentiallyConsistent)
        if limit == 0 { watch.pointee.due.store(Clock.never, ordering: .sequentiallyConsistent) }
        let former = watch.pointee.handler
        watch.pointee.handler = limit == 0 ? nil : handler
        watch.pointee.lock.unlockWord()
        attend(.watching, limit != 0)
        unlock()
        former?.release()
        if limit == 0 { handler?.release() }
    }

    private func makeWatchLocked() -> CalloutWatchPointer {
        let watch = makeRecord(CalloutWatch.self)
        watch.pointee.due.store(Clock.never, ordering: .relaxed)
        pointee.watch.store(watch, ordering: .releasing)
        Watcher.shared.pointee.isUsed.store(true, ordering: .sequentiallyConsistent)
        return watch
    }

    /// The loop goes to the pool. No lock is held: it may call the client.
    func endWatching() {
        guard let watch = pointee.watch.load(ordering: .relaxed) else { return }
        watch.pointee.lock.lockWord()
        watch.pointee.limit.store(0, ordering: .relaxed)
        watch.pointee.looksAt = 0
        let handler = watch.pointee.handler
        watch.pointee.handler = nil
        watch.pointee.lock.unlockWord()
        pointee.insight.bitwiseAnd(~Insight.watching.rawValue, ordering: .relaxed)
        handler?.release()
    }

    var slowLimit: Int64 { pointee.watch.load(ordering: .acquiring)?.pointee.limit.load(ordering: .relaxed) ?? 0 }
}
