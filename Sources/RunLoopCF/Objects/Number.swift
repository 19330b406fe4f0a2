// SPDX-License-Identifier: MIT
import CRunLoopCF

typealias NumberPointer = UnsafeMutablePointer<RLCFNumber>

/// A number keeps an integer or, if its type is a floating-point one, a double. Constants are such records, too.
extension RLCFNumber: Record {
    static var kind: UInt32 { Kind.number }
    static var mismatch: StaticString { "not a number" }
    static func tearDown(_ record: NumberPointer) {}
}

/// The type of fixed size that a type of C is.
private func fixedType(_ type: Int, _ function: StaticString) -> Int {
    switch type {
    case 1...6: return type
    case 7: return 1
    case 8: return 2
    case 9: return 3
    case 10, 11, 14, 15: return 4
    case 12: return 5
    case 13, 16: return 6
    default: trap(function, "no such type of number")
    }
}

private func isReal(_ type: Int) -> Bool { type == 5 || type == 6 }

@c @implementation
public func RLCFNumberGetTypeID() -> UInt { UInt(Kind.number) }

@c @implementation
public func RLCFNumberCreate(_ handle: OpaquePointer?, _ type: Int, _ value: UnsafeRawPointer?) -> OpaquePointer? {
    let type = fixedType(type, "CFNumberCreate")
    guard let value else { trap("CFNumberCreate", "the value is NULL") }
    guard let number = makeRecord(RLCFNumber.self, allocator(handle, "CFNumberCreate")) else { return nil }
    number.pointee.type = type
    switch type {
    case 1: number.pointee.integer = Int64(value.loadUnaligned(as: Int8.self))
    case 2: number.pointee.integer = Int64(value.loadUnaligned(as: Int16.self))
    case 3: number.pointee.integer = Int64(value.loadUnaligned(as: Int32.self))
    case 4: number.pointee.integer = value.loadUnaligned(as: Int64.self)
    case 5: number.pointee.real = Double(value.loadUnaligned(as: Float.self))
    default: number.pointee.real = value.loadUnaligned(as: Double.self)
    }
    return number.handle
}

@c @implementation
public func RLCFNumberGetType(_ number: OpaquePointer?) -> Int { record(number, RLCFNumber.self, "CFNumberGetType").pointee.type }

@c @implementation
public func RLCFNumberGetByteSize(_ number: OpaquePointer?) -> Int {
    switch record(number, RLCFNumber.self, "CFNumberGetByteSize").pointee.type {
    case 1: return 1
    case 2: return 2
    case 3, 5: return 4
    default: return 8
    }
}

@c @implementation
public func RLCFNumberIsFloatType(_ number: OpaquePointer?) -> UInt8 {
    isReal(record(number, RLCFNumber.self, "CFNumberIsFloatType").pointee.type) ? 1 : 0
}

/// A double without its fraction, as near as 64 bits can come.
private func truncated(_ value: Double) -> Int64 {
    if value.isNaN { return 0 }
    if value >= 0x1p63 { return Int64.max }
    return value < -0x1p63 ? Int64.min : Int64(value)
}

@c @implementation
public func RLCFNumberGetValue(_ handle: OpaquePointer?, _ type: Int, _ result: UnsafeMutableRawPointer?) -> UInt8 {
    let number = record(handle, RLCFNumber.self, "CFNumberGetValue")
    let type = fixedType(type, "CFNumberGetValue")
    guard let result else { trap("CFNumberGetValue", "the result is NULL") }
    let isReal = isReal(number.pointee.type)
    let (integer, real) = (isReal ? truncated(number.pointee.real) : number.pointee.integer, number.pointee.real)
    switch type {
    case 5, 6:
        let value = isReal ? real : Double(integer)
        let isExact = isReal || Int64(exactly: value) == integer
        if type == 6 {
            result.storeBytes(of: value, as: Double.self)
            return isExact ? 1 : 0
        }
        let single = Float(value)
        result.storeBytes(of: single, as: Float.self)
        return isExact && (Double(single) == value || value.isNaN) ? 1 : 0
    default:
        let isExact = !isReal || Double(integer) == real && real < 0x1p63
        var fits = true
        switch type {
        case 1:
            result.storeBytes(of: Int8(truncatingIfNeeded: integer), as: Int8.self)
            fits = Int8(exactly: integer) != nil
        case 2:
            result.storeBytes(of: Int16(truncatingIfNeeded: integer), as: Int16.self)
            fits = Int16(exactly: integer) != nil
        case 3:
            result.storeBytes(of: Int32(truncatingIfNeeded: integer), as: Int32.self)
            fits = Int32(exactly: integer) != nil
        default: result.storeBytes(of: integer, as: Int64.self)
        }
        return isExact && fits ? 1 : 0
    }
}

/// -1, 0 or 1. NaN lies between the negative numbers and the others, so that there is an order of all numbers.
func compare(_ one: NumberPointer, _ two: NumberPointer) -> Int {
    if !isReal(one.pointee.type) && !isReal(two.pointee.type) {
        return one.pointee.integer < two.pointee.integer ? -1 : one.pointee.integer > two.pointee.integer ? 1 : 0
    }
    if isReal(one.pointee.type) && isReal(two.pointee.type) {
        let (a, b) = (one.pointee.real, two.pointee.real)
        if a.isNaN || b.isNaN {
            if a.isNaN && b.isNaN { return 0 }
            return a.isNaN ? (b < 0 ? 1 : -1) : (a < 0 ? -1 : 1)
        }
        return a < b ? -1 : a > b ? 1 : 0
    }
    return isReal(one.pointee.type) ? -compare(two.pointee.integer, one.pointee.real) : compare(one.pointee.integer, two.pointee.real)
}

/// An integer with a double, without losing digits of either.
private func compare(_ integer: Int64, _ real: Double) -> Int {
    if real.isNaN { return integer < 0 ? -1 : 1 }
    if real >= 0x1p63 { return -1 }
    if real < -0x1p63 { return 1 }
    let whole = Int64(real)
    if integer != whole { return integer < whole ? -1 : 1 }
    let rest = real - Double(whole)
    return rest > 0 ? -1 : rest < 0 ? 1 : 0
}

/// Both zeros have one hash.
func hash(of value: Double) -> UInt { value == 0 ? 0 : UInt(value.bitPattern ^ value.bitPattern >> 31) }

/// Integers hash by value, also those that are kept as doubles.
func hash(_ number: NumberPointer) -> UInt {
    if !isReal(number.pointee.type) { return UInt(bitPattern: Int(number.pointee.integer)) }
    let real = number.pointee.real
    if real >= -0x1p63 && real < 0x1p63 && Double(Int64(real)) == real { return UInt(bitPattern: Int(Int64(real))) }
    return real.isNaN ? 0 : hash(of: real)
}

@c @implementation
public func RLCFNumberCompare(_ one: OpaquePointer?, _ two: OpaquePointer?, _ context: UnsafeMutableRawPointer?) -> Int {
    compare(record(one, RLCFNumber.self, "CFNumberCompare"), record(two, RLCFNumber.self, "CFNumberCompare"))
}
