// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The loops of the process.
struct Registry: ~Copyable {
    /// The main thread's loop. Set once, and again in the child of `fork`. Released and acquired for the record; sequentially consistent
    /// with `MainQueue.state`.
    let mainLoop: Atomic<RunLoopPointer?>
    /// The main thread has ended without a loop: a loop made for it later belongs to an ended thread. Guarded by the registry's
    /// lock, like all the following fields.
    var mainThreadHasEnded: Bool
    /// Loops that were freed, linked by `nextPooled`; their memory is never unmapped.
    var freeLoops: RunLoopPointer?
    /// How many there are. Changed under the registry's lock; relaxed for a reader that only asks whether there are many.
    let pooledCount: Atomic<Int>
    /// All records of loops that were ever allocated, linked by `olderRecord`: those in use, those in the pool, and those on their
    /// way from one to the other.
    var loopRecords: RunLoopPointer?
    /// The one mode of all vanished loops, which never has anything in it. Written in the child of `fork` while it has one thread.
    var vanishedMode: ModePointer?

    /// How many loops in the pool keep the memory that each loop has from the start.
    static var spareLimit: Int { 64 }
}

/// The one `Registry`; `Process.registryLock` guards it.
@inline(always)
var registry: UnsafeMutablePointer<Registry> { rl_registry().assumingMemoryBound(to: Registry.self) }
