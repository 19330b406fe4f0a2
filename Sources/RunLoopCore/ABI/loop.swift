// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

// The functions of <runloop/loop.h>.

@c @implementation
public func RLGetTypeID() -> UInt { UInt(ObjectType.runLoop.rawValue) }

@c @implementation
public func RLGetCurrent() -> OpaquePointer { RunLoop.current().handle }

@c @implementation
public func RLGetCurrentIfMade() -> OpaquePointer? { RunLoop.currentIfMade()?.handle }

@c @implementation
public func RLGetMain() -> OpaquePointer { RunLoop.main().handle }

@c @implementation
public func RLCopyCurrentMode(_ rl: OpaquePointer?) -> UnsafeMutablePointer<CChar>? {
    object(rl, as: RunLoop.self, "RLCopyCurrentMode")?.copyCurrentMode()
}

@c @implementation
public func RLCopyAllModes(
    _ rl: OpaquePointer?, _ count: UnsafeMutablePointer<Int>?
) -> UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? {
    count?.pointee = 0
    return object(rl, as: RunLoop.self, "RLCopyAllModes")?.copyAllModes(count)
}

@c @implementation
public func RLAddCommonMode(_ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    object(rl, as: RunLoop.self, "RLAddCommonMode")?.addCommonMode(ModeName(mode))
}

@c @implementation
public func RLGetNextTimerFireDate(_ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?) -> Double {
    object(rl, as: RunLoop.self, "RLGetNextTimerFireDate")?.nextTimerFireDate(ModeName(mode)) ?? 0
}

@c @implementation
public func RLRunGetWait_(_ loop: OpaquePointer, _ outer: Int, _ change: UInt8, _ mode: UnsafeMutablePointer<UnsafePointer<CChar>>) -> UInt8 {
    var next = RunLoopPointer(loop).pointee.frame
    var left = outer
    while left != 0 {
        next = next.unsafelyUnwrapped.pointee.outer
        left &-= 1
    }
    guard let frame = next else { return 0 }
    if change != 0 { frame.pointee.wait = unsafeBitCast(change &- 1, to: WaitState.self) }
    mode.pointee = UnsafePointer(frame.pointee.mode.pointee.name)
    let wait = unsafeBitCast(frame.pointee.wait, to: UInt8.self) &+ 1
    guard let foreign = frame.pointee.foreign, !foreign.pointee.isBusy else { return wait }
    return wait | 16
}

@c @implementation
public func RLRun() {
    let loop = RunLoop.current()
    while true {
        switch loop.run(in: .named(kRLDefaultMode), seconds: .infinity, returnsAfterSource: false) {
        case .finished, .stopped: return
        case .timedOut, .handledSource: break
        }
    }
}

@c @implementation
public func RLRunInMode(_ mode: UnsafePointer<CChar>?, _ seconds: Double, _ returnAfterSourceHandled: Bool) -> RLRunResult {
    let result = RunLoop.current().run(in: ModeName(mode), seconds: seconds, returnsAfterSource: returnAfterSourceHandled)
    return RLRunResult(rawValue: result.rawValue).unsafelyUnwrapped
}

@c @implementation
public func RLIsModeEmpty(_ mode: UnsafePointer<CChar>?) -> Bool {
    let loop = RunLoop.current()
    guard let mode = loop.runnableMode(ModeName(mode)) else { return true }
    return loop.isModeEmpty(mode)
}

@c @implementation
public func RLIsWaiting(_ rl: OpaquePointer?) -> Bool {
    object(rl, as: RunLoop.self, "RLIsWaiting")?.pointee.waiting.load(ordering: .acquiring) ?? false
}

@c @implementation
public func RLWakeUp(_ rl: OpaquePointer?) {
    object(rl, as: RunLoop.self, "RLWakeUp")?.wakeUp()
}

@c @implementation
public func RLStop(_ rl: OpaquePointer?) {
    guard let loop = object(rl, as: RunLoop.self, "RLStop") else { return }
    if Trace.isWanted { Trace.tell(.stop, loop, caller: rl_caller()) }
    loop.stop()
}

@c @implementation
public func RLSetSpinLimit(_ rl: OpaquePointer?, _ seconds: Double) {
    guard let loop = object(rl, as: RunLoop.self, "RLSetSpinLimit") else { return }
    let limit = seconds > 0 ? min(seconds, 0.001) : 0
    loop.pointee.spinLimit.store(Clock.nanoseconds(limit), ordering: .relaxed)
}

@c @implementation
public func RLSetPassLimit(_ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?, _ count: Int) {
    guard let loop = object(rl, as: RunLoop.self, "RLSetPassLimit"), !loop.pointee.closing.load(ordering: .relaxed) else { return }
    func set(_ mode: ModePointer) {
        let old = mode.pointee.passLimit.load(ordering: .relaxed)
        // If it fails another thread has set one since, and that is the later one.
        if old >= 0 { _ = mode.pointee.passLimit.compareExchange(expected: old, desired: Swift.max(count, 0), ordering: .relaxed) }
    }
    switch ModeName(mode) {
    case .none: return
    case .common: loop.forEachCommonMode(set)
    case .named(let name): set(loop.makeMode(name))
    }
}

@c @implementation
public func RLGetPassLimit(_ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?) -> Int {
    guard let loop = object(rl, as: RunLoop.self, "RLGetPassLimit"), case .named(let name) = ModeName(mode), let mode = loop.modeRecord(name)
    else { return 0 }
    return Swift.max(mode.pointee.passLimit.load(ordering: .relaxed), 0)
}
