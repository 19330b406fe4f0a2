// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

extension UnsafeMutablePointer where Pointee == ForeignRun {
    var isValid: Bool { pointee.isValidFlag.load(ordering: .acquiring) }

    /// Makes the descriptor readable.
    func rouse() {
        if pointee.set.isOpen { EpollSet.rouse(pointee.set.descriptor) }
    }

    /// The thread is in the middle of a callback of its loop, which runs the host: this run cannot go on before that returns, but
    /// the mode can be served by runs nested in the callback.
    var isNested: Bool {
        pointee.isBusy || pointee.loop.pointee.frame != (pointee.phase == .idle ? nil : pointee.frame)
    }

    // MARK: The three calls

    /// The steps of a pass before its wait, unless they are made already. The seconds until a dispatch has something to do by
    /// time alone: 0 for at once, infinity for never.
    func prepare() -> Double {
        guard isUsable else { return .infinity }
        takeLoopReference()
        retain()
        defer { release() }
        let loop = pointee.loop
        if loop.pointee.asleepOutside == self {
            if loop.pointee.wake.load(ordering: .sequentiallyConsistent) == WakeState.asleepInEpoll { return secondsLeft }
            loop.leaveSleepOutside()
        }
        if !isNested { advance() }
        return isValid ? sleep() : .infinity
    }

    /// The steps of a pass after its wait, if that is over. nil if the run goes on.
    func dispatch() -> RunResult? {
        guard isUsable else { return nil }
        retain()
        defer { release() }
        if isNested {
            dispatchNested()
            return nil
        }
        if pointee.phase != .waiting { _ = prepare() }
        guard isValid, pointee.phase != .idle else { return nil }
        pointee.loop.leaveSleepOutside()
        if pointee.phase == .stoppedInEntry { return finish(.stopped) }
        return endPass()
    }

    /// One nested pass, if there is something to do in the mode.
    private func dispatchNested() {
        if prepare() > 0 && readiness(of: pointee.set.descriptor, .read).isEmpty { return }
        let loop = pointee.loop
        loop.leaveSleepOutside()
        loop.takeWakeUp(handingTo: loop.pointee.frame)
        _ = loop.run(in: .named(pointee.mode.pointee.name), seconds: 0, returnsAfterSource: false)
        rouse()
    }

    /// Client code has returned. It may have run the host, which may have left the loop asleep.
    private func endCallbacks() {
        pointee.isBusy = false
        // That may be by another run, made after this one became invalid: its host has to look again.
        if let other = pointee.loop.pointee.asleepOutside, other != self { other.rouse() }
        pointee.loop.leaveSleepOutside()
    }

    /// Ends the run, with its Exit observers, and gives the descriptors back. In a callback of the run itself, or of one nested
    /// in it, the run ends when that returns to it.
    func invalidate() {
        guard pointee.loop.isCurrent else {
            return Log.once(.foreignRunOnOtherThread, "RLForeignRun", ": not the thread that made it; ignored")
        }
        guard pointee.isValidFlag.exchange(false, ordering: .acquiringAndReleasing) else { return }
        retain()
        defer { release() }
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
        if pointee.phase != .idle { _ = finish(.stopped) }
        closeDescriptors()
        dropLoopReference()
    }

    private var isUsable: Bool {
        guard isValid else { return false }
        if pointee.loop.isCurrent { return true }
        Log.once(.foreignRunOnOtherThread, "RLForeignRun", ": not the thread that made it; ignored")
        return false
    }

    /// Whether the pass under way has a wait that is no poll.
    var waits: Bool { pointee.phase == .waiting && !pointee.half.handledSource && !pointee.half.skipsWait }

    // MARK: Parts of a pass

    /// To the wait of a pass, if there is something in the mode.
    func advance() {
        if pointee.phase == .idle { begin() }
        if pointee.phase == .between { startPass() }
    }

    /// E1 and E2, if there is something in the mode.
    private func begin() {
        let loop = pointee.loop
        let mode = pointee.mode
        guard mode.pointee.exists.load(ordering: .acquiring), !loop.isEmpty(mode) else { return }
        pointee.frame.initialize(to: RunFrame(outer: nil, mode: mode, returnsAfterSource: false, polls: false))
        pointee.frame.pointee.foreign = self
        pointee.phase = .between
        pointee.isFirstPass = true
        pointee.isBusy = true
        loop.beginRun(pointee.frame)
        loop.notify(.entry, in: mode)
        endCallbacks()
        if !isValid { return end() }
        if loop.isStopRequested(pointee.frame) { pointee.phase = .stoppedInEntry }
    }

    private func startPass() {
        pointee.isBusy = true
        pointee.half = pointee.loop.passToWait(pointee.frame, isFirst: pointee.isFirstPass)
        endCallbacks()
        pointee.isFirstPass = false
        pointee.phase = .waiting
        if waits { pointee.loop.pointee.waiting.store(true, ordering: .releasing) }
        if !isValid { end() }
    }

    /// P10, without waiting, and the steps after it if that is over.
    private func endPass() -> RunResult? {
        let loop = pointee.loop
        let frame = pointee.frame
        frame.pointee.now = 0
        frame.pointee.wasWoken = false
        let half = pointee.half
        let isOver = half.skipsWait || half.handledSource || loop.isStopRequested(frame)
        if !half.skipsWait { loop.pointee.waiting.store(true, ordering: .releasing) }
        let wait = loop.waitOfHost(frame, half)
        if case .none = wait.event, !isOver, !frame.pointee.wasWoken {
            _ = sleep()
            return nil
        }
        pointee.isBusy = true
        let result = loop.passFromWait(frame, half, wait)
        endCallbacks()
        pointee.phase = .between
        if !isValid {
            end()
            return .stopped
        }
        if let result { return finish(result) }
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
