// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// Waits for a condition or a lock that run the loop (S-SYNC-22, S-SYNC-23).
///
/// The thread runs the mode with an inbox of its own in it, which the waking thread marks. Runs nested in that one may find the mark:
/// then the run that waits, which is further out, ends as soon as it goes on.
struct ModeWaiter: ~Copyable {
    var waiter: LoopWaiter
    let loop: RunLoopPointer
    let inbox: SourcePointer
    let mode: ModeName
    /// The run around the one that waits.
    let outerFrame: RunFramePointer?
    /// The condition, which counts the waiter; nil for a lock.
    let condition: ConditionPointer?
    /// Of a wait for a lock: the one around it.
    let outerLockWait: LoopWaiterPointer?
    /// It is no longer notified.
    var isOver = false
    /// How many runs of a wait for a lock were stopped, one after the other, before time went on in them.
    var stalls = 0
}

typealias ModeWaiterPointer = UnsafeMutablePointer<ModeWaiter>

/// Not a callback, but callbacks may end the thread during it.
struct ModeWait: CallRecord {
    let waiter: ModeWaiterPointer

    static var kind: CallKind { .modeWait }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Makes a waiter for `word`, in the default mode for NULL and the pseudo-mode. Loop's thread.
    fileprivate func makeModeWaiter(_ word: UnsafeRawPointer, _ mode: ModeName, _ condition: ConditionPointer?) -> ModeWaiterPointer {
        let record = makeRecord(ModeWaiter.self)
        let functions = SourceFunctions(watch: { info, _ in info!.assumingMemoryBound(to: ModeWaiter.self).endRun() })
        let inbox = SourcePointer.makeInbox(order: 0, info: record, functions: functions)
        inbox.becomeOwn()
        // The record's own string: a callback may free the caller's, and another run may follow.
        let name = if case .named(let name) = mode { name } else { kRLDefaultMode }
        let named = ModeName.named(name == kRLDefaultMode ? name : UnsafePointer(addModeRecord(name).pointee.name))
        let waiter = LoopWaiter(
            word: word, thread: RLThisThread_(), told: Atomic(0), isBusy: Atomic(0),
            notify: { $0.cast(to: ModeWaiter.self).pointee.inbox.markReady() }, info: record, mark: inbox.header, next: nil, previous: nil)
        record.initialize(
            to: ModeWaiter(
                waiter: waiter, loop: self, inbox: inbox, mode: named, outerFrame: pointee.frame, condition: condition,
                outerLockWait: pointee.lockWait))
        addSource(inbox, to: named)
        if condition == nil { setLockWait(record.waiter) }
        record.waiter.enlist()
        return record
    }

    fileprivate func setLockWait(_ waiter: LoopWaiterPointer?) {
        pointee.lockWait = waiter
        lock()
        attend(.lockWait, waiter != nil)
        unlock()
    }

    /// Runs the mode until `told` is set, an instant of the loop's clock, or a stop. False if the instant came first; for a lock, whose wait another run
    /// goes on with, also if it came with the stop.
    fileprivate func run(until deadline: Int64, for record: ModeWaiterPointer) -> Bool {
        let begin = time
        let result = run(in: record.pointee.mode, seconds: deadline > begin ? .infinity : 0, until: deadline, returnsAfterSource: false)
        if record.isTold { return true }
        // The second: a mark that came later than the word that it belongs to, which the thread has seen by then. Very many runs that are all stopped
        // before they come on come to their end by the clock.
        if result == .stopped || result == .handledSource {
            record.pointee.stalls = time == begin ? record.pointee.stalls + 1 : 0
            return record.pointee.condition != nil || (record.pointee.stalls < 1000 ? time : watchTime) < deadline
        }
        if result != .finished { return false }
        // The loop does not run any more: its thread ends. A clock that the program moves wakes only running loops, so the thread reads
        // it periodically.
        while !record.isTold && (deadline == Clock.never || watchTime < deadline) {
            let polls = deadline != Clock.never && manualClock != nil
            record.pointee.waiter.told.futexWait(while: 0, until: polls ? Clock.now() + 10_000_000 : deadline)
        }
        return record.isTold
    }

    /// `RLConditionWaitInMode`.
    func wait(for condition: ConditionPointer, in mode: ModeName, until deadline: Int64) -> Bool {
        let word = UnsafeRawPointer(condition.sequenceAddress)
        let record = makeModeWaiter(word, mode, condition)
        condition.pointee.waiters.wrappingAdd(1, ordering: .relaxed)
        condition.mutex.unlockWord()
        let isInTime = call(ModeWait(waiter: record)) { _ in run(until: deadline, for: record) }
        let wasTold = record.end()
        _ = condition.mutex.lockWord()
        return isInTime || wasTold
    }

    /// `RLLockInMode`.
    func takeLock(_ word: SyncWordPointer, in mode: ModeName, until deadline: Int64) -> Bool {
        if word.tryLock() { return true }
        let record = makeModeWaiter(word, mode, nil)
        let isTaken = call(ModeWait(waiter: record)) { _ in
            var isInTime = true
            while true {
                record.pointee.waiter.told.store(0, ordering: .relaxed)
                // The unlocking thread wakes a sleeper, or finds this thread in the list.
                if word.takeAsSleeper() { return true }
                if !isInTime { return false }
                isInTime = run(until: deadline, for: record)
            }
        }
        // A wake-up that came since the last attempt goes to another waiter.
        if record.end() && !isTaken { wakeOne(at: word) }
        return isTaken
    }
}

extension UnsafeMutablePointer where Pointee == ModeWaiter {
    fileprivate var waiter: LoopWaiterPointer { UnsafeMutableRawPointer(self).cast(to: LoopWaiter.self) }
    fileprivate var isTold: Bool { pointee.waiter.told.load(ordering: .acquiring) != 0 }

    /// Ends the run that waits, which may be around the one that finds the mark. On the loop's thread.
    fileprivate func endRun() -> Bool {
        let loop = pointee.loop
        var frame = loop.pointee.frame
        while let current = frame, current.pointee.outer != pointee.outerFrame { frame = current.pointee.outer }
        frame?.pointee.hasReply = true
        // To a run that is nested in it, whose own source it is not, nothing was handled.
        if frame == loop.pointee.frame { return true }
        loop.wakeUp()
        return false
    }

    /// The wait is over. True if `told` was set, and it was not over before.
    @discardableResult
    fileprivate func end() -> Bool {
        let wasTold = leave()
        if pointee.condition == nil { pointee.loop.setLockWait(pointee.outerLockWait) }
        pointee.inbox.invalidate()
        pointee.inbox.release()
        CRunLoopLinux.free(self)
        return wasTold
    }

    /// The waiter is not notified any more, and the memory of the condition not used.
    private func leave() -> Bool {
        if pointee.isOver { return false }
        pointee.isOver = true
        waiter.delist()
        if let condition = pointee.condition { condition.pointee.waiters.wrappingSubtract(1, ordering: .relaxed) }
        return isTold
    }

    /// A callback ends the thread. A wake-up that was meant for it goes to another waiter.
    func giveUp() {
        if !leave() { return }
        if let condition = pointee.condition { condition.wake(1) } else { wakeOne(at: pointee.waiter.word) }
    }

    /// A callback ended the thread.
    func abandon() {
        giveUp()
        end()
    }
}
