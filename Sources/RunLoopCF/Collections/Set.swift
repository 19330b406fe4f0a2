// SPDX-License-Identifier: MIT
import CRunLoopCF

// <CoreFoundation/CFSet.h>

private func callbacks(_ callbacks: UnsafePointer<CFSetCallBacks>?) -> TableCallbacks {
    let given = callbacks?.pointee
    return TableCallbacks(
        retain: given?.retain, release: given?.release, describe: given?.copyDescription, equal: given?.equal, hash: given?.hash,
        retainValue: nil, releaseValue: nil, describeValue: nil, equalValue: nil)
}

private func set(_ handle: OpaquePointer?, _ function: StaticString) -> TablePointer { table(handle, Kind.set, function) }

private func mutable(_ handle: OpaquePointer?, _ function: StaticString) -> TablePointer { mutableTable(handle, Kind.set, function) }

@c @implementation
public func RLCFSetGetTypeID() -> UInt { UInt(Kind.set) }

@c @implementation
public func RLCFSetCreate(
    _ handle: OpaquePointer?, _ values: UnsafeMutablePointer<UnsafeRawPointer?>?, _ count: Int,
    _ given: UnsafePointer<CFSetCallBacks>?
) -> OpaquePointer? {
    if count < 0 || (values == nil && count > 0) { trap("CFSetCreate", "the values are NULL or their number is negative") }
    let made = makeTable(Kind.set, allocator(handle, "CFSetCreate"), callbacks(given), isMutable: false)
    if let made { for index in 0..<count where made.slot(values![index]) == nil { made.insert(values![index], nil) } }
    return made?.handle
}

@c @implementation
public func RLCFSetCreateCopy(_ handle: OpaquePointer?, _ other: OpaquePointer?) -> OpaquePointer? {
    set(other, "CFSetCreateCopy").copy(allocator(handle, "CFSetCreateCopy"), isMutable: false)?.handle
}

@c @implementation
public func RLCFSetCreateMutable(_ handle: OpaquePointer?, _ capacity: Int, _ given: UnsafePointer<CFSetCallBacks>?) -> OpaquePointer? {
    if capacity < 0 { trap("CFSetCreateMutable", "the capacity is negative") }
    return makeTable(Kind.set, allocator(handle, "CFSetCreateMutable"), callbacks(given), isMutable: true)?.handle
}

@c @implementation
public func RLCFSetCreateMutableCopy(_ handle: OpaquePointer?, _ capacity: Int, _ other: OpaquePointer?) -> OpaquePointer? {
    set(other, "CFSetCreateMutableCopy").copy(allocator(handle, "CFSetCreateMutableCopy"), isMutable: true)?.handle
}

@c @implementation
public func RLCFSetGetCount(_ handle: OpaquePointer?) -> Int { set(handle, "CFSetGetCount").pointee.count }

@c @implementation
public func RLCFSetGetCountOfValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) -> Int {
    set(handle, "CFSetGetCountOfValue").slot(value) == nil ? 0 : 1
}

@c @implementation
public func RLCFSetContainsValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) -> UInt8 {
    set(handle, "CFSetContainsValue").slot(value) == nil ? 0 : 1
}

@c @implementation
public func RLCFSetGetValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) -> UnsafeRawPointer? {
    set(handle, "CFSetGetValue").slot(value)?.pointee.key
}

@c @implementation
public func RLCFSetGetValueIfPresent(
    _ handle: OpaquePointer?, _ candidate: UnsafeRawPointer?, _ value: UnsafeMutablePointer<UnsafeRawPointer?>?
) -> UInt8 {
    guard let slot = set(handle, "CFSetGetValueIfPresent").slot(candidate) else { return 0 }
    value?.pointee = slot.pointee.key
    return 1
}

@c @implementation
public func RLCFSetGetValues(_ handle: OpaquePointer?, _ values: UnsafeMutablePointer<UnsafeRawPointer?>?) {
    var index = 0
    set(handle, "CFSetGetValues").forEach { value, _ in
        values?[index] = value
        index += 1
    }
}

@c @implementation
public func RLCFSetApplyFunction(
    _ handle: OpaquePointer?, _ applier: (@convention(c) (UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafeMutableRawPointer?
) {
    guard let applier else { trap("CFSetApplyFunction", "the function is NULL") }
    set(handle, "CFSetApplyFunction").forEach { value, _ in applier(value, context) }
}

@c @implementation
public func RLCFSetAddValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) {
    let set = mutable(handle, "CFSetAddValue")
    if set.slot(value) == nil { set.insert(value, nil) }
}

@c @implementation
public func RLCFSetReplaceValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) {
    let set = mutable(handle, "CFSetReplaceValue")
    if let slot = set.slot(value) { set.replace(slot, key: value, value: nil) }
}

@c @implementation
public func RLCFSetSetValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) {
    let set = mutable(handle, "CFSetSetValue")
    if let slot = set.slot(value) { set.replace(slot, key: value, value: nil) } else { set.insert(value, nil) }
}

@c @implementation
public func RLCFSetRemoveValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) {
    let set = mutable(handle, "CFSetRemoveValue")
    if let slot = set.slot(value) { set.remove(slot) }
}

@c @implementation
public func RLCFSetRemoveAllValues(_ handle: OpaquePointer?) { mutable(handle, "CFSetRemoveAllValues").removeAll() }
