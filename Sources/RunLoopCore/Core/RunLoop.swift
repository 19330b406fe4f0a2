// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The loop of one thread.
///
/// It is created by its thread's first `RLGetCurrent` (or, for the main thread, by any thread's `RLGetMain`) and freed with
/// the last reference after the thread has ended. References are held by the thread, by clients, and by every source
/// for each loop it is in.
///
/// Its memory comes from a pool that is never unmapped (`RunLoop+Pool.swift`). So what other threads touch without a
/// reference — a signaller that was overtaken by the removal of its source, a caller that looks for the lock of a timer's
/// loop — is always a `RunLoop`, if perhaps another one: the mailbox (first fields) and `lock` keep working through
/// all lives of the memory, and a thread that comes late checks again whether the loop is still the right one.
struct RunLoop: ~Copyable {
    let header: ObjectHeader

    // The mailbox: everything that RLSourceSignal, RLWakeUp and RLStop touch. Only atomics, because they are async-signal-safe. It fills
    // the first cache line together with what a post reads; the loop does not write to that line while it makes passes.

    /// A `WakeState`: whether the loop is awake, asleep and how, or has a wake-up pending. Sequentially consistent: a thread that wakes the
    /// loop stores something and then looks here, the loop writes here and then looks at everything.
    let wake: Atomic<UInt32>
    /// A `StopState` of the innermost run. Sequentially consistent with `wake`.
    let stop: Atomic<UInt32>
    /// Stack of the links of sources that were signalled, newest first; taken whole. Sequentially consistent with the links' `loop`
    /// (see `Source+Signal.swift`) and with `wake`: a thread that makes an inbox ready pushes and then looks whether the loop sleeps, the
    /// loop says that it sleeps and then looks here.
    let signalled: Atomic<SourceLinkPointer?>
    /// The epoll set in which the loop sleeps. Written by the loop's thread before it says so in `wake`, which orders it.
    let sleepingEpoll: Atomic<Int32>
    /// References that clients hold beyond those they release. Traps when it would become negative (S-LOOP-15).
    let clientReferences: Atomic<Int32>
    /// All modes, newest first; the list only grows while the loop lives, so it is read without the lock. Released and acquired
    /// for the records, which it publishes.
    let modes: Atomic<ModePointer?>
    /// The mode that every loop has from the start, and the root of the tree in which modes are found by name. Written at creation.
    var defaultMode: ModePointer
    /// False once the thread has ended. Released under the lock; a thread that reads it without the lock may read the old value.
    let threadAlive: Atomic<Bool>
    /// Set while the loop is being freed: nothing can be added any more (S-LOOP-14). The last reference has been dropped by then: only
    /// callbacks of the thread that frees the loop can still read this.
    let closing: Atomic<Bool>
    /// In the child of `fork`: the loop belonged to a thread that does not exist here (`RunLoop+Fork.swift`).
    let vanished: Atomic<Bool>
    /// A run ends before it begins: the loop is being freed, or a callback has ended its thread and the frames of the runs no longer exist
    /// (S-LOOP-22). Relaxed: the thread that reads it is the one that set it.
    let refusesRuns: Atomic<Bool>
    /// The end of the first cache line.
    let mailboxEnd: UInt64

    /// Guards the modes' contents, the common items, the memberships of all items in this loop and their fields that say
    /// so. Biased to the loop's thread. Taken before the registry's lock; a thread never holds two loops' locks at once.
    let lock: Lock
    /// The instant at which a wait that may sleep looks again at the latest, as its last look at timers found it; `Clock.never` if an additional
    /// pass could be noticed by anything but the mode's observers. Written by the loop's thread, by looks under `lock`; read under `lock`.
    let sleepsUntil: Atomic<Int64>
    /// `PostQueue.seen` at that look. Guarded by `lock`.
    var seenPosts: UInt64
    /// True from after the BeforeWaiting observers to before the AfterWaiting observers, in a wait that sleeps. For
    /// `RLIsWaiting`.
    let waiting: Atomic<Bool>
    /// Client code has run since the last reading of the clock. Loop's thread only.
    var isClockStale: Bool
    /// The process's losses when the loop last looked for its own. Loop's thread only.
    var seenLosses: UInt32
    /// The clock that the program set for the loop, which holds a reference to it; nil: the system's. Written by the loop's thread under `lock`.
    /// Sequentially consistent with the words of a clock: a thread that changes those then looks which loops have the clock, and a loop that
    /// gets it reads them after that.
    let clock: Atomic<ManualClockPointer?>
    /// The time that the loop has reached on that clock. Written under `lock`: by the loop's thread, and by others while it rests or does not
    /// run. Relaxed: the loop's thread also reads it without the lock.
    let clockTime: Atomic<Int64>
    /// The mode of its last look whose time could go on, and when the run ends. Guarded by `lock`.
    var waitMode: ModePointer?
    var waitEnd: Int64
    /// Whether it waits, and that look found nothing to do: whoever moves the clock takes it along (`followLocked`). Guarded by `lock`.
    var rests: Bool
    /// Its thread moves a clock outside any run, and goes there by runs: nobody takes the loop along (S-CLK-6). Written by the loop's thread, set
    /// releasing before it announces a move and cleared under `lock`; read after the goal of the clock.
    let goesByRuns: Atomic<Bool>
    /// Whether it sleeps without a look at its ports, because the process has no descriptors for that. Written by the loop's thread before it
    /// says in `wake` that it sleeps.
    let isBlind: Atomic<Bool>
    /// Whether a timer that uses the boot or wall clock was ever added in this life of the memory or an earlier one. Stored before that
    /// clock is read, and loaded after it was changed, both sequentially consistent.
    let followsClocks: Atomic<Bool>
    /// Whether posts come so fast that the loop does not wait for wake-ups. Loop's thread only.
    var busyPolling: BusyPolling
    /// How long to watch the wake word before sleeping, in nanoseconds. Relaxed: a number that orders nothing.
    let spinLimit: Atomic<Int64>
    /// The mode of the innermost run, nil when not running. Written by the loop's thread, released and acquired for the record.
    let currentMode: Atomic<ModePointer?>

    /// Sources that were signalled and taken off the stack. Guarded by `lock`.
    var pending: LinkList
    /// Sources that were signalled but were not in the mode `parkedFor` when a run of that mode looked. Guarded by `lock`.
    var parked: LinkList
    /// The mode for which `parked` was sorted out; nil: to be looked through again. Guarded by `lock`.
    var parkedFor: ModePointer?
    /// Inboxes that are ready. Guarded by `lock`.
    var inboxes: InboxList
    /// Sources that have used up their limits and wait for the ends of their periods. Guarded by `lock`.
    var waits: SourceWaits

    /// The modes of the common set, newest first; like `modes` the list only grows, and is read without the lock.
    let commonModes: Atomic<ModePointer?>
    /// Common items. Guarded by `lock`.
    var commonSources: SourceSet
    var commonTimers: SmallSet<Timer>
    /// The timers by the boot or the wall clock whose owner the loop is (`Timer.owner`). Guarded by `lock`.
    var followers: SmallSet<Timer>
    var commonObservers: SmallSet<Observer>

    /// Functions and requests that wait for a common mode. See `WaitingKind`.
    var commonWaiting: WaitingLists
    /// Functions to perform: posted by any thread, taken by the loop's thread.
    var posts: PostQueue

    /// While a round of posts is under way, from where on rounds in it see what waits: the rest belongs to that round. Loop's thread only.
    var postFloor: PostFloor

    /// Functions that other threads request the loop to perform, and ordered ones (section 21).
    var requests: RequestQueue
    var orderedRequests: RequestQueue
    /// Functions to be performed after a delay. Guarded by `lock`.
    var delayedRequests: CancelIndex

    /// Room for the events that one call of the kernel returns, in a loop that had a socket; nil before. No code of the client runs while it is
    /// in use, so nested runs share it. Loop's thread only.
    var events: UnsafeMutablePointer<rl_event>?

    /// The innermost run. Loop's thread only.
    var frame: RunFramePointer?
    /// Counts the runs. Loop's thread only.
    var runs: UInt32
    var counters: Counters
    /// Bits of `Insight`. Changed under `lock`, but for `ending`, which the loop's thread sets; relaxed: the state behind a bit has its own memory order.
    let insight: Atomic<UInt32>
    /// The record in which call-outs are measured; nil: they are not. Set under `lock`; released and acquired for the record.
    let accounting: Atomic<AccountingPointer?>
    /// The same record, also after accounting was turned off. Guarded by `lock`; relaxed, because threads also check it for nil without the lock.
    let accounts: Atomic<AccountingPointer?>
    /// The record for watching its callbacks; nil: never watched. Set once, under `lock`, and released; kept when the loop goes to the pool.
    let watch: Atomic<CalloutWatchPointer?>
    /// For whom call-outs are measured: bits of `AccountingAsker`. Guarded by `lock`.
    var accountingAskers: UInt8
    /// Its ring of the trace. Loop's thread only.
    var ring: TraceRing
    /// The run of a foreign loop in whose epoll set the loop sleeps: `wake` says "asleep in epoll" although the thread continues to run.
    /// Loop's thread only.
    var asleepOutside: ForeignRunPointer?
    /// Since its thread looked for such runs to end them. Loop's thread only.
    var hasHadForeignRuns = false
    /// The callbacks that the thread is in. Loop's thread only, with the exceptions that `CallStack` lists.
    var calls: CallStack
    /// The thread's innermost wait for a lock that runs the loop. Loop's thread only.
    var lockWait: LoopWaiterPointer?
    /// Since `endRuns`: how many runs have begun one after the other that performed nothing, and what the loop had performed before. Loop's
    /// thread only.
    var idleRuns: UInt32
    var performedAtEnd: UInt64
    /// How many batches of timers are under way: the number of the innermost. Guarded by `lock`.
    var timerBatch: UInt32
    /// The thread's timer slack in nanoseconds, read when the loop first sleeps until an instant; negative before. Loop's thread
    /// only.
    var timerSlack: Int64

    /// The kernel's number of the loop's thread; 0 once that has ended. Relaxed: only descriptions show it.
    let thread: Atomic<Int32>
    /// Made to replace another loop that this thread had and that was torn down.
    var isSuccessor: Bool
    /// How often the destructor of the thread's key has run. Loop's thread only.
    var destructorRuns: UInt32
    /// At the end of the thread: how many times all sources were removed, and how far this has come. Loop's thread only.
    var sweeps: UInt32
    var sweep: Sweep
    /// When a callback of the loop last moved a clock, by `Process.clockCalls` at the end of the call: `max` during one, 0 before the first. Written
    /// by the loop's thread; sequentially consistent with `ManualClock.settled`.
    let lastMove: Atomic<Int64>
    /// Where the loop's thread last moved the clock. Loop's thread only.
    var movedTo: Int64
    /// In the pool: a default mode for the next loop, with its name and nothing in it.
    var keptMode: ModePointer?
    /// The thread that frees the loop, as `RLThisThread_` returns it; 0: none does. Written by that thread, read by a child of `fork`.
    var freeingThread: UInt
    /// The next in the pool. Guarded by the registry's lock.
    var nextPooled: RunLoopPointer?
    /// In the pool. Only the child handler of `fork` uses it.
    var isPooled: Bool
    /// The record that was allocated before this one. Written once, under the registry's lock.
    var olderRecord: RunLoopPointer?
    /// In `ManualClock.loops` of its clock. Guarded by the registry's lock.
    var next: RunLoopPointer?
    var previous: RunLoopPointer?
}

extension RunLoop: Listed {}

typealias RunLoopPointer = UnsafeMutablePointer<RunLoop>


extension RunLoop: Object {
    static var type: ObjectType { .runLoop }

    /// The calling thread's loop, if it has one.
    @inline(always)
    static var ofThread: RunLoopPointer? { rl_thread_loop_get()?.assumingMemoryBound(to: RunLoop.self) }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Whether this process is the child of a fork, so that there may be items in vanished loops.
    @inline(always)
    static var anyVanished: Bool { process.pointee.forkGeneration.load(ordering: .relaxed) != 0 }

    @inline(always)
    var isVanished: Bool { pointee.vanished.load(ordering: .relaxed) }

    /// Whether the caller is the loop's thread.
    @inline(always)
    var isCurrent: Bool { UInt(bitPattern: rl_thread_loop_get()) == UInt(bitPattern: self) }

    /// Not inlined, for the many callers that are not on a hot path; the two below are inlined.
    @inline(never)
    func lock() { lock(owner: isCurrent) }

    @inline(never)
    func unlock() { unlock(owner: isCurrent) }

    /// The same for a caller that knows whether it is the loop's thread.
    @inline(always)
    func lock(owner: Bool) { pointee.lock.lock(owner: owner) }

    @inline(always)
    func unlock(owner: Bool) { pointee.lock.unlock(owner: owner) }

    /// Whether items can be added: not while the loop is freed, and not to the main loop once its thread has ended, because nothing
    /// could ever remove them again (S-LOOP-13, S-LOOP-14).
    @inline(always)
    func acceptsItems(_ function: StaticString, _ once: LoggedOnce) -> Bool {
        if pointee.threadAlive.load(ordering: .acquiring) { return true }
        return acceptsItemsOfEndedThread(function, once)
    }

    /// A loop is closed after its thread has ended.
    @inline(never)
    private func acceptsItemsOfEndedThread(_ function: StaticString, _ once: LoggedOnce) -> Bool {
        if pointee.closing.load(ordering: .acquiring) { return false }
        if registry.pointee.mainLoop.load(ordering: .acquiring) == self {
            Log.once(once, function, ": the main thread has ended; ignored")
            return false
        }
        return true
    }
}

/// How far the removal of a loop's sources at the end of its thread has come.
struct Sweep {
    /// Whose turn it is; nil: no sweep is under way.
    var mode: ModePointer?
    /// In the table of its sources, which is looked at to the end that it had.
    var slot = 0
    var end = 0
    var hasFound = false
}
