import CRunLoop

// The functions of <runloop/data.h>.

@_cdecl("RLDataGetTypeID") @implementation
public func RLDataGetTypeID() -> UInt { UInt(ObjectType.data.rawValue) }

@_cdecl("RLDataCreate") @implementation
public func RLDataCreate(_ bytes: UnsafeRawPointer?, _ length: Int) -> OpaquePointer? {
    DataPointer.make(bytes, length)?.handle
}

@_cdecl("RLDataGetBytePtr") @implementation
public func RLDataGetBytePtr(_ d: OpaquePointer?) -> UnsafeRawPointer? {
    object(d, as: Data.self, "RLDataGetBytePtr").map { UnsafeRawPointer($0.bytes) }
}

@_cdecl("RLDataGetLength") @implementation
public func RLDataGetLength(_ d: OpaquePointer?) -> Int {
    object(d, as: Data.self, "RLDataGetLength")?.pointee.length ?? 0
}
