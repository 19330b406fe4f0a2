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
    object(clock, as: ManualClock.self, "RLClockAdvance")?.advance(by: seconds)
}

@c @implementation
public func RLClockAdvanceToNext(_ clock: OpaquePointer?) -> Bool {
    object(clock, as: ManualClock.self, "RLClockAdvanceToNext")?.advanceToNext() ?? false
}

@c @implementation
public func RLClockGetTime(_ clock: OpaquePointer?) -> Double {
    object(clock, as: ManualClock.self, "RLClockGetTime")?.date ?? Double(Clock.wallNow()) / 1e9
}

@c @implementation
public func RLClockSetWallTime(_ clock: OpaquePointer?, _ date: Double) {
    guard let clock = object(clock, as: ManualClock.self, "RLClockSetWallTime"), !date.isNaN else { return }
    clock.setWallTime(date)
    clock.followClocks()
}

@c @implementation
public func RLClockSuspend(_ clock: OpaquePointer?, _ seconds: Double) {
    guard let clock = object(clock, as: ManualClock.self, "RLClockSuspend") else { return }
    clock.suspend(for: seconds)
    clock.followClocks()
}

@c @implementation
public func RLClockSetAutomatic(_ clock: OpaquePointer?, _ isAutomatic: Bool) {
    object(clock, as: ManualClock.self, "RLClockSetAutomatic")?.setAutomatic(isAutomatic)
}

@c @implementation
public func RLSetClock(_ rl: OpaquePointer?, _ clock: OpaquePointer?) -> Bool {
    let clock = object(clock, as: ManualClock.self, "RLSetClock")
    return object(rl, as: RunLoop.self, "RLSetClock")?.setClock(clock) ?? false
}

@c @implementation
public func RLGetClock(_ rl: OpaquePointer?) -> OpaquePointer? {
    object(rl, as: RunLoop.self, "RLGetClock")?.pointee.clock.load(ordering: .acquiring)?.handle
}
