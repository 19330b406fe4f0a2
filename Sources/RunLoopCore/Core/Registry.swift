// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// The loops of the process.
struct Registry: ~Copyable {
    /// The main thread's loop. Set once, and anew in the child of `fork`. Released and acquired for the record; sequentially consistent
    /// with `MainQueue.state`.
    let mainLoop: Atomic<RunLoopPointer?>
    /// The main thread has ended without a loop: one that is made for it later is that of an ended thread. Guarded by the registry's
    /// lock, as all that follow.
    var mainThreadHasEnded: Bool
    /// Loops that were freed, linked by `nextPooled`; their memory is never unmapped.
    var freeLoops: RunLoopPointer?
    /// All records of loops that were ever allocated, linked by `olderRecord`: those in use, those in the pool, and those on their
    /// way between.
    var loopRecords: RunLoopPointer?
    /// The one mode of all vanished loops, which never has anything in it. Written in the child of `fork` while it has one thread.
    var vanishedMode: ModePointer?
}

/// The one `Registry`; `Process.registryLock` guards it.
@inline(always)
var registry: UnsafeMutablePointer<Registry> { rl_registry().assumingMemoryBound(to: Registry.self) }
