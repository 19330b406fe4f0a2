// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The timer that reports to a service manager that its loop makes passes (S-SDN-2). Otherwise it is like a client's timer.
enum ServiceWatchdog {
    /// nil: no service manager has requested it.
    static func make(date: Double) -> TimerPointer? {
        let microseconds = rl_service_watchdog()
        if microseconds == 0 { return nil }
        let interval = Swift.min(Swift.max(Double(microseconds) / 2e6, 0.001), Clock.longestInterval)
        let context = ClientContext(info: UnsafeMutableRawPointer(bitPattern: watched))
        let timer = TimerPointer.make(date: date, interval: interval, order: 0, callout: { ServiceWatchdog.tell($0, $1) }, context: context)
        timer.header.setName("service watchdog")
        return timer
    }

    /// The process: the child of `fork` is not watched. Its number may be the parent's in another pid namespace.
    private static var watched: UInt { UInt(process.pointee.forkGeneration.load(ordering: .relaxed)) + 1 }

    private static func tell(_ timer: OpaquePointer?, _ info: UnsafeMutableRawPointer?) {
        // If the queue is full, the messages in it say the same; the timer fires again.
        guard UInt(bitPattern: info) == watched, getpid() == process.pointee.number.load(ordering: .relaxed) else { return }
        _ = rl_service_notify("WATCHDOG=1", false)
    }
}
