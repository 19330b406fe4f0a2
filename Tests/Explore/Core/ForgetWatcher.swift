// SPDX-License-Identifier: MIT
import Synchronization

/// The thread that watches was ended with an execution: the next one makes another.
@_cdecl("rlx_forget_watcher")
func forgetWatcher() {
    Watcher.shared.pointee.isRunning = false
    Watcher.shared.pointee.wakes.store(Clock.never, ordering: .relaxed)
}
