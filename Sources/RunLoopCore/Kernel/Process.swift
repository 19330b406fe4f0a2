// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// What all parts of the core share in a process. It lives in zeroed static memory (`rl_process`), so that there is no lazily
/// made global that a signal handler could meet half made. A part's own state of the process lies in such memory too: `Registry`,
/// `Notifier` and the like.
struct Process: ~Copyable {
    /// Guards whatever the process has one of and no other lock guards; the state that says so. Taken after a loop's lock.
    let registryLock: Lock
    /// Guards the log handler.
    let logLock: Lock
    /// Makes one step of looking at a counter and reading it, where the kernel cannot read it without waiting. See `takeCount`.
    let counterLock: Lock

    /// The newest instant given to a timer that was made due. See `Clock.dueNow`.
    let lastDueInstant: Atomic<Int64>
    /// For how many counts of the processor's counter a reading of the clocks is used: `rl_counts_of_moment`, 0 before the first.
    /// Sequentially consistent where it is set, relaxed elsewhere. See `Clock.wallOffset`, also for the next three.
    let counts: Atomic<UInt64>
    /// Nanoseconds for each count, as the bits of a `Double`, and the last measurement of that; 0: not known yet. Relaxed: numbers that
    /// order nothing.
    let rate: Atomic<UInt64>
    let measuredRate: Atomic<UInt64>
    /// Grows when the wall clock may have been set. Released by who read that clock, acquired by who reads it then.
    let wallSteps: Atomic<UInt32>
    /// Whether membarrier(2) is there, so that locks may be biased. Relaxed: who sees it late finds out by the barrier that fails.
    let canBias: Atomic<Bool>
    /// Whether it was there at load or after a fork. Goes to true once.
    let couldBias: Atomic<Bool>
    /// Bits of `LoggedOnce`: lines that are logged once per process. Relaxed: bits that order nothing.
    let logged: Atomic<UInt32>
    /// The eventfd, always readable, that wakes loops which sleep in epoll. Made under `registryLock` and released, so that who
    /// loads it acquires `wakeMark`; replaced without the lock by who finds it lost. See `EpollSet`.
    let wakeDescriptor: Atomic<Int32>
    /// Sets may be without the present wake-up descriptor, because it took the place of one that was lost. Relaxed: stored before
    /// `wakeDescriptor`, which orders it.
    let wakeWasReplaced: Atomic<Bool>
    /// Whether there was ever a clock that the program moves. Relaxed: a thread that uses one has made it or was given it.
    let hasManualClocks: Atomic<Bool>
    /// A descriptor was lost since a loop last looked; the loop logs that (S-FD-18). Relaxed, as the next: they order nothing.
    let lostDescriptor: Atomic<Bool>
    /// Ends sources that lost their kernel objects and logs that; true if there were any. Called, without a lock, by a loop that finds
    /// `lostDescriptor` set. Written when the library is loaded.
    var tellLost: (@convention(c) () -> Bool)?
    /// How many times this process came out of `fork` as the child.
    let forkGeneration: Atomic<UInt32>
    /// Set by the first use of a loop in this core, after a look for other cores. Released and acquired: each thread that goes on
    /// knows that the look was made.
    let claimed: Atomic<Bool>

    /// Numbers the epoll sets. See `EpollSet.serial`.
    let epollSerial: Atomic<UInt32>
    /// What tells the wake-up descriptor from other eventfds; 0: there was none yet. Written once under `registryLock`, before
    /// `wakeDescriptor`.
    var wakeMark: UInt64
    /// How many epoll sets there are. Guarded by `registryLock`.
    var wakeDescriptorUsers: Int
    /// `RLSocketSetDefaultNameRegistryPortNumber`, xor the number it has at first.
    let nameRegistryPort: Atomic<UInt16>
    /// The key whose destructor tells of a thread's end.
    var threadKey: pthread_key_t
    /// What the lines of the log go to; nil: standard error. Guarded by `logLock`.
    var logHandler: LogHandler?
    var logInfo: UnsafeMutableRawPointer?
}

typealias LogHandler = @convention(c) (UnsafePointer<CChar>, UnsafeMutableRawPointer?) -> Void

/// The one `Process`.
@inline(always)
var process: UnsafeMutablePointer<Process> {
    rl_process().assumingMemoryBound(to: Process.self)
}
