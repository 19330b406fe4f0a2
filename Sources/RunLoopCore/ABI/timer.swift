// SPDX-License-Identifier: MIT
import CRunLoop
import Synchronization

// The functions of <runloop/timer.h>.

@c @implementation
public func RLTimerGetTypeID() -> UInt { UInt(ObjectType.timer.rawValue) }

@c @implementation
public func RLTimerCreate(
    _ fireDate: Double, _ interval: Double, _ flags: UInt, _ order: Int, _ callout: RLTimerCallBack?,
    _ context: UnsafeMutablePointer<RLTimerContext>?
) -> OpaquePointer? {
    if interval.isNaN { return nil }
    return TimerPointer.make(
        date: fireDate, interval: max(interval, 0), order: order, callout: callout, context: ClientContext(context)
    ).handle
}

@c @implementation
public func RLTimerGetNextFireDate(_ t: OpaquePointer?) -> Double {
    guard let timer = object(t, as: Timer.self, "RLTimerGetNextFireDate") else { return 0 }
    let owner = timer.lockTimer()
    defer { timer.unlockTimer(owner) }
    return timer.isValid ? timer.details.pointee.fireDate : 0
}

@c @implementation
public func RLTimerSetNextFireDate(_ t: OpaquePointer?, _ fireDate: Double) {
    object(t, as: Timer.self, "RLTimerSetNextFireDate")?.setNextFireDate(fireDate)
}

@c @implementation
public func RLTimerGetInterval(_ t: OpaquePointer?) -> Double {
    object(t, as: Timer.self, "RLTimerGetInterval")?.interval ?? 0
}

@c @implementation
public func RLTimerDoesRepeat(_ t: OpaquePointer?) -> Bool {
    object(t, as: Timer.self, "RLTimerDoesRepeat")?.repeats ?? false
}

@c @implementation
public func RLTimerGetOrder(_ t: OpaquePointer?) -> Int {
    guard let timer = object(t, as: Timer.self, "RLTimerGetOrder") else { return 0 }
    let owner = timer.lockTimer()
    defer { timer.unlockTimer(owner) }
    return timer.order
}

@c @implementation
public func RLTimerInvalidate(_ t: OpaquePointer?) {
    object(t, as: Timer.self, "RLTimerInvalidate")?.invalidate()
}

@c @implementation
public func RLTimerIsValid(_ t: OpaquePointer?) -> Bool {
    object(t, as: Timer.self, "RLTimerIsValid")?.isValid ?? false
}

@c @implementation
public func RLTimerGetContext(_ t: OpaquePointer?, _ context: UnsafeMutablePointer<RLTimerContext>?) {
    guard let timer = object(t, as: Timer.self, "RLTimerGetContext"), let context else { return }
    let own = timer.context
    context.pointee = RLTimerContext(own, isValid: timer.isValid)
}

@c @implementation
public func RLTimerGetTolerance(_ t: OpaquePointer?) -> Double {
    guard let timer = object(t, as: Timer.self, "RLTimerGetTolerance") else { return 0 }
    let owner = timer.lockTimer()
    defer { timer.unlockTimer(owner) }
    return timer.tolerance
}

@c @implementation
public func RLTimerSetTolerance(_ t: OpaquePointer?, _ tolerance: Double) {
    guard let timer = object(t, as: Timer.self, "RLTimerSetTolerance") else { return }
    let owner = timer.lockTimer()
    let wanted = tolerance > 0 ? tolerance : 0
    let tolerance = timer.repeats ? min(wanted, timer.grid.pointee.interval / 2) : wanted
    let former = timer.tolerance
    let isShorter = tolerance < former
    if tolerance != former { timer.makeRarities().pointee.tolerance = tolerance }
    timer.unlockTimer(owner)
    // A wait may have begun with the longer one.
    if isShorter, let owner, owner.mayBeAsleep { owner.lookAgain() }
}

@c @implementation
public func RLContainsTimer(_ rl: OpaquePointer?, _ t: OpaquePointer?, _ mode: UnsafePointer<CChar>?) -> Bool {
    guard let loop = object(rl, as: RunLoop.self, "RLContainsTimer"), let timer = object(t, as: Timer.self, "RLContainsTimer")
    else { return false }
    return loop.containsTimer(timer, in: ModeName(mode))
}

@c @implementation
public func RLAddTimer(_ rl: OpaquePointer?, _ t: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    guard let loop = object(rl, as: RunLoop.self, "RLAddTimer"), let timer = object(t, as: Timer.self, "RLAddTimer") else {
        return
    }
    loop.addTimer(timer, to: ModeName(mode))
}

@c @implementation
public func RLRemoveTimer(_ rl: OpaquePointer?, _ t: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    guard let loop = object(rl, as: RunLoop.self, "RLRemoveTimer"), let timer = object(t, as: Timer.self, "RLRemoveTimer")
    else { return }
    loop.removeTimer(timer, from: ModeName(mode))
}

@c @implementation
public func RLTimerSetNextFireDelay(_ t: OpaquePointer?, _ seconds: Double) {
    object(t, as: Timer.self, "RLTimerSetNextFireDelay")?.setNextFireDate(seconds, isDelay: true)
}

@c @implementation
public func RLTimerSetReusable(_ t: OpaquePointer?, _ isReusable: Bool) {
    object(t, as: Timer.self, "RLTimerSetReusable")?.setReusable(isReusable)
}

@c @implementation
public func RLTimerCreateWithClock(
    _ clock: RLTimerClock, _ fireDate: Double, _ interval: Double, _ callout: RLTimerCallBack?,
    _ context: UnsafeMutablePointer<RLTimerContext>?
) -> OpaquePointer? {
    guard !interval.isNaN, let clock = TimerClock(rawValue: clock.rawValue) else { return nil }
    return TimerPointer.make(
        date: fireDate, interval: max(interval, 0), clock: clock, callout: callout, context: ClientContext(context)
    ).handle
}

@c @implementation
public func RLTimerGetClock(_ t: OpaquePointer?) -> RLTimerClock {
    let clock = object(t, as: Timer.self, "RLTimerGetClock")?.clock ?? .monotonic
    return RLTimerClock(rawValue: clock.rawValue)!
}
