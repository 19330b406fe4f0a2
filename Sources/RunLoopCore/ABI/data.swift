// SPDX-License-Identifier: MIT
import CRunLoop

// The functions of <runloop/data.h>.

@c @implementation
public func RLDataGetTypeID() -> UInt { UInt(ObjectType.data.rawValue) }

@c @implementation
public func RLDataCreate(_ bytes: UnsafeRawPointer?, _ length: Int) -> OpaquePointer? {
    DataPointer.make(bytes, length)?.handle
}

@c @implementation
public func RLDataGetBytePtr(_ d: OpaquePointer?) -> UnsafeRawPointer? {
    object(d, as: Data.self, "RLDataGetBytePtr").map { UnsafeRawPointer($0.bytes) }
}

@c @implementation
public func RLDataGetLength(_ d: OpaquePointer?) -> Int {
    object(d, as: Data.self, "RLDataGetLength")?.pointee.length ?? 0
}
