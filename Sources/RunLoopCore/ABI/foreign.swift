// SPDX-License-Identifier: MIT
import CRunLoop

// The functions of <runloop/foreign.h>.

@c @implementation
public func RLForeignRunGetTypeID() -> UInt { UInt(ObjectType.foreignRun.rawValue) }

@c @implementation
public func RLForeignRunCreate(_ mode: UnsafePointer<CChar>?) -> OpaquePointer? {
    switch ModeName(mode) {
    case .none: return nil
    case .common:
        Log.once(.foreignRunOfPseudoMode, "RLForeignRunCreate", ": kRLCommonModes is no mode to run in")
        return nil
    case .named(let name): return ForeignRun.make(name)?.handle
    }
}

@c @implementation
public func RLForeignRunGetDescriptor(_ run: OpaquePointer?) -> Int32 {
    guard let run = object(run, as: ForeignRun.self, "RLForeignRunGetDescriptor"), run.isValid else { return -1 }
    return run.pointee.set.descriptor
}

@c @implementation
public func RLForeignRunPrepare(_ run: OpaquePointer?) -> Double {
    object(run, as: ForeignRun.self, "RLForeignRunPrepare")?.prepare() ?? .infinity
}

@c @implementation
public func RLForeignRunDispatch(_ run: OpaquePointer?) -> RLRunResult {
    let result = object(run, as: ForeignRun.self, "RLForeignRunDispatch")?.dispatch()
    return RLRunResult(rawValue: result?.rawValue ?? 0).unsafelyUnwrapped
}

@c @implementation
public func RLForeignRunInvalidate(_ run: OpaquePointer?) {
    object(run, as: ForeignRun.self, "RLForeignRunInvalidate")?.invalidate()
}

@c @implementation
public func RLForeignRunIsValid(_ run: OpaquePointer?) -> Bool {
    object(run, as: ForeignRun.self, "RLForeignRunIsValid")?.isValid ?? false
}
