// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

extension ForeignRun: Object {
    /// All runs that have a descriptor, or are in use. The registry's lock guards it.
    fileprivate static var all: UnsafeMutablePointer<RecordList<ForeignRun>> {
        rl_foreign_runs().assumingMemoryBound(to: RecordList<ForeignRun>.self)
    }

    static var type: ObjectType { .foreignRun }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLForeignRun"
        kind.pointee.destroy = { ForeignRun.destroy($0.cast(to: ForeignRun.self)) }
        kind.pointee.describe = .init { $0.cast(to: ForeignRun.self).describe(&$1) }
        kind.pointee.forkChild = { ForeignRun.renewInChild(RunLoop.ofThread) }
    }

    /// Makes a run of a mode of the calling thread's loop; nil with errno if the loop has one already, or if the kernel has no
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
        run.pointee.timerMark = set.serial
        run.pointee.loop = loop
        loop.retain()
        run.pointee.mode = loop.makeModeRecord(name)
        loop.pointee.hasHadForeignRuns = true
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

    @inline(never)
    fileprivate static func makeTimer(in set: EpollSet) -> Int32 {
        let timer = rl_high_number(timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC | TFD_NONBLOCK)))
        guard timer >= 0 else { return -1 }
        var never = timespec()
        if rl_arm_marked_timer(timer, set.serial, &never) == 0, case .added = set.register(timer, events: EPOLLIN.rawValue, token: timerToken) { return timer }
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

    /// In the child of `fork`: the runs of the thread that forked get descriptors of their own, the others end.
    static func renewInChild(_ own: RunLoopPointer?) {
        all.pointee.forEach { run in
            run.closeTimer()
            run.pointee.watchedSerial = 0
            if run.pointee.loop == own && (run.isValid || run.pointee.phase != .idle) {
                run.pointee.set.renewInChild()
                run.makeTimer()
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
    func takeLoopReference() {
        if pointee.isHeld { return }
        pointee.isHeld = true
        retain()
    }

    func dropLoopReference() {
        guard pointee.isHeld else { return }
        pointee.isHeld = false
        release()
    }

    /// Keeps the run during a function that calls the client.
    func beginUse() {
        pointee.uses += 1
        retain()
    }

    @inline(never)
    func endUse() {
        pointee.uses -= 1
        release()
    }

    /// The number still names the timer.
    @inline(never)
    var hasTimer: Bool { pointee.timer >= 0 && rl_is_marked_timer(pointee.timer, pointee.timerMark) }

    fileprivate func makeTimer() {
        pointee.timer = ForeignRun.makeTimer(in: pointee.set)
        pointee.timerMark = pointee.set.serial
    }

    /// The timer is lost, or there was no room for it in the child of `fork`.
    @inline(never)
    func renewTimer() {
        if pointee.timer >= 0 { Losses.note() }
        // The number is another file's, or nothing's: it is not closed.
        makeTimer()
    }

    @inline(never)
    func closeTimer() {
        if hasTimer { rl_sys_close(pointee.timer) }
        pointee.timer = -1
        pointee.armedFor = Clock.never
    }

    func closeDescriptors() {
        closeTimer()
        pointee.set.close()
        // The end of the thread has to find it.
        if pointee.uses > 0 { return }
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        ForeignRun.all.pointee.remove(self)
    }

    /// The loop's thread ends.
    @inline(never)
    fileprivate func abandon() {
        pointee.isValidFlag.store(false, ordering: .releasing)
        pointee.phase = .idle
        // Those of functions that a callback left with its thread. The caller has a reference of its own.
        while pointee.uses > 0 { endUse() }
        closeDescriptors()
        dropLoopReference()
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Two would compete for the loop's one wake word. One that became invalid in a callback of its own has no host any more.
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

    /// The thread ends: no host can wait for it any more.
    func endForeignRuns() {
        if !pointee.hasHadForeignRuns { return }
        pointee.hasHadForeignRuns = false
        while let run = copyForeignRun() {
            if pointee.asleepOutside == run { leaveSleepOutside() }
            if run.pointee.phase != .idle {
                pointee.waiting.store(false, ordering: .releasing)
                tellEnd(StopState.notRunning)
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
