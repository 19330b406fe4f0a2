// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// What a callback is called for; the raw values are those of `RLCalloutKind`.
enum CalloutKind: Int32 {
    case source = 1
    case timer = 2
    case observer = 3
    case function = 4
    case mainQueue = 5
}

/// What is told of a callback while it runs (S-SLOW-1). Nothing of it lies in the callback's frames: a callback that ends its thread leaves
/// these to the cleanup handlers of the thread.
struct WatchedCall {
    let item: ObjectPointer?
    let function: UnsafeRawPointer?
    let kind: CalloutKind
    /// In the frame that calls it, the end of the stack that the callback has. Nothing is read or written there.
    let stack: UnsafeRawPointer
    /// When it began, by the loop's clock, and when it is to be told next. Later by the runs inside it (S-SLOW-4).
    var began: Int64
    var due: Int64
    /// How often it was told.
    var told: UInt32 = 0
    /// When the run inside it began.
    var pausedAt: Int64 = 0
}

/// A loop's part in the watching of its callbacks. It is made when that is first asked for and never freed: like the loop's memory it
/// serves the next loop there.
struct CalloutWatch: ~Copyable {
    /// Held by who looks at the call, and by the loop's thread at its end: so what the call names is there meanwhile. Taken after the
    /// watcher's lock and before the registry's.
    let lock: Lock
    /// How long a callback may take, in nanoseconds; 0: it may take any time. Written under `lock`; sequentially consistent with `due` where
    /// a call begins while the watching ends, else relaxed.
    let limit: Atomic<Int64>
    /// When the callback under way is told, by the loop's clock; `Clock.never`: none is. The loop's thread publishes the call by it, and
    /// takes it back under `lock`, as does who ends the watching. Sequentially consistent with `Watcher.wakes` and `limit`.
    let due: Atomic<Int64>
    /// The callback under way. Written by the loop's thread while `due` is `never`; else under `lock`.
    var call: WatchedCall
    /// nil: a line of the log. Guarded by `lock`.
    var handler: SlowHandlerPointer?
}

typealias CalloutWatchPointer = UnsafeMutablePointer<CalloutWatch>

/// What the program set. Each loop that has it and each call of it has a reference.
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

    /// Calls the client: no lock is held.
    func release() {
        if pointee.references.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue != 0 { return }
        if let release = pointee.releaseInfo { callOutPerformedRelease(release, pointee.info) }
        CLinux.free(self)
    }
}

/// The thread that tells (`Insight/Watcher.swift`); the state of the process.
struct Watcher: ~Copyable {
    /// Guards the fields without a word of their own. Taken before the lock of a `CalloutWatch`, and by `fork`.
    let lock: Lock
    /// The instant at which the thread looks next; `Clock.never`: it waits to be roused, or there is none; `awake`: it looks, or will
    /// do so at once. Sequentially consistent with `CalloutWatch.due`.
    let wakes: Atomic<Int64>
    /// Counts the rousings. The thread sleeps on it.
    let word: Atomic<UInt32>
    /// Whether the thread was started.
    var isRunning: Bool
    /// The thread's number.
    var thread: Int32
    /// Whether it is the one that calls `fork`.
    var forks: Bool
    /// Whether a loop was ever watched. Relaxed: a clock that moves without seeing it moves before.
    let isUsed: Atomic<Bool>
    /// What the environment asks for, in nanoseconds; 0: it was not read yet; negative: nothing. Relaxed: every thread reads the same.
    let environment: Atomic<Int64>
    /// The references that the thread has while it tells: in the child of `fork` its next thread gives them back.
    var loop: RunLoopPointer?
    var item: ObjectPointer?
    var handler: SlowHandlerPointer?
    /// What the thread does. Written when the library is loaded.
    var body: (@convention(c) (UnsafeMutableRawPointer?) -> Void)?
    /// Called with each new loop, for what the environment asks for. Written at load.
    var meet: (@convention(c) (UnsafeMutableRawPointer) -> Void)?

    static var shared: UnsafeMutablePointer<Watcher> { rl_watcher().assumingMemoryBound(to: Watcher.self) }
    static var awake: Int64 { .min }

    /// Has the thread look at all loops. It is made if it is not there. Any thread, with no lock.
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

    /// A clock of the program's was moved.
    static func clockMoved() {
        if shared.pointee.isUsed.load(ordering: .relaxed) { rouse() }
    }
}

/// The loop's thread.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// A callback begins, whose frames are below the given address; nil if the loop is not watched.
    @inline(never)
    func beginWatched(_ stack: UnsafeRawPointer, _ item: ObjectPointer?, _ function: UnsafeRawPointer?) -> CalloutWatchPointer? {
        guard let watch = pointee.watch.load(ordering: .acquiring), case let limit = watch.pointee.limit.load(ordering: .relaxed), limit != 0
        else { return nil }
        let began = watchTime
        let kind = item.map { $0.calloutKind } ?? (function == nil ? .mainQueue : .function)
        begin(WatchedCall(item: item, function: function, kind: kind, stack: stack, began: began, due: began &+ limit), watch)
        return watch
    }

    /// The time by which callbacks are watched. The clock of the program has gone on to where it was moved, also where the loop follows.
    var watchTime: Int64 { manualClock?.time ?? Clock.now() }

    /// A run begins inside a callback (S-SLOW-4). nil if that is not watched.
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
        // Who ended the watching since the limit was read found no call to take away, or will take this one.
        if watch.pointee.limit.load(ordering: .sequentiallyConsistent) == 0 { return watch.end() }
        // A clock of the program's has no instants at which the thread wakes: who moves it rouses the thread, and may have done so just before.
        let comes = manualClock?.time ?? Watcher.shared.pointee.wakes.load(ordering: .sequentiallyConsistent)
        if manualClock == nil ? call.due < comes : call.due <= comes { Watcher.rouse() }
    }

    /// What the thread was in the middle of is over.
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

extension ObjectPointer {
    fileprivate var calloutKind: CalloutKind {
        switch pointee.type.load(ordering: .relaxed) {
        case ObjectType.timer.rawValue: .timer
        case ObjectType.observer.rawValue: .observer
        default: .source
        }
    }
}

/// Any thread.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Seconds in nanoseconds as a limit; 0: nothing is told.
    static func slowLimit(_ seconds: Double) -> Int64 {
        seconds > 0 ? Clock.nanoseconds(Swift.min(Swift.max(seconds, 0.001), Clock.longestInterval)) : 0
    }

    /// `RLSetSlowCalloutHandler`; the handler's reference is given away. No lock is held: it may call the client.
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
        Watcher.shared.pointee.isUsed.store(true, ordering: .relaxed)
        return watch
    }

    /// The loop goes to the pool. No lock is held: it may call the client.
    func endWatching() {
        guard let watch = pointee.watch.load(ordering: .relaxed) else { return }
        watch.pointee.lock.lockWord()
        watch.pointee.limit.store(0, ordering: .relaxed)
        let handler = watch.pointee.handler
        watch.pointee.handler = nil
        watch.pointee.lock.unlockWord()
        pointee.insight.bitwiseAnd(~Insight.watching.rawValue, ordering: .relaxed)
        handler?.release()
    }

    var slowLimit: Int64 { pointee.watch.load(ordering: .acquiring)?.pointee.limit.load(ordering: .relaxed) ?? 0 }
}
