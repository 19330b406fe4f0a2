// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// The clocks that timers can go by.

extension Timer {
    /// The clock that measures the time until a timer's date.
    public enum TimerClock: Sendable, Hashable {
        /// It stops while the machine is suspended, and setting the system's clock does not move the timer: that of all other timers.
        case monotonic
        /// It goes on while the machine is suspended; setting the system's clock does not move the timer (S-TMR-60).
        case boot
        /// The date as the system shows it; the timer follows it wherever it is set (S-TMR-59).
        case wall

        var number: RLTimerClock {
            switch self {
            case .monotonic: .monotonic
            case .boot: .boot
            case .wall: .wall
            }
        }
    }

    /// The clock that the timer was made with; `monotonic` for timers made without one.
    ///
    /// - Threads: any. CF: no counterpart.
    public var timerClock: TimerClock {
        switch RLTimerGetClock(reference) {
        case .boot: .boot
        case .wall: .wall
        default: .monotonic
        }
    }
}
