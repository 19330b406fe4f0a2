import CRunLoop
import Synchronization

// The functions of <runloop/loop.h>.

@_cdecl("RLGetTypeID") @implementation
public func RLGetTypeID() -> UInt { UInt(ObjectType.runLoop.rawValue) }

@_cdecl("RLGetCurrent") @implementation
public func RLGetCurrent() -> OpaquePointer { RunLoop.current().handle }

@_cdecl("RLGetCurrentIfMade") @implementation
public func RLGetCurrentIfMade() -> OpaquePointer? { RunLoop.currentIfMade()?.handle }

@_cdecl("RLGetMain") @implementation
public func RLGetMain() -> OpaquePointer { RunLoop.main().handle }

@_cdecl("RLCopyCurrentMode") @implementation
public func RLCopyCurrentMode(_ rl: OpaquePointer?) -> UnsafeMutablePointer<CChar>? {
    object(rl, as: RunLoop.self, "RLCopyCurrentMode")?.copyCurrentMode()
}

@_cdecl("RLCopyAllModes") @implementation
public func RLCopyAllModes(
    _ rl: OpaquePointer?, _ count: UnsafeMutablePointer<Int>?
) -> UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? {
    count?.pointee = 0
    return object(rl, as: RunLoop.self, "RLCopyAllModes")?.copyAllModes(count)
}

@_cdecl("RLAddCommonMode") @implementation
public func RLAddCommonMode(_ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    object(rl, as: RunLoop.self, "RLAddCommonMode")?.addCommonMode(ModeName(mode))
}

@_cdecl("RLGetNextTimerFireDate") @implementation
public func RLGetNextTimerFireDate(_ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?) -> Double {
    object(rl, as: RunLoop.self, "RLGetNextTimerFireDate")?.nextTimerFireDate(ModeName(mode)) ?? 0
}

@_cdecl("RLRun") @implementation
public func RLRun() {
    let loop = RunLoop.current()
    while true {
        switch loop.run(in: .named(kRLDefaultMode), seconds: .infinity, returnsAfterSource: false) {
        case .finished, .stopped: return
        case .timedOut, .handledSource: break
        }
    }
}

@_cdecl("RLRunInMode") @implementation
public func RLRunInMode(_ mode: UnsafePointer<CChar>?, _ seconds: Double, _ returnAfterSourceHandled: Bool) -> RLRunResult {
    let result = RunLoop.current().run(in: ModeName(mode), seconds: seconds, returnsAfterSource: returnAfterSourceHandled)
    return RLRunResult(rawValue: result.rawValue).unsafelyUnwrapped
}

@_cdecl("RLIsModeEmpty") @implementation
public func RLIsModeEmpty(_ mode: UnsafePointer<CChar>?) -> Bool {
    RunLoop.current().runnableMode(ModeName(mode)) == nil
}

@_cdecl("RLIsWaiting") @implementation
public func RLIsWaiting(_ rl: OpaquePointer?) -> Bool {
    object(rl, as: RunLoop.self, "RLIsWaiting")?.pointee.waiting.load(ordering: .acquiring) ?? false
}

@_cdecl("RLWakeUp") @implementation
public func RLWakeUp(_ rl: OpaquePointer?) {
    object(rl, as: RunLoop.self, "RLWakeUp")?.wakeUp()
}

@_cdecl("RLStop") @implementation
public func RLStop(_ rl: OpaquePointer?) {
    object(rl, as: RunLoop.self, "RLStop")?.stop()
}

@_cdecl("RLSetSpinLimit") @implementation
public func RLSetSpinLimit(_ rl: OpaquePointer?, _ seconds: Double) {
    guard let loop = object(rl, as: RunLoop.self, "RLSetSpinLimit") else { return }
    let limit = seconds > 0 ? min(seconds, 0.001) : 0
    loop.pointee.spinLimit.store(Clock.nanoseconds(limit), ordering: .relaxed)
}
