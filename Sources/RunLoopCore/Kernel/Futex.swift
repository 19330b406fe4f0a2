// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The kernel's wait queue behind a word of memory. See futex(2).
///
/// An `Atomic` never moves while it is borrowed, so its address identifies the futex.
extension Atomic where Value == UInt32 {
    /// Sleeps while the word holds `value`, until the monotonic instant `until` if there is one (`Int64.max`: none).
    ///
    /// It may return spuriously; the caller looks at the word again.
    func futexWait(while value: UInt32, until: Int64 = .max) {
        withUnsafePointer(to: self) { word in
            if until == .max {
                _ = rl_futex_wait(word, value, nil)
            } else {
                var time = timespec(nanoseconds: until)
                _ = rl_futex_wait(word, value, &time)
            }
        }
    }

    /// Wakes one sleeper. Async-signal-safe except for errno, which the caller saves.
    @inline(never)  // Each of the many places that release a lock would get a copy.
    func futexWakeOne() {
        withUnsafePointer(to: self) { _ = rl_futex_wake($0, 1) }
    }

    func futexWakeAll() {
        withUnsafePointer(to: self) { _ = rl_futex_wake($0, .max) }
    }
}

extension timespec {
    init(nanoseconds: Int64) {
        let clamped = max(nanoseconds, 0)
        self.init(tv_sec: Int(clamped / 1_000_000_000), tv_nsec: Int(clamped % 1_000_000_000))
    }
}
