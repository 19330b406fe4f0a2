import CLinux
import Synchronization

/// What the core keeps once per process. It lives in zeroed static memory (`rl_process`), so that there is no lazily made
/// global that a signal handler could meet half made.
struct Process: ~Copyable {
    /// Guards the list of loops, the pool, `mainLoop`, and the table of source callbacks. Taken after a loop's lock.
    let registryLock: Lock
    /// Guards the list of message ports, their names and the thread that watches for the end of their peers. Taken before a
    /// message port's own lock.
    let messagePortLock: Lock
    /// Guards the log handler.
    let logLock: Lock

    /// The newest instant given to a timer that was made due. See `Clock.dueNow`.
    let lastDueInstant: Atomic<Int64>
    /// Whether membarrier(2) is there, so that locks may be biased. Relaxed: who sees it late finds out by the barrier that fails.
    let canBias: Atomic<Bool>
    /// Whether it was there at load or after a fork. Goes to true once.
    let couldBias: Atomic<Bool>
    /// Bits of `LoggedOnce`: lines that are logged once per process. Relaxed: bits that order nothing.
    let logged: Atomic<UInt32>
    /// The main thread's loop. Set once, and anew in the child of `fork`. Released and acquired for the record; sequentially consistent
    /// with `mainQueue.state`.
    let mainLoop: Atomic<RunLoopPointer?>
    /// The main thread has ended without a loop: one that is made for it later is that of an ended thread. Guarded by
    /// `registryLock`.
    var mainThreadHasEnded: Bool
    /// The eventfd, always readable, that wakes loops which sleep in epoll. Made under `registryLock` and released, so that who
    /// loads it acquires `wakeMark`; replaced without the lock by who finds it lost. See `EpollSet`.
    let wakeDescriptor: Atomic<Int32>
    /// Sets may be without the present wake-up descriptor, because it took the place of one that was lost. Relaxed: stored before
    /// `wakeDescriptor`, which orders it.
    let wakeWasReplaced: Atomic<Bool>
    /// A descriptor was lost since a loop last looked; the loop logs that (S-FD-18). Relaxed, as the next: they order nothing.
    let lostDescriptor: Atomic<Bool>
    /// How many times this process came out of `fork` as the child.
    let forkGeneration: Atomic<UInt32>
    /// Set by the first use of a loop in this core, after a look for other cores. Released and acquired: each thread that goes on
    /// knows that the look was made.
    let claimed: Atomic<Bool>

    /// All loops that are in use, linked by `nextLoop`. Guarded by `registryLock`.
    var loops: RunLoopPointer?
    /// Loops that were freed; their memory is never unmapped. Guarded by `registryLock`.
    var freeLoops: RunLoopPointer?
    /// All records of loops that were ever allocated, linked by `olderRecord`: those in use, those in the pool, and those on their
    /// way between. Guarded by `registryLock`.
    var loopRecords: RunLoopPointer?
    /// The one mode of all vanished loops, which never has anything in it. Written in the child of `fork` while it has one thread.
    var vanishedMode: ModePointer?
    /// All runs of foreign loops that have a descriptor. Guarded by `registryLock`.
    var foreignRuns: ForeignRunPointer?
    /// The kernel event sources that have a descriptor. Guarded by `registryLock`.
    var kernelEvents: KernelEventPointer?
    /// Those that became invalid in the child of `fork`, each with a reference to its source. Guarded by `registryLock`.
    var lostEvents: KernelEventPointer?
    /// inotify, for the sources of files.
    var notifier: Notifier
    /// For each signal the sources that hear it; made by the first, and never given back. See `Signals`.
    var signals: UnsafeMutablePointer<SignalList>?
    /// Numbers the epoll sets. See `EpollSet.serial`.
    let epollSerial: Atomic<UInt32>
    /// How many threads are in the library's signal handler.
    let signalHandlers: Atomic<Int>
    /// What tells the wake-up descriptor from other eventfds; 0: there was none yet. Written once under `registryLock`, before
    /// `wakeDescriptor`.
    var wakeMark: UInt64
    /// How many epoll sets there are. Guarded by `registryLock`.
    var wakeDescriptorUsers: Int
    /// The shared sets of source callbacks. Guarded by `registryLock`.
    var callbackTable: CallbackTable
    /// All Mach-like ports, and those that have a descriptor. Guarded by `registryLock`.
    var machPorts: MachPortPointer?
    var machPortTable: MachPortTable
    /// The valid message ports. Guarded by `messagePortLock`.
    var messagePorts: MessagePortPointer?
    /// What watches for the end of their peers, nil if nothing is watched. Guarded by `messagePortLock`.
    var messagePortMonitor: UnsafeMutablePointer<MessagePortMonitor>?
    /// The valid sockets by descriptor. Guarded by `registryLock`.
    var sockets: SocketTable
    /// `RLSocketSetDefaultNameRegistryPortNumber`, xor the number it has at first.
    let nameRegistryPort: Atomic<UInt16>
    /// The key whose destructor tells of a thread's end.
    var threadKey: pthread_key_t
    /// What the lines of the log go to; nil: standard error. Guarded by `logLock`.
    var logHandler: LogHandler?
    var logInfo: UnsafeMutableRawPointer?
    /// libdispatch's main queue, once attached.
    var mainQueue: MainQueue
}

typealias LogHandler = @convention(c) (UnsafePointer<CChar>, UnsafeMutableRawPointer?) -> Void

/// The one `Process`.
@inline(__always)
var process: UnsafeMutablePointer<Process> {
    rl_process().assumingMemoryBound(to: Process.self)
}
