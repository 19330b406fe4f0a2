// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

extension TimerOwner {
    init(_ loop: RunLoopPointer) { self.init(rawValue: UInt(bitPattern: loop)) }

    var loop: RunLoopPointer? {
        @inline(always) get { address?.assumingMemoryBound(to: RunLoop.self) }
    }
}

/// Which threads may touch a timer's fields: see `TimerOwner`.
extension UnsafeMutablePointer where Pointee == Timer {
    /// Gives the caller the timer's fields: takes the lock of the loop that guards them, which is returned, or claims a timer
    /// that was in none. The timer need not be in that loop.
    @inline(always)
    func lockTimer() -> RunLoopPointer? {
        if let loop = pointee.owner.load(ordering: .acquiring).loop {
            loop.lock(owner: loop.isCurrent)
            if isGuardedNow(by: loop) { return loop }
            loop.unlock()
        }
        return lockTimerSlowly()
    }

    /// The same in less code, for calls whose time matters less.
    @inline(never)
    func lockTimerInACall() -> RunLoopPointer? { lockTimer() }

    @inline(never)
    func unlockTimerInACall(_ loop: RunLoopPointer?) { unlockTimer(loop) }

    @inline(never)
    private func lockTimerSlowly() -> RunLoopPointer? {
        var waiting = GivingWay()
        while true {
            let owner = pointee.owner.load(ordering: .acquiring)
            if let loop = owner.loop {
                loop.lock()
                if isGuardedNow(by: loop) { return loop }
                loop.unlock()  // Another loop's lock guards it by now; each iteration needs such a change by another thread.
            } else if owner.isHeld {
                // Another thread has the fields for a few instructions, with no client code in between.
                waiting.giveWay()
            } else if pointee.owner.compareExchange(expected: owner, desired: .claim, ordering: .acquiring).exchanged {
                return nil
            }
        }
    }

    @inline(always)
    func unlockTimer(_ loop: RunLoopPointer?) {
        if let loop { loop.unlock(owner: loop.isCurrent) } else { pointee.owner.store(.none, ordering: .releasing) }
    }

    /// Whether the loop's lock, which the caller holds, guards the timer.
    @inline(always)
    func isGuarded(by loop: RunLoopPointer) -> Bool { pointee.owner.load(ordering: .acquiring) == TimerOwner(loop) }

    /// The same for a loop that has been the owner before, or is the owner.
    @inline(always)
    func isGuardedNow(by loop: RunLoopPointer) -> Bool { pointee.owner.load(ordering: .relaxed) == TimerOwner(loop) }

    /// Makes a loop's lock, which the caller holds, the one that guards the timer. False if another one does.
    @inline(always)
    func enter(_ loop: RunLoopPointer) -> Bool {
        isGuarded(by: loop) || enterSlowly(loop)
    }

    @inline(never)
    private func enterSlowly(_ loop: RunLoopPointer) -> Bool {
        var expected = TimerOwner.none
        var waiting = GivingWay()
        while true {
            let (exchanged, original) = pointee.owner.compareExchange(
                expected: expected, desired: TimerOwner(loop), ordering: .acquiringAndReleasing)
            if exchanged || original == TimerOwner(loop) { return true }
            if original.loop != nil { return false }
            if original.isHeld { waiting.giveWay() } else { expected = original }  // As in `lockTimer`.
        }
    }
}
