// SPDX-License-Identifier: MIT
import CRunLoopCF

// Blocks, which are pointers here: the header declares these functions where the compiler has blocks. A block is an info that is held
// by copying and releasing it.

private let releaseBlock: @convention(c) (UnsafeRawPointer?) -> Void = { rlcf_block_release($0) }
private let retainBlock: @convention(c) (UnsafeRawPointer?) -> UnsafeRawPointer? = { UnsafeRawPointer(rlcf_block_copy($0)) }

private let performBlock: @convention(c) (UnsafeMutableRawPointer?) -> Void = { rlcf_block_call($0) }
private let releasePerformed: @convention(c) (UnsafeMutableRawPointer?) -> Void = { rlcf_block_release($0) }

@c @implementation
public func RLCFRunLoopPerformBlock(_ loop: OpaquePointer?, _ mode: UnsafeRawPointer?, _ block: UnsafeMutableRawPointer?) {
    guard let loop, let mode, let block else { return }
    switch RLCFGetTypeID(mode) {
    case UInt(Kind.string):
        withName(OpaquePointer(mode), "CFRunLoopPerformBlock") {
            RLPerformFunction(loop, $0, performBlock, rlcf_block_copy(block), releasePerformed)
        }
    case UInt(Kind.array):
        let array = ArrayPointer(OpaquePointer(mode))
        perform(loop, array.pointee.count, block) { body in
            for index in 0..<array.pointee.count { body(array.pointee.values![index]) }
        }
    case UInt(Kind.set):
        let set = TablePointer(OpaquePointer(mode))
        perform(loop, set.pointee.count, block) { body in set.forEach { value, _ in body(value) } }
    default: break
    }
}

/// Queues a block for modes that a closure goes through.
private func perform(
    _ loop: OpaquePointer, _ count: Int, _ block: UnsafeMutableRawPointer, _ forEach: ((UnsafeRawPointer?) -> Void) -> Void
) {
    if count == 0 { return }
    let names = needMemory(systemAllocator, count * MemoryLayout<Name>.stride).assumingMemoryBound(to: Name.self)
    let bytes = needMemory(systemAllocator, count * MemoryLayout<UnsafePointer<CChar>?>.stride)
        .assumingMemoryBound(to: UnsafePointer<CChar>?.self)
    var used = 0
    forEach { value in
        (names + used).initialize(to: Name(value.map { OpaquePointer($0) }, "CFRunLoopPerformBlock"))
        bytes[used] = names[used].bytes
        used += 1
    }
    RLPerformFunctionInModes(loop, bytes, used, performBlock, rlcf_block_copy(block), releasePerformed)
    for index in 0..<used { names[index].free() }
    free(names)
    free(bytes)
}

@c @implementation
public func RLCFRunLoopTimerCreateWithHandler(
    _ allocator: OpaquePointer?, _ fireDate: Double, _ interval: Double, _ flags: UInt, _ order: Int, _ block: UnsafeMutableRawPointer?
) -> OpaquePointer? {
    guard let block else { return RLTimerCreate(fireDate, interval, flags, order, nil, nil) }
    var context = RLTimerContext(version: 0, info: block, retain: retainBlock, release: releaseBlock, copyDescription: nil)
    return RLTimerCreate(fireDate, interval, flags, order, { rlcf_block_call_timer($1, UnsafeMutableRawPointer($0)) }, &context)
}

@c @implementation
public func RLCFRunLoopObserverCreateWithHandler(
    _ allocator: OpaquePointer?, _ activities: UInt, _ repeats: UInt8, _ order: Int, _ block: UnsafeMutableRawPointer?
) -> OpaquePointer? {
    guard let block else { return RLObserverCreate(activities, repeats != 0, order, nil, nil) }
    var context = RLObserverContext(version: 0, info: block, retain: retainBlock, release: releaseBlock, copyDescription: nil)
    return RLObserverCreate(
        activities, repeats != 0, order, { rlcf_block_call_observer($2, UnsafeMutableRawPointer($0), UInt($1.rawValue)) }, &context)
}
