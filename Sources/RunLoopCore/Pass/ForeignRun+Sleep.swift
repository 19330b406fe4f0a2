// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The sleep of a foreign run: the loop counts as asleep in the run's set while its thread is the host's.
extension UnsafeMutablePointer where Pointee == ForeignRun {
    /// Lets the loop sleep in the set, unless something ends the wait at once: then it makes the set readable and returns 0.
    func sleep() -> Double {
        let loop = pointee.loop
        // After a fork that found no room for descriptors.
        guard pointee.set.open() else { return Double(Clock.retryDelay) / 1e9 }
        leaveBusyPolling()
        while true {
            let isWoken = loop.readWake() == WakeState.wakeUp
            if !isNested && pointee.phase == .idle {
                // A loop that is not running forgets wake-ups (S-WAKE-5), but what they announced may be there to run.
                loop.takeWakeUp(handingTo: nil)
                advance()
                if !isValid { return .infinity }
                if pointee.phase != .idle { continue }
            }
            lookAtCommon()
            let look = look(isWoken: isWoken)
            if !isNested && loop.hasProblems(look) && callOutProblems(look) {
                if !isValid { return .infinity }
                continue
            }
            guard case .sleep(let until) = look.decide() else {
                if loop.manualClock != nil { loop.endRest() }
                rouse()
                return 0
            }
            arm(until)
            guard !pointee.set.isLost(&pointee.seenLosses) && pointee.set.forgetRousing() else { return sleepInNewSet() }
            loop.pointee.sleepingEpoll.store(pointee.set.descriptor, ordering: .releasing)
            let clock = loop.manualClock
            clock?.expectSettled()
            guard loop.fallAsleep(WakeState.asleepInEpoll) else { continue }
            loop.pointee.asleepOutside = self
            loop.noteSleep(begins: true)
            clock?.tellSettled()
            // A call that makes an inbox ready pushes it and then checks whether the loop sleeps; so one of the two sees the other.
            if look.has(.hasInboxes) && loop.pointee.signalled.load(ordering: .sequentiallyConsistent) != nil {
                loop.leaveSleepOutside()
                continue
            }
            return secondsLeft
        }
    }

    /// As in a run's own wait. One that is nested in a callback has no frame.
    private func lookAtCommon() {
        if !isNested {
            if pointee.phase != .idle { _ = pointee.loop.hasMetCommon(pointee.frame) }
        } else if pointee.loop.meetCommon(pointee.mode, &pointee.common) {
            pointee.loop.wakeUp()
        }
    }

    /// What the loop's own wait does before it sleeps: hours may pass before the host dispatches. True if client code may have run, which
    /// may have run the host or made this run invalid.
    @inline(never)
    private func callOutProblems(_ look: Look) -> Bool {
        pointee.isBusy = true
        let mayHaveCalled = pointee.loop.callOutProblems(look)
        endCallbacks()
        if !isValid { end() }
        if waits { pointee.loop.pointee.waiting.store(true, ordering: .releasing) }
        return mayHaveCalled
    }

    /// In a callback of a busy-polling run no thread would rouse this sleep. A wake-up that needed no write may have come before it.
    private func leaveBusyPolling() {
        let loop = pointee.loop
        guard loop.pointee.busyPolling.isOn else { return }
        loop.endBusyPolling(handingTo: loop.pointee.frame)
        loop.wakeUp()
    }

    /// The descriptor was closed, or names another file (S-FD-18).
    @inline(never)
    private func sleepInNewSet() -> Double {
        Losses.note()
        pointee.set.forget()
        closeTimer()
        pointee.watchedSerial = 0
        return sleep()
    }

    private func look(isWoken: Bool) -> Look {
        let loop = pointee.loop
        let now = loop.time
        // The work of the loop's own run has to wait until the callback returns.
        var ends = isWoken
        if !isNested {
            let frame = pointee.frame
            ends = pointee.phase != .idle && (isWoken || !waits || frame.pointee.wait == .aheadAndWoken || loop.isStopRequested(frame))
        }
        var look = loop.look(in: pointee.mode, ends: ends, deadline: Clock.never, isOfHost: true, goesOn: !isWoken && !ends) { now }
        // This wait moves no clock, so it may begin without an answer of the kernel (S-CLK-9).
        look.facts.remove(.pollsFirst)
        if look.has(.hasPorts) && look.set.isOpen && !watches(look.set) {
            look.until = Swift.min(look.until, Clock.now() + Clock.retryDelay)
        }
        if look.has(.isRefused) && !look.set.isOpen { forgetSetOfMode() }
        return look
    }

    /// Makes sure that the mode's set is in the run's. False if the kernel refuses that.
    private func watches(_ epoll: EpollSet) -> Bool {
        // The kernel has removed a set that was closed.
        if epoll.serial == pointee.watchedSerial { return true }
        switch pointee.set.register(epoll.descriptor, events: EPOLLIN.rawValue, token: ForeignRun.modeToken) {
        case .added, .replaced:
            pointee.watchedSerial = epoll.serial
            return true
        case .refused, .alwaysReady, .later: return false
        }
    }

    /// The mode has no set, and the kernel has removed the former one, or a set that is not asked for now (`PortSet.isHaunted`).
    private func forgetSetOfMode() {
        if pointee.watchedSerial == 0 { return }
        pointee.loop.lock()
        pointee.set.unregister(pointee.mode.pointee.ports.epoll.descriptor)
        pointee.loop.unlock()
        pointee.watchedSerial = 0
    }

    private func arm(_ until: Int64) {
        guard until != pointee.armedFor || (until != Clock.never && until <= Clock.now()) else { return }
        var time = until == Clock.never ? timespec() : timespec(nanoseconds: Swift.max(until, 1))
        pointee.armedFor = until
        if !hasTimer { renewTimer() }
        if rl_arm_marked_timer(pointee.timer, pointee.timerMark, &time) == 0 { return }
        // Without a timer only the host's own wait ends in time; the next prepare tries again. One that has expired stays readable unless it is read.
        var expirations: UInt64 = 0
        if pointee.timer >= 0 { rl_sys_read(pointee.timer, &expirations, 8) }
        pointee.armedFor = Swift.min(until, Clock.now() + Clock.retryDelay)
    }

    var secondsLeft: Double {
        let until = pointee.armedFor
        return until == Clock.never ? .infinity : Double(Swift.max(until - Clock.now(), 0)) / 1e9
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The thread does something other than the wait that the foreign loop makes. A later look finds what was missed.
    func wakeFromOutside() {
        guard let run = pointee.asleepOutside else { return }
        leaveSleepOutside()
        run.rouse()
    }

    @inline(never)
    func leaveSleepOutside() {
        guard pointee.asleepOutside != nil else { return }
        pointee.asleepOutside = nil
        getUp(from: WakeState.asleepInEpoll)
        if manualClock != nil { endRest() }
    }
}
