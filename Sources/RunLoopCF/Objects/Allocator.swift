// SPDX-License-Identifier: MIT
import CRunLoopCF

typealias AllocatorPointer = UnsafeMutablePointer<RLCFAllocator>

/// The allocator that an argument means: NULL is the calling thread's default.
func allocator(_ handle: OpaquePointer?, _ function: StaticString) -> AllocatorPointer {
    guard let handle else { return rlcf_default_allocator() ?? systemAllocator }
    if rlcf_kind(UnsafeRawPointer(handle)) != Kind.allocator { trap(function, "not an allocator") }
    return AllocatorPointer(handle)
}

/// The system's allocator, an immortal object.
var systemAllocator: AllocatorPointer { AllocatorPointer(mutating: rlcf_system_address()) }

func takeMemory(_ allocator: AllocatorPointer, _ size: Int) -> UnsafeMutableRawPointer? {
    switch Int(allocator.pointee.kind) {
    case Int(RLCF_FROM_MALLOC): return malloc(size)
    case Int(RLCF_FROM_CONTEXT): return allocator.pointee.context.allocate?(size, 0, allocator.pointee.context.info)
    default: return nil
    }
}

func giveBack(_ allocator: AllocatorPointer, _ memory: UnsafeMutableRawPointer?) {
    guard let memory else { return }
    switch Int(allocator.pointee.kind) {
    case Int(RLCF_FROM_MALLOC): free(memory)
    case Int(RLCF_FROM_CONTEXT): allocator.pointee.context.deallocate?(memory, allocator.pointee.context.info)
    default: break
    }
}

/// Memory for what an object needs besides its record; without it the program cannot go on.
func needMemory(_ allocator: AllocatorPointer, _ size: Int) -> UnsafeMutableRawPointer {
    guard let memory = takeMemory(allocator, size) else { trap("CoreFoundation", "out of memory") }
    return memory
}

/// Memory of another size with the first `kept` bytes of the old.
func needMemory(_ allocator: AllocatorPointer, _ old: UnsafeMutableRawPointer?, kept: Int, size: Int) -> UnsafeMutableRawPointer {
    if Int(allocator.pointee.kind) == Int(RLCF_FROM_MALLOC) {
        guard let memory = realloc(old, size) else { trap("CoreFoundation", "out of memory") }
        return memory
    }
    let memory = needMemory(allocator, size)
    if let old {
        memcpy(memory, old, kept)
        giveBack(allocator, old)
    }
    return memory
}

func retain(_ allocator: AllocatorPointer) {
    if allocator.pointee.header.flags & UInt32(RLCF_IMMORTAL) == 0 {
        rlcf_retain(UnsafeMutableRawPointer(allocator).assumingMemoryBound(to: RLCFHeader.self))
    }
}

func release(_ allocator: AllocatorPointer) {
    releaseOurs(UnsafeMutableRawPointer(allocator).assumingMemoryBound(to: RLCFHeader.self))
}

/// The last reference is gone: its own memory comes from another allocator, or by its own functions.
func destroyAllocator(_ allocator: AllocatorPointer) {
    let context = allocator.pointee.context
    let maker = allocator.pointee.header.allocator!
    allocator.pointee.header.type = 0
    if maker == allocator {
        context.deallocate?(allocator, context.info)
    } else {
        giveBack(maker, allocator)
    }
    context.release?(context.info)
    if maker != allocator { release(maker) }
}

@c @implementation
public func RLCFAllocatorGetTypeID() -> UInt { UInt(Kind.allocator) }

@c @implementation
public func RLCFAllocatorSetDefault(_ handle: OpaquePointer?) {
    guard let handle else { return }
    let allocator = allocator(handle, "CFAllocatorSetDefault")
    retain(allocator)
    rlcf_set_default_allocator(allocator)
}

@c @implementation
public func RLCFAllocatorGetDefault() -> OpaquePointer? { OpaquePointer(allocator(nil, "CFAllocatorGetDefault")) }

@c @implementation
public func RLCFAllocatorCreate(_ maker: OpaquePointer?, _ context: UnsafeMutablePointer<CFAllocatorContext>?) -> OpaquePointer? {
    guard var context = context?.pointee else { trap("CFAllocatorCreate", "the context is NULL") }
    if let retain = context.retain { context.info = UnsafeMutableRawPointer(mutating: retain(context.info)) }
    let size = MemoryLayout<RLCFAllocator>.stride
    let usesContext = maker != nil && maker == rlcf_use_context_address()
    let owner = usesContext ? nil : allocator(maker, "CFAllocatorCreate")
    guard let memory = owner.map({ takeMemory($0, size) }) ?? context.allocate?(size, 0, context.info) else {
        context.release?(context.info)
        return nil
    }
    let made = memory.assumingMemoryBound(to: RLCFAllocator.self)
    memset(memory, 0, size)
    if let owner { retain(owner) }
    made.pointee.header = RLCFHeader(type: Kind.allocator, flags: 0, references: 1, allocator: owner ?? made)
    made.pointee.kind = Int32(RLCF_FROM_CONTEXT)
    made.pointee.context = context
    return OpaquePointer(made)
}

@c @implementation
public func RLCFAllocatorAllocate(_ handle: OpaquePointer?, _ size: Int, _ hint: UInt) -> UnsafeMutableRawPointer? {
    let allocator = allocator(handle, "CFAllocatorAllocate")
    return size > 0 ? takeMemory(allocator, size) : nil
}

@c @implementation
public func RLCFAllocatorReallocate(
    _ handle: OpaquePointer?, _ memory: UnsafeMutableRawPointer?, _ size: Int, _ hint: UInt
) -> UnsafeMutableRawPointer? {
    let allocator = allocator(handle, "CFAllocatorReallocate")
    guard let memory else { return size > 0 ? takeMemory(allocator, size) : nil }
    if size <= 0 {
        giveBack(allocator, memory)
        return nil
    }
    switch Int(allocator.pointee.kind) {
    case Int(RLCF_FROM_MALLOC): return realloc(memory, size)
    case Int(RLCF_FROM_CONTEXT): return allocator.pointee.context.reallocate?(memory, size, hint, allocator.pointee.context.info)
    default: return nil
    }
}

@c @implementation
public func RLCFAllocatorDeallocate(_ handle: OpaquePointer?, _ memory: UnsafeMutableRawPointer?) {
    giveBack(allocator(handle, "CFAllocatorDeallocate"), memory)
}

@c @implementation
public func RLCFAllocatorGetPreferredSizeForSize(_ handle: OpaquePointer?, _ size: Int, _ hint: UInt) -> Int {
    let allocator = allocator(handle, "CFAllocatorGetPreferredSizeForSize")
    guard size > 0, let preferred = allocator.pointee.context.preferredSize else { return size }
    return max(size, preferred(size, hint, allocator.pointee.context.info))
}

@c @implementation
public func RLCFAllocatorGetContext(_ handle: OpaquePointer?, _ context: UnsafeMutablePointer<CFAllocatorContext>?) {
    context?.pointee = allocator(handle, "CFAllocatorGetContext").pointee.context
}
