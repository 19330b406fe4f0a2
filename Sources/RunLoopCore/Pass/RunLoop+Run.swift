// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Running the loop: the steps E1 to E3 and P1 to P15 of section 4 of the specification, in its order.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// `RLRunInMode` on the calling thread's loop. Where `until` is given, and `seconds` is above 0, that is the deadline, however long the
    /// Entry observers take.
    @inline(never)
    func run(in name: ModeName, seconds: Double, until: Int64 = Clock.never, returnsAfterSource: Bool) -> RunResult {
        if case .common = name { Log.once(.runOfPseudoMode, "RLRunInMode", ": kRLCommonModes is no mode to run in") }
        guard let mode = runnableMode(name) else { return .finished }
        return run(in: mode, seconds: seconds, until: until, returnsAfterSource: returnsAfterSource)
    }

    /// The same in a mode that can be run.
    func run(in mode: ModePointer, seconds: Double, until: Int64, returnsAfterSource: Bool) -> RunResult {
        guard hasWork(in: mode) else { return .finished }
        var frame = RunFrame(outer: pointee.frame, mode: mode, returnsAfterSource: returnsAfterSource, polls: seconds <= 0)
        if seconds > 0 { frame.deadline = until }
        return withUnsafeMutablePointer(to: &frame) { run($0, seconds) }
    }

    /// The mode of that name on the calling thread's loop, nil if it cannot be run (S-RUN-4, S-LOOP-22).
    func runnableMode(_ name: ModeName) -> ModePointer? {
        guard case .named(let name) = name, mayRun else { return nil }
        return mode(name)
    }

    /// The test before a run (S-RUN-5). Wake-ups from before it are dropped, or belong to the runs around (S-WAKE-5, S-WAKE-6, S-WAKE-9).
    /// One that comes later ends the first wait: the mode may have lost its last item before it (S-RUN-7).
    func hasWork(in mode: ModePointer) -> Bool {
        endBusyPolling(handingTo: pointee.frame)
        takeWakeUp(handingTo: pointee.frame)
        return !isModeEmpty(mode)
    }

    private func run(_ frame: RunFramePointer, _ seconds: Double) -> RunResult {
        let mode = frame.pointee.mode

        beginRun(frame)  // E1
        Clock.enterRun(true)
        // A thread that has seen the loop not running may still be taking it along.
        if manualClock != nil { endRest() }
        notify(.entry, in: mode)
        if seconds > 0 && seconds <= Clock.longestInterval && frame.pointee.deadline == Clock.never {
            frame.pointee.deadline = time + Clock.nanoseconds(seconds)
        }

        // E2
        var result: RunResult? = isStopRequested(frame) ? .stopped : nil
        if frame.pointee.endsAfterPass { stop() }
        var isFirstPass = true
        while result == nil {
            result = pass(frame, isFirst: isFirstPass)
            isFirstPass = false
        }

        // E3
        notify(.exit, in: mode)
        if Trace.isWanted { recordRun(.runEnd) }
        endRun(frame)
        return result!
    }

    /// One pass; nil if another one follows.
    @inline(always)
    private func pass(_ frame: RunFramePointer, isFirst: Bool) -> RunResult? {
        let half = passToWait(frame, isFirst: isFirst)
        return passFromWait(frame, half, wait(frame, half))  // P10
    }

    /// The steps before the wait.
    @inline(always)
    func passToWait(_ frame: RunFramePointer, isFirst: Bool) -> HalfPass {
        let mode = frame.pointee.mode
        Clock.beginCallbacks()
        pointee.counters.passes.count()
        if Trace.isWanted { record(.pass, item: UInt(bitPattern: mode)) }

        // P1. What came since the last wait is served by this pass anyway (S-WAKE-4); what came in Entry stays (S-WAKE-3).
        if !isFirst {
            // The test at the end of the last pass may not have seen that the mode lost its last item before the wake-up (S-RUN-7), which
            // a run of the host's may have taken.
            let isWoken = takeWakeUp(handingTo: frame.pointee.outer) || frame.pointee.wait == .aheadAndWoken
            frame.pointee.wait = isWoken && isModeEmpty(mode) ? .aheadAndWoken : .ahead
        }
        if frame.pointee.common != .seen { frame.pointee.common = mode.pointee.isCommon.load(ordering: .relaxed) ? .seen : .unseen }
        _ = performRequests(of: orderedRequests, in: mode)  // S-PERF-24

        notify(.beforeTimers, in: mode)  // P2
        notify(.beforeSources, in: mode)  // P3
        performPosts(in: mode)  // P4: round A
        var handledSource = performRequests(of: requests, in: mode)  // S-PERF-2
        if isFirst && mode.hasSockets { signalReadySockets(frame) }  // S-SOCK-53
        if performSources(in: mode, onlyFirst: frame.pointee.returnsAfterSource) { handledSource = true }  // P5
        if handledSource { performPosts(in: mode) }  // P6: round B

        let skipsWait = peekMainQueue(frame)  // P8
        if skipsWait {
            // What woke the loop before this is served by the next pass.
            frame.pointee.wait = .over
        } else if !(handledSource || frame.pointee.polls) {
            notify(.beforeWaiting, in: mode)  // P9
        }
        return HalfPass(handledSource: handledSource, skipsWait: skipsWait)
    }

    /// The steps after the wait.
    @inline(always)
    func passFromWait(_ frame: RunFramePointer, _ half: HalfPass, _ wait: Wait) -> RunResult? {
        let mode = frame.pointee.mode
        var handledSource = half.handledSource
        var isOld = false
        if wait.kind != .skipped {
            Clock.beginCallbacks()
            if pointee.waiting.load(ordering: .relaxed) { pointee.waiting.store(false, ordering: .releasing) }  // P11
            frame.pointee.wait = .over
            if wait.kind == .waited { pointee.counters.waits.count() }
            isOld = wait.kind == .waited && isObserved(.afterWaiting, in: mode)
            if wait.kind == .waited { notify(.afterWaiting, in: mode) }  // P12
        }

        switch wait.event {  // P13
        case .none: break
        case .timers:
            fireTimers(in: mode, now: dueLimit(readClock(frame)))
        case .port(let token, let ready):
            if performPort(token, ready, in: mode, mayBeDrained: isOld) { handledSource = true }
        case .inbox:
            if performInbox(in: mode) { handledSource = true }
        case .mainQueue:
            if drainMainQueue(frame) { handledSource = true }
        }
        performPosts(in: mode)  // P14: round C

        // P15 (S-RUN-9)
        if (handledSource && frame.pointee.returnsAfterSource) || frame.pointee.hasReply { return .handledSource }
        if frame.pointee.polls { return .timedOut }
        if frame.pointee.deadline != Clock.never && readClock(frame) >= frame.pointee.deadline { return .timedOut }
        if isStopRequested(frame) { return .stopped }
        if isEmpty(mode) { return .finished }
        return nil
    }

    /// S-RUN-2, S-GCD-3. Loop's thread.
    @inline(always)
    private func isEmpty(_ mode: ModePointer) -> Bool {
        lock(owner: true)
        let hasNoItems = mode.hasNoItems
        unlock(owner: true)
        return hasNoItems && !hasPosts(for: mode) && !hasRequests(for: mode) && !servesMainQueue(in: mode)
    }

    /// The same, for code that is not a part of each pass.
    @inline(never)
    func isModeEmpty(_ mode: ModePointer) -> Bool { isEmpty(mode) }

    func beginRun(_ frame: RunFramePointer) {
        if isAttended { beginAttended(frame) }
        if pointee.asleepOutside != nil {
            wakeFromOutside()
            pointee.waiting.store(false, ordering: .releasing)
        }
        if pointee.stop.exchange(StopState.running, ordering: .sequentiallyConsistent) == StopState.stopRequested {
            frame.pointee.outer?.pointee.stopRequested = true
        }
        // The published end of the wait does not apply to two runs (S-WAKE-14).
        if frame.pointee.outer != nil { pointee.sleepsUntil.store(Clock.never, ordering: .relaxed) }
        pointee.frame = frame
        pointee.runs &+= 1
        pointee.counters.runs.count()
        pointee.currentMode.store(frame.pointee.mode, ordering: .releasing)
        if Trace.isWanted { recordRun(.runBegin) }
    }

    @inline(never)
    private func beginAttended(_ frame: RunFramePointer) {
        frame.pointee.pausedCall = pauseWatch()
        if isEnding { beginAtEnd(frame) }
    }

    @inline(never)
    func recordRun(_ kind: TraceKind) { record(kind, item: UInt(bitPattern: pointee.currentMode.load(ordering: .relaxed))) }

    func endRun(_ frame: RunFramePointer) {
        let outer = frame.pointee.outer
        Clock.enterRun(outer != nil && outer!.pointee.foreign == nil)
        endBusyPolling(handingTo: outer)
        pointee.currentMode.store(outer?.pointee.mode, ordering: .releasing)
        pointee.frame = outer
        if pointee.asleepOutside != nil { wakeFromOutside() }
        if let call = frame.pointee.pausedCall { resumeWatch(call) }
        guard let outer else { return tellEnd(StopState.notRunning) }
        pointee.stop.store(outer.pointee.stopState, ordering: .sequentiallyConsistent)
        if let foreign = outer.pointee.foreign { foreign.innerRunEnded() }
    }

    /// The loop does not run any more, or may not.
    @inline(never)
    func tellEnd(_ state: UInt32) {
        let clock = manualClock
        clock?.expectSettled()
        pointee.stop.store(state, ordering: .sequentiallyConsistent)
        _ = clock?.settle(self)
    }

    /// The thread has left its runs without an end. A foreign run that was not on the stack goes on in destructors: it still has its frame.
    func abandonRuns(atEnd: Bool) {
        var frame = atEnd ? nil : pointee.frame
        while let current = frame, current.pointee.foreign == nil || current.pointee.foreign!.pointee.isBusy { frame = current.pointee.outer }
        pointee.frame = frame
        pointee.currentMode.store(frame?.pointee.mode, ordering: .releasing)
        if !isRunning { return }
        Clock.enterRun(false)
        tellEnd(frame?.pointee.stopState ?? StopState.notRunning)
        abandonMoves()
    }
}
