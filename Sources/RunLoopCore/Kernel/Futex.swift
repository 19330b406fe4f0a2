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
    /// True if another thread woke this one.
    @discardableResult
    func futexWait(while value: UInt32, until: Int64 = .max) -> Bool {
        withUnsafePointer(to: self) { word in
            if until == .max { return rl_futex_wait(word, value, nil) == 0 }
            var time = timespec(nanoseconds: until)
            return rl_futex_wait(word, value, &time) == 0
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
