// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

extension Timer: Object {
    static var type: ObjectType { .timer }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLTimer"
        kind.pointee.destroy = { Timer.destroy($0.cast(to: Timer.self)) }
        kind.pointee.describe = .init { $0.cast(to: Timer.self).describe(&$1) }
        kind.pointee.release = { $0.cast(to: Timer.self).release() }
        kind.pointee.retainCount = { $0.cast(to: Timer.self).retainCount }
        kind.pointee.forkChild = { RunLoop.ofThread?.adoptTimers() }
        kind.pointee.usesContextInChild = { $0.cast(to: Timer.self).isFiringOnThisThread }
    }

    /// There is no reference left and no loop has the timer, which thereby becomes invalid (S-TMR-48).
    @inline(never)
    static func destroy(_ timer: TimerPointer) {
        if timer.followsClock { timer.leaveFollowers() }
        if let callbacks = timer.details.pointee.callbacks {
            if timer.isValid {
                timer.pointee.state.bitwiseOr(TimerState.invalid, ordering: .relaxed)
                timer.header.pointee.references.store(ObjectHeader.ending, ordering: .relaxed)
                timer.context.releaseInfo()
            }
            Callbacks.release(callbacks)
        }
        timer.header.markFreed()
        CRunLoopLinux.free(timer.details.pointee.rare)
        CRunLoopLinux.free(timer)
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    @inline(never)
    static func make(date: Double, interval: Double, order: Int, callout: TimerFunction?, context: ClientContext) -> TimerPointer {
        var context = context
        context.adopt()
        let repeats = interval > 0
        let timer = allocate(repeats: repeats)
        timer.initialize(to: Timer(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)), state: Atomic(repeats ? TimerState.repeats : 0),
            memberships: 0, owner: Atomic(.none), instant: 0))
        timer.firstNode.initialize(to: TimerNode())
        timer.details.initialize(to: TimerDetails(
            fireDate: 0, callout: callout, info: context.info, callbacks: context.sharedFunctions(), rare: nil))
        if repeats { timer.grid.initialize(to: TimerGrid(interval: interval, wallOffset: 0, fraction: 0)) }
        timer.setDate(date)
        if order != 0 { timer.makeRarities().pointee.order = order }
        timer.initializeHeader()
        return timer
    }

    /// Drops a client's reference. The loop the timer is in, and the thread that calls it, keep it without a count, which is visible only under their
    /// lock: so the last reference is dropped under that lock, and the thread that then takes the timer out destroys it.
    func release() {
        var count = header.pointee.references.load(ordering: .relaxed)
        while count > 1 {
            if header.pointee.references.replace(&count, by: count - 1) { return }
        }
        forgetVanishedLoop()
        let owner = lockTimer()
        // Its callback may retain it meanwhile, or, if several references are dropped at once, another thread may be here too.
        var isLast = !isKept && header.pointee.references.load(ordering: .acquiring) == 1
        if !isLast {
            let left = header.pointee.references.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue
            isLast = left == 0 && !isKept
        }
        unlockTimer(owner)
        if isLast { Timer.destroy(self) }
    }

    /// Releases the context of a timer that has become invalid, and ends one that nobody uses any more. `isLast`: its references are zero, and what the
    /// client's `release` does with it must not end it once more.
    @inline(never)
    func finish(releasing context: ClientContext, isLast: Bool) {
        if isLast { header.pointee.references.store(ObjectHeader.ending, ordering: .relaxed) }
        context.releaseInfo(of: header)
        if isLast { Timer.destroy(self) }
    }

    /// Whether it is not needed any more. The owner's lock is held; if so, the caller destroys it without the lock.
    @inline(always) var isAbandoned: Bool { !isKept && header.pointee.references.load(ordering: .acquiring) == 0 }

    /// Whether a loop keeps it. The owner's lock is held.
    var isKept: Bool { isInLoop || isFiring }

    /// What `RLGetRetainCount` returns: the clients' references and the loop's.
    var retainCount: Int {
        forgetVanishedLoop()
        let owner = lockTimerInACall()
        defer { unlockTimerInACall(owner) }
        return Int(header.pointee.references.load(ordering: .relaxed)) + (isInLoop ? 1 : 0)
    }

    @inline(always) var context: ClientContext { ClientContext(info: details.pointee.info, sharedFunctions: details.pointee.callbacks) }

    var isValid: Bool { pointee.state.load(ordering: .acquiring) & TimerState.invalid == 0 }
    var isFiring: Bool { pointee.state.load(ordering: .acquiring) & TimerState.firing != 0 }
    /// Sets the date and its instant (S-TMR-6 to 9). The owner's lock is held.
    @inline(always)
    func setDate(_ date: Double) {
        let reading = Clock.instant(ofDate: date)
        details.pointee.fireDate = date > Clock.latestDate ? Clock.latestDate : date
        pointee.instant = reading.instant
        if repeats {
            grid.pointee.wallOffset = reading.wallOffset
            grid.pointee.fraction = 0
        }
    }

    /// After the fire of a reusable one-shot (S-TMR-57). The owner's lock is held.
    @inline(never)
    func disarm() {
        details.pointee.fireDate = .nan
        pointee.instant = Clock.never
    }

    /// Moves a repeating timer to the first instant of the grid that is later than `now`, in one step however late it is
    /// (S-TMR-29, S-TMR-32). The owner's lock is held. Returns how many instants were left out.
    func advance(past now: Int64) -> Double {
        if pointee.instant == Clock.never { return 0 }
        let step = Swift.min(Swift.max(grid.pointee.interval * 1e9, 1), Clock.longestInterval * 1e9)
        let fraction = grid.pointee.fraction
        // Two times of the wall clock may be farther apart than an `Int64` holds.
        let late = now &- pointee.instant
        let lateness = (late < 0 && now > pointee.instant ? Double(UInt64(bitPattern: late)) : Double(late)) - fraction
        var count = lateness < 0 ? 1 : (lateness / step).wholePart + 1
        var distance = count * step + fraction
        var whole = distance.nearest
        // The division may be off by an ulp or two of the lateness: the next instant is later than now.
        while pointee.instant &+ whole <= now {
            count += Swift.max((lateness.ulp / step).wholePart, 0) + 1
            distance = count * step + fraction
            whole = distance.nearest
        }
        pointee.instant &+= whole
        grid.pointee.fraction = distance < 9e18 ? distance - Double(whole) : 0
        details.pointee.fireDate = (Double(pointee.instant + grid.pointee.wallOffset) + grid.pointee.fraction) / 1e9
        return count - 1
    }
}

extension Double {
    /// The value without its fraction, for values below 2^63; no call into libm.
    @inline(always) fileprivate var wholePart: Double { self < 9e18 ? Double(Int64(self)) : self }
    /// The nearest whole number of a positive value, modulo 2^64. Above 9e18 all are whole.
    @inline(always) fileprivate var nearest: Int64 { self < 9e18 ? rl_whole(self + 0.5) : Int64(bitPattern: UInt64(self)) }
}

extension UnsafeMutablePointer where Pointee == Timer {
    fileprivate func describe(_ text: inout TextBuffer) {
        let context = context
        text.beginUse(of: header, context.copyDescription)
        // Under the lock an Invalidate that comes later finds that the timer is being described.
        let owner = lockTimerInACall()
        let isValid = isValid
        let date = isValid ? details.pointee.fireDate : 0
        let instant = pointee.instant
        let now = time(by: owner)
        let order = order
        let tolerance = tolerance
        let function = CallOutKind.of(header, nil).function
        unlockTimerInACall(owner)
        text.append("next fire date = ", date)
        if isValid, instant != Clock.never, let now {
            text.append(" (in ", Double(instant &- now) / 1e9)
            text.append(" s)")
        }
        text.append(", interval = ", interval)
        text.append(", tolerance = ", tolerance)
        if clock != .monotonic { text.append(clock == .wall ? ", clock = wall" : ", clock = boot") }
        text.append(", order = ", order)
        text.append(", valid = ", isValid)
        text.appendCallback(at: function)
        text.appendInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil)
    }
}
