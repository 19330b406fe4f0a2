// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// The timer that reports to a service manager that its loop makes passes (S-SDN-2). Otherwise it is like a client's timer.
enum ServiceWatchdog {
    /// nil: no service manager has requested it.
    static func make(date: Double) -> TimerPointer? {
        let microseconds = rl_service_watchdog()
        if microseconds == 0 { return nil }
        let interval = Swift.min(Swift.max(Double(microseconds) / 2e6, 0.001), Clock.longestInterval)
        // The info is the process that is watched: the child of `fork` is not watched.
        let context = ClientContext(info: UnsafeMutableRawPointer(bitPattern: UInt(getpid())))
        let timer = TimerPointer.make(date: date, interval: interval, order: 0, callout: { ServiceWatchdog.tell($0, $1) }, context: context)
        timer.header.setName("service watchdog")
        return timer
    }

    private static func tell(_ timer: OpaquePointer?, _ info: UnsafeMutableRawPointer?) {
        // If the queue is full, the messages in it say the same; the timer fires again.
        if UInt(bitPattern: info) == UInt(getpid()) { _ = rl_service_notify("WATCHDOG=1", false) }
    }
}
