import CLinux
import Synchronization

extension ForeignRun: Object {
    /// All runs that have a descriptor. The registry's lock guards it.
    fileprivate static var all: UnsafeMutablePointer<RecordList<ForeignRun>> {
        rl_foreign_runs().assumingMemoryBound(to: RecordList<ForeignRun>.self)
    }

    static var type: ObjectType { .foreignRun }
    static var kind: Kind {
        Kind(
            name: "RLForeignRun", destroy: { ForeignRun.destroy($0.cast(to: ForeignRun.self)) },
            describe: { $0.cast(to: ForeignRun.self).describe(&$1) },
            forkChild: { ForeignRun.renewInChild(RunLoop.ofThread) })
    }

    /// A run of a mode of the calling thread's loop; nil with errno where the loop has one already, and where the kernel has no
    /// room for its descriptors.
    static func make(_ name: UnsafePointer<CChar>) -> ForeignRunPointer? {
        let loop = RunLoop.current()
        guard !loop.hasForeignRun else {
            rl_set_errno(EBUSY)
            return nil
        }
        var set = EpollSet()
        guard set.open() else { return nil }
        let timer = makeTimer(in: set)
        guard timer >= 0 else {
            let error = rl_errno()
            set.close(isNew: true)
            rl_set_errno(error)
            return nil
        }
        let run = makeRecord(ForeignRun.self)
        run.pointee.loop = loop
        loop.retain()
        run.pointee.mode = loop.makeModeRecord(name)
        run.pointee.frame = UnsafeMutablePointer<RunFrame>.allocate(capacity: 1)
        run.pointee.set = set
        run.pointee.timer = timer
        run.pointee.armedFor = Clock.never
        run.pointee.isValidFlag.store(true, ordering: .relaxed)
        run.initializeHeader()
        process.pointee.registryLock.lockWord()
        all.pointee.insert(run)
        process.pointee.registryLock.unlockWord()
        run.rouse()
        return run
    }

    fileprivate static func makeTimer(in set: EpollSet) -> Int32 {
        let timer = highNumber(timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC | TFD_NONBLOCK)))
        guard timer >= 0 else { return -1 }
        if case .added = set.register(timer, events: EPOLLIN.rawValue, token: timerToken) { return timer }
        rl_sys_close(timer)
        return -1
    }

    /// No run is under way, or the loop would hold a reference.
    static func destroy(_ run: ForeignRunPointer) {
        run.header.markFreed()
        run.closeDescriptors()
        run.pointee.frame.deallocate()
        run.pointee.loop.release()
        free(run)
    }

    /// In the child of `fork`: the runs of the thread that forked get descriptors of their own, the others are over.
    static func renewInChild(_ own: RunLoopPointer?) {
        all.pointee.forEach { run in
            run.closeTimer()
            run.pointee.watchedSerial = 0
            if run.pointee.loop == own {
                run.pointee.set.renewInChild()
                run.pointee.timer = makeTimer(in: run.pointee.set)
                if own?.pointee.asleepOutside == run { own?.leaveSleepOutside() }
                run.rouse()
            } else {
                run.pointee.set.close()
                run.pointee.isValidFlag.store(false, ordering: .relaxed)
            }
        }
    }
}

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
        loop.endRun(pointee.frame)
        endCallbacks()
        pointee.phase = .idle
        if isValid { rouse() } else { closeDescriptors(); dropLoopReference() }
        return result
    }

    // MARK: Life

    private func takeLoopReference() {
        if pointee.isHeld { return }
        pointee.isHeld = true
        retain()
    }

    private func dropLoopReference() {
        guard pointee.isHeld else { return }
        pointee.isHeld = false
        release()
    }

    /// After a fork that found no room for descriptors.
    func renewDescriptors() -> Bool {
        guard pointee.set.open() else { return false }
        if pointee.timer < 0 { pointee.timer = ForeignRun.makeTimer(in: pointee.set) }
        if pointee.timer >= 0 { return true }
        pointee.set.close()
        return false
    }

    func closeTimer() {
        if pointee.timer >= 0 { closeOwn(pointee.timer, RL_TIMER) }
        pointee.timer = -1
        pointee.armedFor = Clock.never
    }

    fileprivate func closeDescriptors() {
        pointee.set.close()
        closeTimer()
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        ForeignRun.all.pointee.remove(self)
    }

    /// The loop's thread ends.
    fileprivate func abandon() {
        pointee.isValidFlag.store(false, ordering: .releasing)
        pointee.phase = .idle
        closeDescriptors()
        dropLoopReference()
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Two would take the loop's one wake word from each other. One that became invalid in a callback of its own is no host's any more.
    fileprivate var hasForeignRun: Bool {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        return foreignRunLocked { $0.isAlive && $0.isValid } != nil
    }

    /// Its run, retained.
    private func copyForeignRun() -> ForeignRunPointer? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        return foreignRunLocked { $0.tryRetain() }
    }

    /// A run that another thread is destroying may still be in the list; that thread closes its descriptors.
    private func foreignRunLocked(where isUsable: (ForeignRunPointer) -> Bool) -> ForeignRunPointer? {
        ForeignRun.all.pointee.first { $0.pointee.loop == self && isUsable($0) }
    }

    /// The thread ends: nobody can make a wait for it any more.
    func endForeignRuns() {
        while let run = copyForeignRun() {
            if pointee.asleepOutside == run { leaveSleepOutside() }
            if run.pointee.phase != .idle {
                pointee.stop.store(StopState.notRunning, ordering: .sequentiallyConsistent)
                pointee.waiting.store(false, ordering: .releasing)
            }
            run.abandon()
            run.release()
        }
    }
}

extension UnsafeMutablePointer where Pointee == ForeignRun {
    fileprivate func describe(_ text: inout TextBuffer) {
        text.append("mode = ")
        text.appendPrintable(pointee.mode.pointee.name)
        text.append(", valid = ", isValid)
    }
}
