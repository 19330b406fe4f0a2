// SPDX-License-Identifier: MIT
import Synchronization

/// The thread that watches callbacks and the one that hears of clocks were ended with an execution: the next one makes others.
@_cdecl("rlx_forget_threads")
func forgetThreads() {
    Watcher.shared.pointee.isRunning = false
    Watcher.shared.pointee.wakes.store(Clock.never, ordering: .relaxed)
    ClockChanges.shared.pointee.listener.store(ClockListener.none, ordering: .relaxed)
}
