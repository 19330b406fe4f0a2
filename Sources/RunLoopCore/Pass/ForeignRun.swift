// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

extension UnsafeMutablePointer where Pointee == ForeignRun {
    var isValid: Bool { pointee.isValidFlag.load(ordering: .acquiring) }

    /// Makes the descriptor readable.
    func rouse() {
        if pointee.set.isOpen { EpollSet.rouse(pointee.set.descriptor) }
    }

    /// The thread is inside a callback of its loop, and the callback runs the host: this run cannot go on before the callback
    /// returns, but runs nested in the callback can serve the mode.
    var isNested: Bool {
        pointee.isBusy || pointee.loop.pointee.frame != (pointee.phase == .idle ? nil : pointee.frame)
    }

    // MARK: The three calls

    /// Makes the steps of a pass before its wait, unless they have been made. Returns the seconds until a dispatch has something
    /// to do because time has passed: 0 for now, infinity for never.
    func prepare() -> Double {
        guard isUsable else { return .infinity }
        takeLoopReference()
        beginUse()
        defer { endUse() }
        let loop = pointee.loop
        if loop.pointee.asleepOutside == self {
            let isAsleep = loop.pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.asleepInEpoll
            let mayBeLost = pointee.seenLosses != process.pointee.losses.load(ordering: .relaxed)
            if isAsleep && !mayBeLost && (pointee.timer >= 0 || pointee.armedFor == Clock.never) { return secondsLeft }
            loop.leaveSleepOutside()
        }
        if !isNested { advance() }
        return isValid ? sleep() : .infinity
    }

    /// Makes the steps of a pass after its wait, if the wait is over. nil if the run goes on.
    func dispatch() -> RunResult? {
        guard isUsable else { return nil }
        beginUse()
        defer { endUse() }
        if isNested {
            dispatchNested()
            return nil
        }
        if pointee.phase != .waiting {
            // A thread may rouse the set late, for a wake-up that was taken before this sleep: the next one forgets that.
            pointee.loop.leaveSleepOutside()
            _ = prepare()
        }
        guard isValid, pointee.phase != .idle else { return nil }
        pointee.loop.leaveSleepOutside()
        if pointee.phase == .stoppedInEntry { return finish(.stopped) }
        return endPass()
    }

    /// Makes one nested pass, if there is something to do in the mode.
    private func dispatchNested() {
        if prepare() > 0 && readiness(of: pointee.set.descriptor, .read, believed: .read).isEmpty { return }
        let loop = pointee.loop
        loop.leaveSleepOutside()
        loop.takeWakeUp(handingTo: loop.pointee.frame)
        _ = loop.run(in: .named(pointee.mode.pointee.name), seconds: 0, returnsAfterSource: false)
        rouse()
    }

    /// Client code has returned. It may have run the host, which may have left the loop asleep.
    func endCallbacks() {
        pointee.isBusy = false
        // It may be asleep in another run, made after this one became invalid: that run's host has to look again.
        if let other = pointee.loop.pointee.asleepOutside, other != self { other.rouse() }
        pointee.loop.leaveSleepOutside()
    }

    /// Ends the run, with its Exit observers, and closes the descriptors. In a callback of the run itself, or of one nested in
    /// it, the run ends when the callback returns to it.
    func invalidate() {
        guard pointee.loop.isCurrent else {
            Log.once(.foreignRunOnOtherThread, "RLForeignRun", ": not the thread that made it; ignored")
            return
        }
        guard pointee.isValidFlag.exchange(false, ordering: .acquiringAndReleasing) else { return }
        beginUse()
        defer { endUse() }
        if pointee.loop.pointee.asleepOutside == self { pointee.loop.leaveSleepOutside() }
        if !pointee.isBusy && (pointee.phase == .idle || !isNested) { return end() }
        pointee.frame.pointee.stopRequested = true
        if pointee.loop.pointee.frame == pointee.frame { pointee.loop.stop() }
    }

    /// A run that was nested in the wait is over. The descriptor has been readable since it began.
    func innerRunEnded() {
        if pointee.isBusy { return }
        if !isValid { return end() }
        if waits { pointee.loop.pointee.waiting.store(true, ordering: .releasing) }
    }

    /// The run is not valid any more and its own code is not on the stack.
    func end() {
        // The client may have given its reference back in a callback of the run nested in this one.
        beginUse()
        defer { endUse() }
        if pointee.phase != .idle { _ = finish(.stopped) }
        closeDescriptors()
        dropLoopReference()
    }

    private var isUsable: Bool {
        guard isValid else { return false }
        if pointee.loop.isCurrent { return !pointee.loop.pointee.refusesRuns.load(ordering: .relaxed) }
        Log.once(.foreignRunOnOtherThread, "RLForeignRun", ": not the thread that made it; ignored")
        return false
    }

    /// Whether the current pass has a wait that is not a poll.
    var waits: Bool { pointee.phase == .waiting && !pointee.half.handledSource && !pointee.half.skipsWait }

    // MARK: Parts of a pass

    /// Goes on to the wait of a pass, if there is something in the mode.
    func advance() {
        if pointee.phase == .idle { begin() }
        if pointee.phase == .between { startPass() }
    }

    /// E1 and E2, if there is something in the mode.
    private func begin() {
        let loop = pointee.loop
        let mode = pointee.mode
        guard mode.pointee.exists.load(ordering: .acquiring), loop.hasWork(in: mode) else { return }
        pointee.frame.initialize(to: RunFrame(outer: nil, mode: mode, returnsAfterSource: false, polls: false))
        pointee.frame.pointee.foreign = self
        pointee.phase = .between
        pointee.isFirstPass = true
        pointee.isBusy = true
        loop.beginRun(pointee.frame)
        if loop.manualClock != nil { loop.endRest() }
        loop.notify(.entry, in: mode)
        endCallbacks()
        if !isValid { return end() }
        if loop.isStopRequested(pointee.frame) { pointee.phase = .stoppedInEntry }
        if pointee.frame.pointee.endsAfterPass { loop.stop() }
    }

    private func startPass() {
        pointee.isBusy = true
        pointee.half = pointee.loop.passToWait(pointee.frame, isFirst: pointee.isFirstPass)
        pointee.loop.tellHeld()
        pointee.common = pointee.frame.pointee.common
        endCallbacks()
        pointee.isFirstPass = false
        pointee.phase = .waiting
        if waits {
            // Also where the mode had no observers: the host's callbacks may add some while it waits.
            pointee.frame.pointee.wait.begin(.beforeWaiting)
            pointee.loop.pointee.waiting.store(true, ordering: .releasing)
        }
        if !isValid { end() }
    }

    /// P10, without waiting, and the steps after it if the wait is over.
    private func endPass() -> RunResult? {
        let loop = pointee.loop
        let frame = pointee.frame
        frame.pointee.now = 0
        frame.pointee.wasWoken = false
        let half = pointee.half
        if !half.skipsWait { loop.pointee.waiting.store(true, ordering: .releasing) }
        // The wait may call the log handler, which may do what a callback may.
        pointee.isBusy = true
        let wait = loop.waitOfHost(frame, half)
        let isOver = half.skipsWait || half.handledSource || loop.isStopRequested(frame)
        if case .none = wait.event, !isOver, !frame.pointee.wasWoken {
            endCallbacks()
            _ = sleep()
            return isValid ? nil : .stopped
        }
        let result = loop.passFromWait(frame, half, wait)
        endCallbacks()
        pointee.phase = .between
        if !isValid {
            end()
            return .stopped
        }
        if let result { return finish(result) }
        frame.pointee.wait = .ahead  // The host may run the loop before the next pass.
        rouse()
        return nil
    }

    /// E3
    private func finish(_ result: RunResult) -> RunResult {
        let loop = pointee.loop
        pointee.isBusy = true
        loop.pointee.waiting.store(false, ordering: .releasing)
        loop.notify(.exit, in: pointee.mode)
        if Trace.isWanted { loop.recordRun(.runEnd) }
        loop.endRun(pointee.frame)
        endCallbacks()
        pointee.phase = .idle
        if isValid { rouse() } else { closeDescriptors(); dropLoopReference() }
        return result
    }
}
