// SPDX-License-Identifier: MIT
import CRunLoopCF

// <CoreFoundation/CFMachPort.h> and <mach/message.h>. A message travels whole, with its header, as the bytes of librunloop's.

/// The number of a port: made of its descriptor, and never MACH_PORT_NULL.
private func number(_ descriptor: Int32) -> UInt32 { descriptor < 0 ? 0 : UInt32(descriptor) << 8 | 3 }

/// The port of a number, with a reference for the caller. nil: no port of this process, or an invalid one.
private func port(_ number: UInt32) -> OpaquePointer? {
    if number & 0xff != 3 || number >> 8 > 0x7f_ffff { return nil }
    return RLMachPortCreateWithPort(Int32(number >> 8), nil, nil, nil)
}

private typealias Callout = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?, Int, UnsafeMutableRawPointer?) -> Void
private typealias Invalidation = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void

private let receiveBox: @convention(c) (OpaquePointer, UnsafePointer<RLMachMessage>, UnsafeMutableRawPointer?) -> Void = {
    port, message, info in
    let box = BoxPointer(info: info)
    let length = message.pointee.length
    guard let callout = box.pointee.callout, let bytes = message.pointee.bytes, length >= MemoryLayout<mach_msg_header_t>.size else { return }
    // The bytes are this delivery's own, good until it is over, and nobody else reads them.
    let own = UnsafeMutableRawPointer(mutating: bytes)
    let header = own.assumingMemoryBound(to: mach_msg_header_t.self)
    header.pointee.msgh_size = UInt32(length)
    header.pointee.msgh_local_port = number(RLMachPortGetPort(port))
    header.pointee.msgh_remote_port = message.pointee.replyPort.map { number(RLMachPortGetPort($0)) } ?? 0
    unsafeBitCast(callout, to: Callout.self)(port, own, length, box.pointee.info)
}

@c @implementation
public func RLCFMachPortCreate(
    _ allocator: OpaquePointer?,
    _ callout: (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?, Int, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafeMutablePointer<CFMachPortContext>?, _ shouldFreeInfo: UnsafeMutablePointer<UInt8>?
) -> OpaquePointer? {
    let given = context?.pointee
    let box = BoxPointer.make(Box(
        info: given?.info, retain: given?.retain, release: given?.release, describe: given?.copyDescription,
        callout: UnsafeRawPointer(bitPattern: address(callout))))
    var own = RLMachPortContext(
        version: 0, info: box, retain: box.retainFunction, release: boxRelease,
        copyDescription: given?.copyDescription == nil ? nil : boxDescribe)
    RLSetReleaseOfBoxes_(boxRelease)
    let port = RLMachPortCreate(callout == nil ? nil : receiveBox, &own, nil)
    box.settle(port, current: box)
    shouldFreeInfo?.pointee = 0
    return port
}

@c @implementation
public func RLCFMachPortCreateWithPort(
    _ allocator: OpaquePointer?, _ name: UInt32,
    _ callout: (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?, Int, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafeMutablePointer<CFMachPortContext>?, _ shouldFreeInfo: UnsafeMutablePointer<UInt8>?
) -> OpaquePointer? {
    shouldFreeInfo?.pointee = 1
    return port(name)
}

@c @implementation
public func RLCFMachPortGetPort(_ port: OpaquePointer?) -> UInt32 { number(RLMachPortGetPort(port)) }

@c @implementation
public func RLCFMachPortGetContext(_ port: OpaquePointer?, _ context: UnsafeMutablePointer<CFMachPortContext>?) {
    guard let port, let context else { return }
    let plain = readBox {
        var own = RLMachPortContext()
        RLMachPortGetContext(port, &own)
        return PlainContext(own.info, own.retain, own.release)
    }
    context.pointee = CFMachPortContext(
        version: 0, info: plain.info, retain: plain.retain, release: plain.release, copyDescription: plain.describe)
}

@c @implementation
public func RLCFMachPortGetInvalidationCallBack(_ port: OpaquePointer?) -> (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void)? {
    unsafeBitCast(RLMachPortGetInvalidationCallBack(port), to: Invalidation?.self)
}

@c @implementation
public func RLCFMachPortSetInvalidationCallBack(
    _ port: OpaquePointer?, _ callout: (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void)?
) {
    RLMachPortSetInvalidationCallBack(port, unsafeBitCast(callout, to: RLMachPortInvalidationCallBack?.self))
}

@c @implementation
public func RLCFMachPortCreateRunLoopSource(_ allocator: OpaquePointer?, _ port: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    RLMachPortCreateRunLoopSource(port, order)
}

// MARK: Sending

@c @implementation
public func RLmach_msg(
    _ message: UnsafeMutablePointer<mach_msg_header_t>?, _ option: Int32, _ size: UInt32, _ receiveSize: UInt32,
    _ receiveName: UInt32, _ timeout: UInt32, _ notify: UInt32
) -> Int32 {
    if option & ~(MACH_SEND_MSG | MACH_SEND_TIMEOUT) != 0 || option & MACH_SEND_MSG == 0 {
        trap("mach_msg", "the options are not those of sending; messages are received by a run loop")
    }
    guard let message else { return Int32(MACH_SEND_INVALID_DATA) }
    if Int(size) < MemoryLayout<mach_msg_header_t>.size { return Int32(MACH_SEND_MSG_TOO_SMALL) }
    // MACH_MSGH_BITS_COMPLEX: ports or memory would have to travel along.
    if message.pointee.msgh_bits & 0x8000_0000 != 0 { return Int32(MACH_SEND_INVALID_TYPE) }
    guard let destination = port(message.pointee.msgh_remote_port) else { return Int32(MACH_SEND_INVALID_DEST) }
    defer { RLRelease(UnsafeRawPointer(destination)) }
    var reply: OpaquePointer?
    if message.pointee.msgh_local_port != 0 {
        reply = port(message.pointee.msgh_local_port)
        if reply == nil { return Int32(MACH_SEND_INVALID_REPLY) }
    }
    defer { if let reply { RLRelease(UnsafeRawPointer(reply)) } }
    let seconds = option & MACH_SEND_TIMEOUT != 0 ? Double(timeout) / 1000 : Double.infinity
    switch RLMachPortSend(destination, message.pointee.msgh_id, message, Int(size), reply, seconds) {
    case 0: return 0
    case -1: return Int32(MACH_SEND_TIMED_OUT)
    case -3: return Int32(MACH_SEND_INVALID_DEST)
    default: return Int32(MACH_SEND_INVALID_DATA)
    }
}

@c @implementation
public func RLmach_msg_send(_ message: UnsafeMutablePointer<mach_msg_header_t>?) -> Int32 {
    RLmach_msg(message, MACH_SEND_MSG, message?.pointee.msgh_size ?? 0, 0, 0, 0, 0)
}
