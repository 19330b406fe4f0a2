// SPDX-License-Identifier: MIT
import CRunLoopCF

// <CoreFoundation/CFMessagePort.h>. A local port's info is always a box, because the reply may be data of this library.

private typealias Callout = @convention(c) (OpaquePointer?, Int32, OpaquePointer?, UnsafeMutableRawPointer?) -> OpaquePointer?
private typealias Invalidation = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void

private struct Request {
    var port: OpaquePointer?
    var id: Int32
    var bytes: UnsafeRawPointer?
    var length: Int
    var sendTimeout: Double
    var receiveTimeout: Double
    var reply: UnsafeMutablePointer<OpaquePointer?>?
    var code: Int32 = 0
}

private let serveBox: @convention(c) (OpaquePointer, Int32, OpaquePointer, UnsafeMutableRawPointer?) -> OpaquePointer? = {
    port, id, data, info in
    let box = BoxPointer(info: info)
    guard let callout = box.pointee.callout,
        let reply = unsafeBitCast(callout, to: Callout.self)(port, id, data, box.pointee.info)
    else { return nil }
    if rlcf_kind(UnsafeRawPointer(reply)) == UInt32(RLDataGetTypeID()) { return reply }
    let copy = runLoopData(reply, "CFMessagePortCallBack")
    RLCFRelease(UnsafeRawPointer(reply))
    return copy
}

@c @implementation
public func RLCFMessagePortCreateLocal(
    _ allocator: OpaquePointer?, _ name: OpaquePointer?,
    _ callout: (@convention(c) (OpaquePointer?, Int32, OpaquePointer?, UnsafeMutableRawPointer?) -> OpaquePointer?)?,
    _ context: UnsafeMutablePointer<CFMessagePortContext>?, _ shouldFreeInfo: UnsafeMutablePointer<UInt8>?
) -> OpaquePointer? {
    let given = context?.pointee
    let box = BoxPointer.make(Box(
        info: given?.info, retain: given?.retain, release: given?.release, describe: given?.copyDescription,
        callout: UnsafeRawPointer(bitPattern: address(callout))))
    var own = RLMessagePortContext(
        version: 0, info: box, retain: box.retainFunction, release: boxRelease,
        copyDescription: given?.copyDescription == nil ? nil : boxDescribe)
    RLSetReleaseOfBoxes_(boxRelease)
    var free = false
    let port = withName(name, "CFMessagePortCreateLocal") { RLMessagePortCreateLocal($0, callout == nil ? nil : serveBox, &own, &free) }
    var kept = RLMessagePortContext()
    RLMessagePortGetContext(port, &kept)
    box.settle(free ? nil : port, current: kept.info)
    shouldFreeInfo?.pointee = free ? 1 : 0
    return port
}

@c @implementation
public func RLCFMessagePortCreateRemote(_ allocator: OpaquePointer?, _ name: OpaquePointer?) -> OpaquePointer? {
    withName(name, "CFMessagePortCreateRemote") { RLMessagePortCreateRemote($0) }
}

@c @implementation
public func RLCFMessagePortGetName(_ port: OpaquePointer?) -> OpaquePointer? {
    guard let name = RLMessagePortGetName(port) else { return nil }
    return OpaquePointer(interned(name).pointee.string)
}

@c @implementation
public func RLCFMessagePortSetName(_ port: OpaquePointer?, _ name: OpaquePointer?) -> UInt8 {
    withName(name, "CFMessagePortSetName") { RLMessagePortSetName(port, $0) } ? 1 : 0
}

@c @implementation
public func RLCFMessagePortGetContext(_ port: OpaquePointer?, _ context: UnsafeMutablePointer<CFMessagePortContext>?) {
    guard let port, let context else { return }
    let plain = readBox {
        var own = RLMessagePortContext()
        RLMessagePortGetContext(port, &own)
        return PlainContext(own.info, own.retain, own.release)
    }
    context.pointee = CFMessagePortContext(
        version: 0, info: plain.info, retain: plain.retain, release: plain.release, copyDescription: plain.describe)
}

@c @implementation
public func RLCFMessagePortInvalidate(_ port: OpaquePointer?) { RLMessagePortInvalidate(port) }

@c @implementation
public func RLCFMessagePortGetInvalidationCallBack(_ port: OpaquePointer?) -> (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void)? {
    unsafeBitCast(RLMessagePortGetInvalidationCallBack(port), to: Invalidation?.self)
}

@c @implementation
public func RLCFMessagePortSetInvalidationCallBack(
    _ port: OpaquePointer?, _ callout: (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void)?
) {
    RLMessagePortSetInvalidationCallBack(port, unsafeBitCast(callout, to: RLMessagePortInvalidationCallBack?.self))
}

@c @implementation
public func RLCFMessagePortSendRequest(
    _ port: OpaquePointer?, _ id: Int32, _ data: OpaquePointer?, _ sendTimeout: Double, _ receiveTimeout: Double,
    _ replyMode: OpaquePointer?, _ reply: UnsafeMutablePointer<OpaquePointer?>?
) -> Int32 {
    let bytes = data.map { Bytes($0, "CFMessagePortSendRequest") }
    rlcf_attach_main_queue()
    var request = Request(
        port: port, id: id, bytes: bytes?.start, length: bytes?.count ?? 0, sendTimeout: sendTimeout, receiveTimeout: receiveTimeout, reply: reply)
    callWithName(replyMode, "CFMessagePortSendRequest", { mode, arguments in
        let request = arguments!.assumingMemoryBound(to: Request.self)
        let given = request.pointee
        request.pointee.code = RLMessagePortSendRequest(
            given.port, given.id, given.bytes, given.length, given.sendTimeout, given.receiveTimeout, mode, given.reply)
    }, &request)
    return request.code
}

@c @implementation
public func RLCFMessagePortCreateRunLoopSource(_ allocator: OpaquePointer?, _ port: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    guard let source = RLMessagePortCreateRunLoopSource(port, order) else { return nil }
    // CoreFoundation's source retains the port, which has the source until it is invalid (S-CF-24); librunloop's retains nothing.
    RLMessagePortKeep_(port)
    return source
}
