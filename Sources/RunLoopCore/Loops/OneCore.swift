// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// One core per process: a Swift program with its own copy of the core and a C library linked to librunloop.so would have two
/// loops per thread, independent of each other. The first core that is used claims the process; the second one traps.
///
/// Each copy has an ELF note of owner "RunLoop" (onecore.c) with the place of its claim word; so the copies find each other
/// in the list of loaded files, whatever symbols they export.
enum OneCore {
    /// Called before a core makes its first loop.
    static func claim() {
        if process.pointee.claimed.load(ordering: .acquiring) { return }
        // The claim comes before the check of the others: of two cores that do this at once at least one traps.
        rl_core_claim()
        // Not in the child of a fork before the first use: a thread that does not exist there may hold the lock of the list of files for ever.
        if process.pointee.forkGeneration.load(ordering: .relaxed) == 0 && rl_core_claimed_elsewhere() {
            trap("RunLoop", """
                this process has two copies of RunLoop, and the other one is in use already: a Swift program that also \
                loads libraries linked to librunloop.so builds RunLoopKit with the package trait InstalledLibrary
                """)
        }
        if !process.pointee.claimed.exchange(true, ordering: .acquiringAndReleasing) { Trace.startByEnvironment() }
    }
}
