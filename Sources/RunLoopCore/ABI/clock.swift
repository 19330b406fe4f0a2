// SPDX-License-Identifier: MIT
import CRunLoop
import Synchronization

// The functions of <runloop/clock.h>.

@c @implementation
public func RLClockGetTypeID() -> UInt { UInt(ObjectType.clock.rawValue) }

@c @implementation
public func RLClockCreateManual() -> OpaquePointer { ManualClock.make().handle }

@c @implementation
public func RLClockAdvance(_ clock: OpaquePointer?, _ seconds: Double) {
    manualClock(clock, "RLClockAdvance")?.advance(by: seconds)
}

@c @implementation
public func RLClockAdvanceToNext(_ clock: OpaquePointer?) -> Bool {
    manualClock(clock, "RLClockAdvanceToNext")?.advanceToNext() ?? false
}

@c @implementation
public func RLClockGetTime(_ clock: OpaquePointer?) -> Double {
    guard let clock = manualClock(clock, "RLClockGetTime") else { return Double(Clock.wallNow()) / 1e9 }
    clock.endMoves()
    return clock.date(of: nil)
}

@c @implementation
public func RLClockSetWallTime(_ clock: OpaquePointer?, _ date: Double) {
    guard let clock = manualClock(clock, "RLClockSetWallTime"), !date.isNaN else { return }
    // The date is that of the time which the caller has seen.
    clock.endMoves()
    clock.setWallTime(date)
    clock.followClocks()
}

@c @implementation
public func RLClockSuspend(_ clock: OpaquePointer?, _ seconds: Double) {
    guard let clock = manualClock(clock, "RLClockSuspend") else { return }
    clock.suspend(for: seconds)
    clock.followClocks()
}

@c @implementation
public func RLClockSetAutomatic(_ clock: OpaquePointer?, _ isAutomatic: Bool) {
    manualClock(clock, "RLClockSetAutomatic")?.setAutomatic(isAutomatic)
}

@c @implementation
public func RLSetClock(_ rl: OpaquePointer?, _ clock: OpaquePointer?) -> Bool {
    let clock = manualClock(clock, "RLSetClock")
    return object(rl, as: RunLoop.self, "RLSetClock")?.setClock(clock) ?? false
}

@c @implementation
public func RLGetClock(_ rl: OpaquePointer?) -> OpaquePointer? {
    object(rl, as: RunLoop.self, "RLGetClock")?.pointee.clock.load(ordering: .acquiring)?.handle
}

/// The clock of a handle. In the child of `fork`, a move that the parent had begun is over.
@inline(never)
private func manualClock(_ clock: OpaquePointer?, _ function: StaticString) -> ManualClockPointer? {
    guard let clock = object(clock, as: ManualClock.self, function) else { return nil }
    clock.finishLostMove()
    return clock
}
