// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

/// The Timer filter: a timerfd, by the monotonic clock, the clock that goes on while the system is suspended, or the wall clock.
extension KernelFilter {
    static var timer: KernelFilter {
        KernelFilter(
            number: .timer, open: { $0.openTimer() },
            watched: .init(kind: RL_TIMER, read: { $0.readTimer(&$1) }, renewInChild: .init { $0.renewTimer() }))
    }
}

extension UnsafeMutablePointer where Pointee == KernelEvent {
    private var isAbsolute: Bool { pointee.fflags & Note.absolute.rawValue != 0 }
    private var tellsClockSet: Bool { pointee.fflags & Note.clockSet.rawValue != 0 }
    private var tellsClockSetOnly: Bool { tellsClockSet && !isAbsolute && pointee.amount == 0 }

    private var clock: clockid_t {
        if isAbsolute || tellsClockSet { return CLOCK_REALTIME }
        return pointee.fflags & Note.boot.rawValue != 0 ? CLOCK_BOOTTIME : CLOCK_MONOTONIC
    }

    /// `amount` in nanoseconds, however large.
    private var nanoseconds: Int64 {
        let unit: Int64
        if pointee.fflags & Note.seconds.rawValue != 0 {
            unit = 1_000_000_000
        } else if pointee.fflags & Note.microseconds.rawValue != 0 {
            unit = 1000
        } else {
            unit = pointee.fflags & Note.nanoseconds.rawValue != 0 ? 1 : 1_000_000
        }
        let (product, overflows) = pointee.amount.multipliedReportingOverflow(by: unit)
        // This is the kernel's own limit, about 292 years.
        return overflows ? Int64.max / 2 : product
    }

    fileprivate func openTimer() -> Bool {
        let units = Note.seconds.rawValue | Note.microseconds.rawValue | Note.nanoseconds.rawValue
        let wall = Note.absolute.rawValue | Note.clockSet.rawValue
        let fflags = pointee.fflags
        let isOneUnit = (fflags & units).nonzeroBitCount <= 1
        guard fflags & ~(units | wall | Note.boot.rawValue) == 0, isOneUnit,
            fflags & Note.boot.rawValue == 0 || fflags & wall == 0,
            pointee.amount > 0 || (isAbsolute && pointee.amount == 0) || tellsClockSetOnly
        else { return refuse() }
        if isAbsolute { pointee.flags |= RLKernelEventFlags.oneShot.rawValue }
        return own(makeTimer()) && arm(first: nanoseconds)
    }

    private func makeTimer() -> Int32 { rl_high_number(timerfd_create(clock, Int32(TFD_CLOEXEC | TFD_NONBLOCK))) }

    /// Starts the timer, `first` nanoseconds before it reports, or at its date.
    private func arm(first: Int64) -> Bool {
        // The clock may be set between its reading and the call. Where the kernel reports that at all, the first call makes it do
        // so, and each further one fails if the clock was set since the one before.
        if tellsClockSet { _ = armOnce(first) }
        while !armOnce(first) {
            if !tellsClockSet || rl_errno() != ECANCELED { return false }
        }
        return true
    }

    @inline(never)
    private func armOnce(_ first: Int64) -> Bool {
        var setting = itimerspec()
        let (end, overflows) = Clock.read(clock).addingReportingOverflow(first)
        pointee.due = overflows ? .max : end
        // The kernel reports a set clock only for a timer with a date of the wall clock.
        if tellsClockSetOnly {
            setting.it_value.tv_sec = 1 << 33  // In the year 2242.
        } else {
            setting.it_value = timespec(nanoseconds: isAbsolute ? Swift.max(nanoseconds, 1) : pointee.due)
        }
        if pointee.flags & RLKernelEventFlags.oneShot.rawValue == 0 && !tellsClockSetOnly {
            setting.it_interval = timespec(nanoseconds: nanoseconds)
        }
        let flags = RL_TFD_TIMER_ABSTIME | (tellsClockSet ? RL_TFD_TIMER_CANCEL_ON_SET : 0)
        return timerfd_settime(pointee.descriptor, Int32(flags), &setting, nil) == 0
    }

    /// Caller holds the lock.
    fileprivate func readTimer(_ happened: inout RLKernelEvent) -> Bool {
        var count: UInt64 = 0
        if rl_sys_read(pointee.descriptor, &count, 8) == 8 {
            happened.data = Int64(clamping: count)
            return true
        }
        guard rl_errno() == ECANCELED else { return false }
        // The timer was armed for dates by the former setting of the clock.
        _ = arm(first: nanoseconds)
        happened.fflags = Note.clockSet.rawValue
        return true
    }

    /// In the child of `fork`: a timer with the same time left. A one-shot whose time came, but was not reported, comes again.
    fileprivate func renewTimer() {
        guard pointee.descriptor >= 0 else { return }
        var left = itimerspec()
        var rest: Int64
        if timerfd_gettime(pointee.descriptor, &left) == 0 {
            rest = Int64(left.it_value.tv_sec) * 1_000_000_000 + Int64(left.it_value.tv_nsec)
        } else {
            // A filter may refuse it. The date is one of the parent's clock, which is another in another time namespace.
            rest = pointee.due &- Clock.read(clock)
        }
        if rest < 0 && pointee.flags & RLKernelEventFlags.oneShot.rawValue == 0 && !tellsClockSetOnly {
            rest = nanoseconds - -rest % nanoseconds
        }
        guard renewDescriptor(&pointee.descriptor, { makeTimer() }) else { return }
        _ = arm(first: Swift.max(rest, 1))
    }
}

/// In the child of `fork`: another kernel object under the same number, for which loops will register it. False: none can be
/// made, and the number is -1.
func renewDescriptor(_ number: inout Int32, _ make: () -> Int32) -> Bool {
    var fresh = make()
    if fresh < 0 {
        // No room for two: the old one is closed first. It was the parent's anyway.
        rl_sys_close(number)
        fresh = make()
    }
    if fresh == number { return true }
    guard fresh >= 0, rl_replace_in_child(number, fresh) >= 0 else {
        if fresh >= 0 { rl_sys_close(fresh) }
        rl_sys_close(number)
        number = -1
        return false
    }
    rl_sys_close(fresh)
    return true
}
