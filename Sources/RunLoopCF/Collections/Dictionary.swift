// SPDX-License-Identifier: MIT
import CRunLoopCF

// <CoreFoundation/CFDictionary.h>

private func callbacks(
    _ keys: UnsafePointer<CFDictionaryKeyCallBacks>?, _ values: UnsafePointer<CFDictionaryValueCallBacks>?
) -> TableCallbacks {
    let (key, value) = (keys?.pointee, values?.pointee)
    return TableCallbacks(
        retain: key?.retain, release: key?.release, describe: key?.copyDescription, equal: key?.equal, hash: key?.hash,
        retainValue: value?.retain, releaseValue: value?.release, describeValue: value?.copyDescription, equalValue: value?.equal)
}

private func dictionary(_ handle: OpaquePointer?, _ function: StaticString) -> TablePointer { table(handle, Kind.dictionary, function) }

private func mutable(_ handle: OpaquePointer?, _ function: StaticString) -> TablePointer {
    mutableTable(handle, Kind.dictionary, function)
}

@c @implementation
public func RLCFDictionaryGetTypeID() -> UInt { UInt(Kind.dictionary) }

@c @implementation
public func RLCFDictionaryCreate(
    _ handle: OpaquePointer?, _ keys: UnsafeMutablePointer<UnsafeRawPointer?>?, _ values: UnsafeMutablePointer<UnsafeRawPointer?>?,
    _ count: Int, _ keyCallbacks: UnsafePointer<CFDictionaryKeyCallBacks>?, _ valueCallbacks: UnsafePointer<CFDictionaryValueCallBacks>?
) -> OpaquePointer? {
    if count < 0 || ((keys == nil || values == nil) && count > 0) {
        trap("CFDictionaryCreate", "the keys or values are NULL or their number is negative")
    }
    let made = makeTable(
        Kind.dictionary, allocator(handle, "CFDictionaryCreate"), callbacks(keyCallbacks, valueCallbacks), isMutable: false)
    if let made { for index in 0..<count where made.slot(keys![index]) == nil { made.insert(keys![index], values![index]) } }
    return made?.handle
}

@c @implementation
public func RLCFDictionaryCreateCopy(_ handle: OpaquePointer?, _ other: OpaquePointer?) -> OpaquePointer? {
    dictionary(other, "CFDictionaryCreateCopy").copy(allocator(handle, "CFDictionaryCreateCopy"), isMutable: false)?.handle
}

@c @implementation
public func RLCFDictionaryCreateMutable(
    _ handle: OpaquePointer?, _ capacity: Int, _ keyCallbacks: UnsafePointer<CFDictionaryKeyCallBacks>?,
    _ valueCallbacks: UnsafePointer<CFDictionaryValueCallBacks>?
) -> OpaquePointer? {
    if capacity < 0 { trap("CFDictionaryCreateMutable", "the capacity is negative") }
    return makeTable(
        Kind.dictionary, allocator(handle, "CFDictionaryCreateMutable"), callbacks(keyCallbacks, valueCallbacks), isMutable: true)?.handle
}

@c @implementation
public func RLCFDictionaryCreateMutableCopy(_ handle: OpaquePointer?, _ capacity: Int, _ other: OpaquePointer?) -> OpaquePointer? {
    dictionary(other, "CFDictionaryCreateMutableCopy").copy(allocator(handle, "CFDictionaryCreateMutableCopy"), isMutable: true)?.handle
}

@c @implementation
public func RLCFDictionaryGetCount(_ handle: OpaquePointer?) -> Int { dictionary(handle, "CFDictionaryGetCount").pointee.count }

@c @implementation
public func RLCFDictionaryGetCountOfKey(_ handle: OpaquePointer?, _ key: UnsafeRawPointer?) -> Int {
    dictionary(handle, "CFDictionaryGetCountOfKey").slot(key) == nil ? 0 : 1
}

private func count(_ dictionary: TablePointer, _ value: UnsafeRawPointer?) -> Int {
    var count = 0
    dictionary.forEach { _, other in if dictionary.isEqualValue(other, value) { count += 1 } }
    return count
}

@c @implementation
public func RLCFDictionaryGetCountOfValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) -> Int {
    count(dictionary(handle, "CFDictionaryGetCountOfValue"), value)
}

@c @implementation
public func RLCFDictionaryContainsKey(_ handle: OpaquePointer?, _ key: UnsafeRawPointer?) -> UInt8 {
    dictionary(handle, "CFDictionaryContainsKey").slot(key) == nil ? 0 : 1
}

@c @implementation
public func RLCFDictionaryContainsValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) -> UInt8 {
    count(dictionary(handle, "CFDictionaryContainsValue"), value) > 0 ? 1 : 0
}

@c @implementation
public func RLCFDictionaryGetValue(_ handle: OpaquePointer?, _ key: UnsafeRawPointer?) -> UnsafeRawPointer? {
    dictionary(handle, "CFDictionaryGetValue").slot(key)?.pointee.value
}

@c @implementation
public func RLCFDictionaryGetValueIfPresent(
    _ handle: OpaquePointer?, _ key: UnsafeRawPointer?, _ value: UnsafeMutablePointer<UnsafeRawPointer?>?
) -> UInt8 {
    guard let slot = dictionary(handle, "CFDictionaryGetValueIfPresent").slot(key) else { return 0 }
    value?.pointee = slot.pointee.value
    return 1
}

@c @implementation
public func RLCFDictionaryGetKeysAndValues(
    _ handle: OpaquePointer?, _ keys: UnsafeMutablePointer<UnsafeRawPointer?>?, _ values: UnsafeMutablePointer<UnsafeRawPointer?>?
) {
    var index = 0
    dictionary(handle, "CFDictionaryGetKeysAndValues").forEach { key, value in
        keys?[index] = key
        values?[index] = value
        index += 1
    }
}

@c @implementation
public func RLCFDictionaryApplyFunction(
    _ handle: OpaquePointer?,
    _ applier: (@convention(c) (UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafeMutableRawPointer?
) {
    guard let applier else { trap("CFDictionaryApplyFunction", "the function is NULL") }
    dictionary(handle, "CFDictionaryApplyFunction").forEach { applier($0, $1, context) }
}

@c @implementation
public func RLCFDictionaryAddValue(_ handle: OpaquePointer?, _ key: UnsafeRawPointer?, _ value: UnsafeRawPointer?) {
    let dictionary = mutable(handle, "CFDictionaryAddValue")
    if dictionary.slot(key) == nil { dictionary.insert(key, value) }
}

@c @implementation
public func RLCFDictionarySetValue(_ handle: OpaquePointer?, _ key: UnsafeRawPointer?, _ value: UnsafeRawPointer?) {
    let dictionary = mutable(handle, "CFDictionarySetValue")
    if let slot = dictionary.slot(key) { dictionary.replace(slot, key: key, value: value) } else { dictionary.insert(key, value) }
}

@c @implementation
public func RLCFDictionaryReplaceValue(_ handle: OpaquePointer?, _ key: UnsafeRawPointer?, _ value: UnsafeRawPointer?) {
    let dictionary = mutable(handle, "CFDictionaryReplaceValue")
    if let slot = dictionary.slot(key) { dictionary.replace(slot, key: key, value: value) }
}

@c @implementation
public func RLCFDictionaryRemoveValue(_ handle: OpaquePointer?, _ key: UnsafeRawPointer?) {
    let dictionary = mutable(handle, "CFDictionaryRemoveValue")
    if let slot = dictionary.slot(key) { dictionary.remove(slot) }
}

@c @implementation
public func RLCFDictionaryRemoveAllValues(_ handle: OpaquePointer?) { mutable(handle, "CFDictionaryRemoveAllValues").removeAll() }
