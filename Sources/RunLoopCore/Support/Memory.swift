// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// One function for all types, which makes the library smaller by hundreds of bytes.
@inline(never)
private func zeroedMemory(_ count: Int, _ size: Int) -> UnsafeMutableRawPointer {
    guard let memory = calloc(count, size) else { trap("RunLoop", "out of memory") }
    return memory
}

/// Memory from malloc, zeroed. Running out of it ends the process: no caller could handle that.
func makeRecord<Record: ~Copyable>(_ type: Record.Type, tail: Int = 0) -> UnsafeMutablePointer<Record> {
    zeroedMemory(1, MemoryLayout<Record>.stride + tail).assumingMemoryBound(to: type)
}

/// An array of `count` elements from malloc, zeroed.
func makeArray<Element>(_ type: Element.Type, count: Int) -> UnsafeMutablePointer<Element> {
    zeroedMemory(count, MemoryLayout<Element>.stride).assumingMemoryBound(to: type)
}

/// Grows an array from malloc to `count` elements; what is new is not initialised.
func growArray<Element>(_ array: UnsafeMutablePointer<Element>?, count: Int) -> UnsafeMutablePointer<Element> {
    guard let memory = realloc(array, count * MemoryLayout<Element>.stride) else { trap("RunLoop", "out of memory") }
    return memory.assumingMemoryBound(to: Element.self)
}

/// The place that a product names in a table with a power of two of places. All bits of the factors have changed its upper ones, which count first
/// here: of numbers whose lower bits are 0 the lower ones of the product are as well.
@inline(__always)
func tablePlace(_ product: UInt, below capacity: Int) -> Int { Int(truncatingIfNeeded: product.byteSwapped) & (capacity - 1) }

/// A number made of bytes (FNV-1a, Fowler, Noll and Vo).
func digest(_ bytes: UnsafePointer<UInt8>, count: Int) -> UInt {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for index in 0..<count { hash = (hash ^ UInt64(bytes[index])) &* 0x100_0000_01b3 }
    return UInt(hash)
}
