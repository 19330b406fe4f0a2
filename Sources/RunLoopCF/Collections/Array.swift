// SPDX-License-Identifier: MIT
import CRunLoopCF

/// Values in an order. While functions of the client run the record is consistent, so that retain and release may change the array.
struct ArrayRecord: Record {
    var header: RLCFHeader
    var count: Int
    /// Values that there is room for from the first one on.
    var capacity: Int
    var values: UnsafeMutablePointer<UnsafeRawPointer?>?
    /// The memory of the values, which begin later once the first ones were removed, or others inserted before them.
    var memory: UnsafeMutablePointer<UnsafeRawPointer?>?
    var callbacks: CFArrayCallBacks

    static var kind: UInt32 { Kind.array }
    static var mismatch: StaticString { "not an array" }
    static func tearDown(_ record: ArrayPointer) {
        record.removeAll()
    }
}

typealias ArrayPointer = UnsafeMutablePointer<ArrayRecord>

extension CFArrayCallBacks {
    /// For CF objects.
    static var objects: CFArrayCallBacks { rlcf_array_callbacks() }
    /// For plain pointers.
    static var pointers: CFArrayCallBacks {
        CFArrayCallBacks(version: 0, retain: nil, release: nil, copyDescription: nil, equal: nil)
    }
}

func makeArray(_ allocator: AllocatorPointer, _ callbacks: CFArrayCallBacks, isMutable: Bool) -> ArrayPointer? {
    let array = makeRecord(ArrayRecord.self, allocator, isMutable: isMutable)
    array?.pointee.callbacks = callbacks
    return array
}

extension ArrayPointer {
    func freeze() { header.pointee.flags &= ~UInt32(RLCF_MUTABLE) }

    func retained(_ value: UnsafeRawPointer?) -> UnsafeRawPointer? {
        if let retain = pointee.callbacks.retain { return retain(OpaquePointer(allocator), value) }
        return value
    }

    func released(_ value: UnsafeRawPointer?) {
        if let release = pointee.callbacks.release { release(OpaquePointer(allocator), value) }
    }

    private func reserve(_ count: Int) {
        if count <= pointee.capacity { return }
        let stride = MemoryLayout<UnsafeRawPointer?>.stride
        if let memory = pointee.memory, let values = pointee.values, values > memory {
            let gap = values - memory
            memmove(memory, values, pointee.count * stride)
            pointee.values = memory
            pointee.capacity += gap
            // As much room as was moved: moving is not repeated for every value.
            if count <= pointee.capacity && gap >= pointee.count { return }
        }
        let capacity = Swift.max(count, pointee.capacity * 2, 4)
        pointee.memory = needMemory(allocator, pointee.memory, kept: pointee.count * stride, size: capacity * stride)
            .assumingMemoryBound(to: UnsafeRawPointer?.self)
        pointee.values = pointee.memory
        pointee.capacity = capacity
    }

    /// As much room before the values as they take.
    private func reserveBefore() {
        let stride = MemoryLayout<UnsafeRawPointer?>.stride
        let gap = Swift.max(pointee.count, 4)
        let capacity = Swift.min(pointee.capacity, 2 * pointee.count)
        let memory = needMemory(allocator, (gap + capacity) * stride).assumingMemoryBound(to: UnsafeRawPointer?.self)
        memcpy(memory + gap, pointee.values!, pointee.count * stride)
        giveBack(allocator, pointee.memory)
        (pointee.memory, pointee.values, pointee.capacity) = (memory, memory + gap, capacity)
    }

    /// Values of another one. Retain may shorten that.
    func append(_ other: ArrayPointer, from start: Int, count: Int) {
        var index = start
        while index < start + count && index < other.pointee.count {
            insert(other.pointee.values![index], at: pointee.count)
            index += 1
        }
    }

    func insert(_ value: UnsafeRawPointer?, at index: Int) {
        let kept = retained(value)
        let index = Swift.min(index, pointee.count)
        // The shorter part moves.
        if index < pointee.count - index {
            if pointee.values == pointee.memory { reserveBefore() }
            pointee.values! -= 1
            pointee.capacity += 1
            pointee.count += 1
            memmove(pointee.values!, pointee.values! + 1, index * MemoryLayout<UnsafeRawPointer?>.stride)
            pointee.values![index] = kept
            return
        }
        reserve(pointee.count + 1)
        let values = pointee.values!
        memmove(values + index + 1, values + index, (pointee.count - index) * MemoryLayout<UnsafeRawPointer?>.stride)
        values[index] = kept
        pointee.count += 1
    }

    func remove(at index: Int) {
        let values = pointee.values!
        let value = values[index]
        // The shorter part moves.
        if index < pointee.count - index - 1 || index == 0 {
            memmove(values + 1, values, index * MemoryLayout<UnsafeRawPointer?>.stride)
            pointee.values = values + 1
            pointee.capacity -= 1
            pointee.count -= 1
            return released(value)
        }
        memmove(values + index, values + index + 1, (pointee.count - index - 1) * MemoryLayout<UnsafeRawPointer?>.stride)
        pointee.count -= 1
        released(value)
    }

    /// Puts values in the place of a range, which lies in the array.
    func replace(_ range: CFRange, with values: UnsafeMutablePointer<UnsafeRawPointer?>?, _ count: Int) {
        if count + range.length == 0 { return }
        let stride = MemoryLayout<UnsafeRawPointer?>.stride
        let kept = needMemory(systemAllocator, (count + range.length) * stride).assumingMemoryBound(to: UnsafeRawPointer?.self)
        for index in 0..<count { kept[index] = retained(values![index]) }
        // Retain may have shortened the array.
        let begin = Swift.min(range.location, pointee.count)
        let removed = Swift.min(range.length, pointee.count - begin)
        reserve(Swift.max(pointee.count - removed + count, 1))
        let place = pointee.values! + begin
        memcpy(kept + count, place, removed * stride)
        memmove(place + count, place + removed, (pointee.count - begin - removed) * stride)
        memcpy(place, kept, count * stride)
        pointee.count += count - removed
        for index in 0..<removed { released(kept[count + index]) }
        free(kept)
    }

    func removeAll() {
        while pointee.count > 0 { remove(at: 0) }
        giveBack(allocator, pointee.memory)
        (pointee.memory, pointee.values, pointee.capacity) = (nil, nil, 0)
    }

    func isEqual(_ one: UnsafeRawPointer?, _ two: UnsafeRawPointer?) -> Bool {
        if one == two { return true }
        guard let equal = pointee.callbacks.equal else { return false }
        return equal(one, two) != 0
    }

    /// The first index in a range, or the last, of a value; -1.
    func index(of value: UnsafeRawPointer?, in range: CFRange, backwards: Bool = false) -> Int {
        var index = backwards ? range.location + range.length - 1 : range.location
        while index >= range.location && index < range.location + range.length {
            if isEqual(pointee.values![index], value) { return index }
            index += backwards ? -1 : 1
        }
        return -1
    }
}

func areEqual(_ one: ArrayPointer, _ two: ArrayPointer) -> Bool {
    if one.pointee.count != two.pointee.count { return false }
    for index in 0..<one.pointee.count where !one.isEqual(one.pointee.values![index], two.pointee.values![index]) { return false }
    return true
}

private func array(_ handle: OpaquePointer?, _ function: StaticString) -> ArrayPointer { record(handle, ArrayRecord.self, function) }

private func array(_ handle: OpaquePointer?, _ range: CFRange, _ function: StaticString) -> ArrayPointer {
    let found = record(handle, ArrayRecord.self, function)
    check(range, in: found.pointee.count, function)
    return found
}

private func mutable(_ handle: OpaquePointer?, _ function: StaticString) -> ArrayPointer {
    mutableRecord(handle, ArrayRecord.self, function)
}

// MARK: <CoreFoundation/CFArray.h>

@c @implementation
public func RLCFArrayGetTypeID() -> UInt { UInt(Kind.array) }

@c @implementation
public func RLCFArrayCreate(
    _ handle: OpaquePointer?, _ values: UnsafeMutablePointer<UnsafeRawPointer?>?, _ count: Int,
    _ callbacks: UnsafePointer<CFArrayCallBacks>?
) -> OpaquePointer? {
    if count < 0 || (values == nil && count > 0) { trap("CFArrayCreate", "the values are NULL or their number is negative") }
    guard let made = makeArray(allocator(handle, "CFArrayCreate"), callbacks?.pointee ?? .pointers, isMutable: false) else { return nil }
    for index in 0..<count { made.insert(values![index], at: index) }
    return made.handle
}

@c @implementation
public func RLCFArrayCreateCopy(_ handle: OpaquePointer?, _ other: OpaquePointer?) -> OpaquePointer? {
    let other = array(other, "CFArrayCreateCopy")
    let copy = makeArray(allocator(handle, "CFArrayCreateCopy"), other.pointee.callbacks, isMutable: false)
    copy?.append(other, from: 0, count: other.pointee.count)
    return copy?.handle
}

@c @implementation
public func RLCFArrayCreateMutable(_ handle: OpaquePointer?, _ capacity: Int, _ callbacks: UnsafePointer<CFArrayCallBacks>?) -> OpaquePointer? {
    if capacity < 0 { trap("CFArrayCreateMutable", "the capacity is negative") }
    return makeArray(allocator(handle, "CFArrayCreateMutable"), callbacks?.pointee ?? .pointers, isMutable: true)?.handle
}

@c @implementation
public func RLCFArrayCreateMutableCopy(_ handle: OpaquePointer?, _ capacity: Int, _ other: OpaquePointer?) -> OpaquePointer? {
    let other = array(other, "CFArrayCreateMutableCopy")
    let copy = makeArray(allocator(handle, "CFArrayCreateMutableCopy"), other.pointee.callbacks, isMutable: true)
    copy?.append(other, from: 0, count: other.pointee.count)
    return copy?.handle
}

@c @implementation
public func RLCFArrayGetCount(_ handle: OpaquePointer?) -> Int { array(handle, "CFArrayGetCount").pointee.count }

@c @implementation
public func RLCFArrayGetCountOfValue(_ handle: OpaquePointer?, _ range: CFRange, _ value: UnsafeRawPointer?) -> Int {
    let array = array(handle, range, "CFArrayGetCountOfValue")
    var count = 0
    for index in range.location..<range.location + range.length where array.isEqual(array.pointee.values![index], value) { count += 1 }
    return count
}

@c @implementation
public func RLCFArrayContainsValue(_ handle: OpaquePointer?, _ range: CFRange, _ value: UnsafeRawPointer?) -> UInt8 {
    array(handle, range, "CFArrayContainsValue").index(of: value, in: range) >= 0 ? 1 : 0
}

@c @implementation
public func RLCFArrayGetValueAtIndex(_ handle: OpaquePointer?, _ index: Int) -> UnsafeRawPointer? {
    let array = array(handle, "CFArrayGetValueAtIndex")
    check(index: index, in: array.pointee.count, "CFArrayGetValueAtIndex")
    return array.pointee.values![index]
}

@c @implementation
public func RLCFArrayGetValues(_ handle: OpaquePointer?, _ range: CFRange, _ values: UnsafeMutablePointer<UnsafeRawPointer?>?) {
    let array = array(handle, range, "CFArrayGetValues")
    guard let values else { return }
    for index in 0..<range.length { values[index] = array.pointee.values![range.location + index] }
}

@c @implementation
public func RLCFArrayApplyFunction(
    _ handle: OpaquePointer?, _ range: CFRange, _ applier: (@convention(c) (UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafeMutableRawPointer?
) {
    let array = array(handle, range, "CFArrayApplyFunction")
    guard let applier else { trap("CFArrayApplyFunction", "the function is NULL") }
    var index = range.location
    // The function may shorten the array.
    while index < min(range.location + range.length, array.pointee.count) {
        applier(array.pointee.values![index], context)
        index += 1
    }
}

@c @implementation
public func RLCFArrayGetFirstIndexOfValue(_ handle: OpaquePointer?, _ range: CFRange, _ value: UnsafeRawPointer?) -> Int {
    array(handle, range, "CFArrayGetFirstIndexOfValue").index(of: value, in: range)
}

@c @implementation
public func RLCFArrayGetLastIndexOfValue(_ handle: OpaquePointer?, _ range: CFRange, _ value: UnsafeRawPointer?) -> Int {
    array(handle, range, "CFArrayGetLastIndexOfValue").index(of: value, in: range, backwards: true)
}

typealias Comparator = @convention(c) (UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Int

@c @implementation
public func RLCFArrayBSearchValues(
    _ handle: OpaquePointer?, _ range: CFRange, _ value: UnsafeRawPointer?,
    _ comparator: (@convention(c) (UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Int)?,
    _ context: UnsafeMutableRawPointer?
) -> Int {
    let array = array(handle, range, "CFArrayBSearchValues")
    guard let comparator else { trap("CFArrayBSearchValues", "the comparator is NULL") }
    var (low, high) = (range.location, range.location + range.length)
    while low < high {
        let middle = low + (high - low) / 2
        // The first of those that are equal.
        if comparator(array.pointee.values![middle], value, context) < 0 { low = middle + 1 } else { high = middle }
    }
    return low
}

@c @implementation
public func RLCFArrayAppendValue(_ handle: OpaquePointer?, _ value: UnsafeRawPointer?) {
    let array = mutable(handle, "CFArrayAppendValue")
    array.insert(value, at: array.pointee.count)
}

@c @implementation
public func RLCFArrayInsertValueAtIndex(_ handle: OpaquePointer?, _ index: Int, _ value: UnsafeRawPointer?) {
    let array = mutable(handle, "CFArrayInsertValueAtIndex")
    check(CFRange(location: index, length: 0), in: array.pointee.count, "CFArrayInsertValueAtIndex")
    array.insert(value, at: index)
}

@c @implementation
public func RLCFArraySetValueAtIndex(_ handle: OpaquePointer?, _ index: Int, _ value: UnsafeRawPointer?) {
    let array = mutable(handle, "CFArraySetValueAtIndex")
    check(CFRange(location: index, length: 0), in: array.pointee.count, "CFArraySetValueAtIndex")
    if index == array.pointee.count { return array.insert(value, at: index) }
    let kept = array.retained(value)
    // Retain may have shortened the array.
    check(index: index, in: array.pointee.count, "CFArraySetValueAtIndex")
    let old = array.pointee.values![index]
    array.pointee.values![index] = kept
    array.released(old)
}

@c @implementation
public func RLCFArrayRemoveValueAtIndex(_ handle: OpaquePointer?, _ index: Int) {
    let array = mutable(handle, "CFArrayRemoveValueAtIndex")
    check(index: index, in: array.pointee.count, "CFArrayRemoveValueAtIndex")
    array.remove(at: index)
}

@c @implementation
public func RLCFArrayRemoveAllValues(_ handle: OpaquePointer?) { mutable(handle, "CFArrayRemoveAllValues").removeAll() }

@c @implementation
public func RLCFArrayReplaceValues(
    _ handle: OpaquePointer?, _ range: CFRange, _ values: UnsafeMutablePointer<UnsafeRawPointer?>?, _ count: Int
) {
    let array = mutable(handle, "CFArrayReplaceValues")
    check(range, in: array.pointee.count, "CFArrayReplaceValues")
    if count < 0 || (values == nil && count > 0) { trap("CFArrayReplaceValues", "the values are NULL or their number is negative") }
    array.replace(range, with: values, count)
}

@c @implementation
public func RLCFArrayExchangeValuesAtIndices(_ handle: OpaquePointer?, _ one: Int, _ two: Int) {
    let array = mutable(handle, "CFArrayExchangeValuesAtIndices")
    check(index: one, in: array.pointee.count, "CFArrayExchangeValuesAtIndices")
    check(index: two, in: array.pointee.count, "CFArrayExchangeValuesAtIndices")
    let values = array.pointee.values!
    (values[one], values[two]) = (values[two], values[one])
}

@c @implementation
public func RLCFArraySortValues(
    _ handle: OpaquePointer?, _ range: CFRange,
    _ comparator: (@convention(c) (UnsafeRawPointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Int)?,
    _ context: UnsafeMutableRawPointer?
) {
    let array = mutable(handle, "CFArraySortValues")
    check(range, in: array.pointee.count, "CFArraySortValues")
    guard let comparator else { trap("CFArraySortValues", "the comparator is NULL") }
    if range.length < 2 { return }
    let size = range.length * MemoryLayout<UnsafeRawPointer?>.stride
    // The comparator sees the array as it was until the sort is done.
    let sorted = needMemory(systemAllocator, size * 2).assumingMemoryBound(to: UnsafeRawPointer?.self)
    memcpy(sorted, array.pointee.values! + range.location, size)
    mergeSort(sorted, sorted + range.length, range.length, comparator, context)
    if array.pointee.count >= range.location + range.length { memcpy(array.pointee.values! + range.location, sorted, size) }
    free(sorted)
}

/// Sorts values stably with as much room beside them.
private func mergeSort(
    _ values: UnsafeMutablePointer<UnsafeRawPointer?>, _ room: UnsafeMutablePointer<UnsafeRawPointer?>, _ count: Int,
    _ comparator: Comparator, _ context: UnsafeMutableRawPointer?
) {
    if count < 2 { return }
    let half = count / 2
    mergeSort(values, room, half, comparator, context)
    mergeSort(values + half, room, count - half, comparator, context)
    memcpy(room, values, half * MemoryLayout<UnsafeRawPointer?>.stride)
    var (left, right, next) = (0, half, 0)
    while left < half {
        if right < count && comparator(room[left], values[right], context) > 0 {
            values[next] = values[right]
            right += 1
        } else {
            values[next] = room[left]
            left += 1
        }
        next += 1
    }
}

@c @implementation
public func RLCFArrayAppendArray(_ handle: OpaquePointer?, _ other: OpaquePointer?, _ range: CFRange) {
    let array = mutable(handle, "CFArrayAppendArray")
    let other = record(other, ArrayRecord.self, "CFArrayAppendArray")
    check(range, in: other.pointee.count, "CFArrayAppendArray")
    array.append(other, from: range.location, count: range.length)
}
