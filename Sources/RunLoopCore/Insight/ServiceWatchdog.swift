// SPDX-License-Identifier: MIT
import CLinux

/// The timer that tells a service manager that its loop turns (S-SDN-2). It is like a client's timer in all else.
enum ServiceWatchdog {
    /// nil: no one asks for it.
    static func make(date: Double) -> TimerPointer? {
        let microseconds = rl_service_watchdog()
        if microseconds == 0 { return nil }
        let interval = Swift.min(Swift.max(Double(microseconds) / 2e6, 0.001), Clock.longestInterval)
        // The info is the process that is watched: the child of `fork` is not.
        let context = ClientContext(info: UnsafeMutableRawPointer(bitPattern: UInt(getpid())))
        let timer = TimerPointer.make(date: date, interval: interval, order: 0, callout: { ServiceWatchdog.tell($0, $1) }, context: context)
        timer.header.setName("service watchdog")
        return timer
    }

    private static func tell(_ timer: OpaquePointer?, _ info: UnsafeMutableRawPointer?) {
        // A full queue has something in it that says the same; the next time comes.
        if UInt(bitPattern: info) == UInt(getpid()) { _ = rl_service_notify("WATCHDOG=1", false) }
    }
}
