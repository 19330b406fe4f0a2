// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The state that all parts of the core share in a process. It lies in zeroed static memory (`rl_process`), so that there is no lazily
/// initialised global that a signal handler could find half initialised. Each part's own process-wide state lies in such memory too:
/// `Registry`, `Notifier` and the like.
struct Process: ~Copyable {
    /// Guards process-wide state that has no lock of its own, where a comment says so. Taken after a loop's lock.
    let registryLock: SharedLock
    /// Guards the log handler.
    let logLock: Lock
    /// Held while a thread checks and reads a counter, if the kernel cannot read it without waiting. See `takeCount`.
    let counterLock: Lock

    /// The latest instant given to a timer that was made due. See `Clock.dueNow`.
    let lastDueInstant: Atomic<Int64>
    /// For how many counts of the processor's counter a reading of the clocks is valid: `rl_counts_of_moment`, 0 before the first reading.
    /// Sequentially consistent where it is set, relaxed elsewhere. See `Clock.wallOffset`, also for the next three.
    let counts: Atomic<UInt64>
    /// Nanoseconds for each count, as the bits of a `Double`, and the last measurement of it; 0: not known yet. Relaxed: numbers that
    /// order nothing.
    let rate: Atomic<UInt64>
    let measuredRate: Atomic<UInt64>
    /// Grows when the wall clock may have been set. Released by the thread that has read that clock, acquired by the threads that read it then.
    let wallSteps: Atomic<UInt32>
    /// How far the boot clock is ahead of the monotonic one. See `Clock.bootOffset`.
    let bootOffset: Atomic<Int64>
    /// Whether membarrier(2) is available, so that locks may be biased. Relaxed: a thread with a stale value notices when the barrier fails.
    let canBias: Atomic<Bool>
    /// Whether it was available at load or after a fork. Becomes true once.
    let couldBias: Atomic<Bool>
    /// Bits of `LoggedOnce`: lines that are logged once per process. Relaxed: bits that order nothing.
    let logged: Atomic<UInt32>
    /// The eventfd, always readable, that wakes loops that sleep in epoll. Made under `registryLock` and released, so that a thread that
    /// loads it acquires `wakeMark`; a thread that finds it lost replaces it without the lock. See `EpollSet`.
    let wakeDescriptor: Atomic<Int32>
    /// Sets may lack the current wake-up descriptor, because it replaced one that was lost. Relaxed: stored before
    /// `wakeDescriptor`, which orders it.
    let wakeWasReplaced: Atomic<Bool>
    /// How many clocks that the program moves were ever made. Relaxed: a thread that uses one has made it or received it.
    let manualClocks: Atomic<UInt>
    /// Counts the beginnings and ends of calls that move one. Sequentially consistent, like `RunLoop.lastMove`.
    let clockCalls: Atomic<Int64>
    /// Counts what was lost, or may have been; each loop looks at it before it sleeps. Sequentially consistent where it is changed, so that a loop which
    /// is roused after that sees it.
    let losses: Atomic<UInt32>
    /// A descriptor was lost since a loop last looked, which logs that (S-FD-18), or `tellLost` has other work.
    let lostDescriptor: Atomic<Bool>
    /// Ends sources that lost their kernel objects and logs that; also begins requested sharing and listens to clock changes again. True if there
    /// was anything to do. Called, without a lock, by a loop that finds `lostDescriptor` set. Written when the library is loaded.
    var tellLost: (@convention(c) () -> Bool)?
    /// `RLSetReleaseOfBoxes_`, as an address. Relaxed: it is set before any context has it.
    let releaseOfBoxes: Atomic<UInt>
    /// The process had other threads at a fork, and the parent had when this process was forked: then the loader's list of libraries may be
    /// as a thread that does not exist was changing it. Relaxed: the first passes from the forking thread to itself in the child, the second is
    /// written there.
    let hasForkedThreads: Atomic<Bool>
    let mayBeTorn: Atomic<Bool>
    /// How many forks lie between the process that loaded the library and this one.
    let forkGeneration: Atomic<UInt32>
    /// The process's number, which is that of its initial thread, cached so that the kernel need not be asked. Relaxed: written at load and in
    /// the child of `fork`, while only one thread can read it.
    let number: Atomic<Int32>
    /// Set by the first use of a loop in this core, after a look for other cores. Released and acquired: each thread that continues
    /// knows that the check was made.
    let claimed: Atomic<Bool>

    /// Guarded by `registryLock`.
    var closingNumbers: RecordList<ClosingNumber>

    /// Numbers the epoll sets. See `EpollSet.serial`.
    let epollSerial: Atomic<UInt32>
    /// Distinguishes the wake-up descriptor from other eventfds; 0: there was none yet. Written once under `registryLock`, before
    /// `wakeDescriptor`.
    var wakeMark: UInt64
    /// How many epoll sets there are. Guarded by `registryLock`.
    var wakeDescriptorUsers: Int
    /// Guards the set of `OwnFiles`, except as said there, and how many sources use it. Taken before `registryLock`.
    let ownFilesLock: Lock
    var ownFiles: EpollSet
    var ownFilesUsers: Int
    /// `RLSocketSetDefaultNameRegistryPortNumber`, xor the initial number.
    let nameRegistryPort: Atomic<UInt16>
    /// The key whose destructor is called when a thread ends.
    var threadKey: pthread_key_t
    /// The function that gets the lines of the log; nil: standard error. Guarded by `logLock`.
    var logHandler: LogHandler?
    var logInfo: UnsafeMutableRawPointer?

    /// Whether the loader's list of libraries is whole in any case.
    var maySearchLibraries: Bool { !mayBeTorn.load(ordering: .relaxed) }
}

typealias LogHandler = @convention(c) (UnsafePointer<CChar>, UnsafeMutableRawPointer?) -> Void

/// The one `Process`.
@inline(always)
var process: UnsafeMutablePointer<Process> {
    rl_process().assumingMemoryBound(to: Process.self)
}

/// What the program has closed of the library's (S-FD-18).
enum Losses {
    @inline(never)
    static func note() {
        process.pointee.lostDescriptor.store(true, ordering: .sequentiallyConsistent)
        noteSuspicion()
    }

    /// The number of a set may be another's.
    static func noteSuspicion() { process.pointee.losses.wrappingAdd(1, ordering: .sequentiallyConsistent) }

    /// Whether a descriptor was lost since the last such call.
    static func take() -> Bool { process.pointee.lostDescriptor.exchange(false, ordering: .sequentiallyConsistent) }
}
