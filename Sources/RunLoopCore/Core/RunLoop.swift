// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// The loop of one thread.
///
/// It is created by its thread's first `RLGetCurrent` (or, for the main thread, by anybody's `RLGetMain`) and freed with
/// the last reference after the thread is gone. References are held by the thread, by clients, and by every source
/// for each loop it is in.
///
/// Its memory comes from a pool that is never unmapped (`RunLoop+Pool.swift`). So what foreign threads touch without a
/// reference — a signaller that was overtaken by the removal of its source, a caller that looks for the lock of a timer's
/// loop — is always a `RunLoop`, if perhaps another one: the mailbox (first fields) and `lock` keep working through
/// all lives of the memory, and whoever comes late looks again whether the loop is still the right one.
struct RunLoop: ~Copyable {
    let header: ObjectHeader

    // The mailbox: all that RLSourceSignal, RLWakeUp and RLStop touch. Atomics only: they are async-signal-safe. It fills the
    // first cache line together with what a post reads; the loop writes nothing of it while it makes passes.

    /// A `WakeState`: whether the loop is awake, asleep and how, or has been told to wake up. Sequentially consistent: whoever wakes
    /// stores something and then looks here, the loop writes here and then looks at everything.
    let wake: Atomic<UInt32>
    /// A `StopState` of the innermost run. Sequentially consistent with `wake`.
    let stop: Atomic<UInt32>
    /// Stack of the links of sources that were signalled, newest first; taken whole. Sequentially consistent with the links' `loop`
    /// (see `Source+Signal.swift`) and with `wake`: who makes an inbox ready pushes and then looks whether the loop sleeps, the
    /// loop says that it sleeps and then looks here.
    let signalled: Atomic<SourceLinkPointer?>
    /// The epoll set in which the loop sleeps. Written by the loop's thread before it says so in `wake`, which orders it.
    let sleepingEpoll: Atomic<Int32>
    /// References that clients hold beyond those they release. Traps when it would become negative (S-LOOP-15).
    let clientReferences: Atomic<Int32>
    /// All modes, newest first; the list only grows while the loop lives, so it is read without the lock. Released and acquired:
    /// what is published are the records.
    let modes: Atomic<ModePointer?>
    /// The mode that every loop has from the start, and the root of the tree in which modes are found by name. Written at creation.
    var defaultMode: ModePointer
    /// False once the thread has ended. Released under the lock; whoever reads it without the lock may be late.
    let threadAlive: Atomic<Bool>
    /// Set while the loop is being freed: nothing can be added any more (S-LOOP-14). The last reference is gone then: only
    /// callbacks of the thread that frees it can still ask.
    let closing: Atomic<Bool>
    /// In the child of `fork`: the loop belonged to a thread that does not exist here (`RunLoop+Fork.swift`).
    let vanished: Atomic<Bool>
    /// The end of the first cache line.
    let mailboxEnd: UInt64

    /// Guards the modes' contents, the common items, the memberships of all items in this loop and their fields that say
    /// so. Biased to the loop's thread. Taken before the registry's lock; never two loops' locks at once.
    let lock: Lock
    /// The instant at which a wait that may sleep looks again at the latest, as its last look at timers said; `Clock.never` where a pass more might be
    /// noticed by somebody else than the mode's observers. Written by the loop's thread, by looks under `lock`; read under `lock`.
    let sleepsUntil: Atomic<Int64>
    /// `PostQueue.seen` at that look. Guarded by `lock`.
    var seenPosts: UInt64
    /// True from after the BeforeWaiting observers to before the AfterWaiting observers, in a wait that sleeps. For
    /// `RLIsWaiting`.
    let waiting: Atomic<Bool>
    /// Client code has run since the last reading of the clock. Loop's thread only.
    var isClockStale: Bool
    /// The clock that the program gave the loop, which holds a reference; nil: the system's. Written by the loop's thread under `lock`;
    /// released and acquired for threads that move the clock.
    let clock: Atomic<ManualClockPointer?>
    /// How far the loop has come on that clock. Written by the loop's thread under `lock`.
    var clockTime: Int64
    /// The next instant on it at which the loop has something to do, as its last look said. Written by the loop's thread before it says
    /// in `wake` that it sleeps.
    let nextInstant: Atomic<Int64>
    /// Whether the loop's thread, in a callback, waits for the clock's other loops. Written by that thread; sequentially consistent with
    /// `ManualClock.settled`.
    let movesClock: Atomic<Bool>
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
    /// Links of signalled sources and ready inboxes that have used up their limits. Guarded by `lock`.
    var held: LinkList
    /// Links of sources whose descriptors the kernel is not asked for until the end of their periods. Guarded by `lock`.
    var withdrawn: WordSet
    /// When the first of these may go on, by the loop's clock; 0: there are none. Guarded by `lock`.
    var heldUntil: Int64
    /// Something waits for that of which the log may have to tell. Loop's thread only.
    var hasNewlyHeld: Bool

    /// The modes of the common set, newest first; like `modes` the list only grows, and is read without the lock.
    let commonModes: Atomic<ModePointer?>
    /// Common items. Guarded by `lock`.
    var commonSources: SourceSet
    var commonTimers: SmallSet<Timer>
    var commonObservers: SmallSet<Observer>

    /// Functions and requests that wait for a common mode. See `WaitingKind`.
    var commonWaiting: WaitingLists
    /// Functions to perform: posted by anyone, taken by the loop's thread.
    var posts: PostQueue

    /// While a round of posts is under way, the sequence number at which it ends: what was posted before is its own business.
    /// Loop's thread only.
    var postFloor: UInt64

    /// Functions that other threads ask the loop to perform, and ordered ones (section 21).
    var requests: RequestQueue
    var orderedRequests: RequestQueue
    /// Functions to be performed after a delay. Loop's thread only.
    var delayedRequests: CancelIndex

    /// The innermost run. Loop's thread only.
    var frame: RunFramePointer?
    /// Counts the runs. Loop's thread only.
    var runs: UInt32
    var counters: Counters
    /// Bits of `Insight`. Changed under `lock`; relaxed: what a bit stands for is ordered by itself.
    let insight: Atomic<UInt32>
    /// What call-outs are measured in; nil: they are not. Set under `lock`; released and acquired for the record.
    let accounting: Atomic<AccountingPointer?>
    /// The same, also after accounting was put off. Guarded by `lock`; relaxed, for who asks whether there is any without it.
    let accounts: Atomic<AccountingPointer?>
    /// The watching of its callbacks; nil: there was none. Set once, under `lock`, and released; it stays when the loop goes to the pool.
    let watch: Atomic<CalloutWatchPointer?>
    /// Who wants call-outs measured: bits of `AccountingAsker`. Guarded by `lock`.
    var accountingAskers: UInt8
    /// Its ring of the trace. Loop's thread only.
    var ring: TraceRing
    /// The run of a foreign loop in whose epoll set the loop sleeps: `wake` says "asleep in epoll" although the thread goes on.
    /// Loop's thread only.
    var asleepOutside: ForeignRunPointer?
    /// What the thread is in the middle of. Loop's thread only, but for what `CallStack` says.
    var calls: CallStack
    /// Numbers the batches of timers. Guarded by `lock`.
    var timerBatch: UInt32
    /// The thread's timer slack in nanoseconds, read when the loop first sleeps until an instant; negative before. Loop's thread
    /// only.
    var timerSlack: Int64

    /// The kernel's number of the loop's thread; 0 once that has ended. Relaxed: descriptions tell it.
    let thread: Atomic<Int32>
    /// Made in the place of another loop that this thread had and that was torn down.
    var isSuccessor: Bool
    /// How often the destructor of the thread's key has run. Loop's thread only.
    var destructorRuns: UInt32
    /// The next in the pool. Guarded by the registry's lock.
    var nextPooled: RunLoopPointer?
    /// In the pool. Only for the child handler of `fork`.
    var isPooled: Bool
    /// The record that was allocated before this one. Written once, under the registry's lock.
    var olderRecord: RunLoopPointer?
}

typealias RunLoopPointer = UnsafeMutablePointer<RunLoop>


extension RunLoop: Object {
    static var type: ObjectType { .runLoop }

    /// The calling thread's loop, if it has one.
    @inline(always)
    static var ofThread: RunLoopPointer? { rl_thread_loop_get()?.assumingMemoryBound(to: RunLoop.self) }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Whether this process came out of a fork, so that there may be items in vanished loops.
    @inline(always)
    static var anyVanished: Bool { process.pointee.forkGeneration.load(ordering: .relaxed) != 0 }

    @inline(always)
    var isVanished: Bool { pointee.vanished.load(ordering: .relaxed) }

    /// Whether the caller is the loop's thread.
    @inline(always)
    var isCurrent: Bool { UInt(bitPattern: rl_thread_loop_get()) == UInt(bitPattern: self) }

    /// Not in place, for the many callers that are in no hurry; the next two are.
    @inline(never)
    func lock() { lock(owner: isCurrent) }

    @inline(never)
    func unlock() { unlock(owner: isCurrent) }

    /// The same for a caller that knows whether it is the loop's thread.
    @inline(always)
    func lock(owner: Bool) { pointee.lock.lock(owner: owner) }

    @inline(always)
    func unlock(owner: Bool) { pointee.lock.unlock(owner: owner) }

    /// Whether items can be added: not while the loop is freed, and not to the main loop once its thread is gone, where
    /// nobody could ever take them out again (S-LOOP-13, S-LOOP-14).
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
