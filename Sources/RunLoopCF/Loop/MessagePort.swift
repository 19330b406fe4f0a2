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
    var free = false
    let port = withName(name, "CFMessagePortCreateLocal") { RLMessagePortCreateLocal($0, callout == nil ? nil : serveBox, &own, &free) }
    var kept = RLMessagePortContext()
    RLMessagePortGetContext(port, &kept)
    // What was set for a port that had this address, and was replaced there by a name of librunloop's.
    if !free, let port { rlcf_set_invalidation(UnsafeRawPointer(port), nil) }
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

private typealias OwnInvalidation = @convention(c) (OpaquePointer, UnsafeMutableRawPointer?) -> Void

private let invalidateBox: OwnInvalidation = { port, info in tellInvalid(port, info, info.map { BoxPointer(info: $0).pointee.info } ?? nil) }

/// Of a port that was made by a name of librunloop.
private let invalidatePlain: OwnInvalidation = { port, info in tellInvalid(port, info, info) }

private func tellInvalid(_ port: OpaquePointer, _ ownInfo: UnsafeMutableRawPointer?, _ info: UnsafeMutableRawPointer?) {
    // Before the calls, in which the thread may end.
    let former = forget(port)
    rlcf_take_invalidation(UnsafeRawPointer(port))?(UnsafeMutableRawPointer(port), info)
    former?(UnsafeMutableRawPointer(port), ownInfo)
}

/// S-CF-24. Whoever calls this has a reference until it returns. Returns the function that librunloop had to tell of the end before.
@discardableResult
private func forget(_ port: OpaquePointer) -> RLCFInvalidation? {
    var former: RLCFInvalidation?
    if rlcf_forget_port(UnsafeRawPointer(port), &former) { RLRelease(UnsafeRawPointer(port)) }
    return former
}

/// The function that tells of the end of a port, whose info may be a box.
private func invalidation(of port: OpaquePointer) -> OwnInvalidation {
    var own = RLMessagePortContext()
    RLMessagePortGetContext(port, &own)
    return areSame(own.release, boxRelease) ? invalidateBox : invalidatePlain
}

@c @implementation
public func RLCFMessagePortInvalidate(_ port: OpaquePointer?) {
    // In the child of `fork`, where ports are invalid, nobody has been told.
    if let port, !RLMessagePortIsValid(port) { forget(port) } else { RLMessagePortInvalidate(port) }
}

@c @implementation
public func RLCFMessagePortGetInvalidationCallBack(_ port: OpaquePointer?) -> (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void)? {
    let set = RLMessagePortGetInvalidationCallBack(port)
    guard areSame(set, invalidateBox) || areSame(set, invalidatePlain) else { return unsafeBitCast(set, to: Invalidation?.self) }
    return unsafeBitCast(rlcf_invalidation(UnsafeRawPointer(port)), to: Invalidation?.self)
}

@c @implementation
public func RLCFMessagePortSetInvalidationCallBack(
    _ port: OpaquePointer?, _ callout: (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void)?
) {
    guard let port else { return }
    let wasValid = RLMessagePortIsValid(port)
    rlcf_set_invalidation(UnsafeRawPointer(port), unsafeBitCast(callout, to: RLCFInvalidation?.self))
    // An invalid port calls it at once. Without one librunloop's stays: a port that has a source needs it, and another thread may have
    // set one meanwhile.
    if callout != nil {
        RLMessagePortSetInvalidationCallBack(port, invalidation(of: port))
    } else if let set = RLMessagePortGetInvalidationCallBack(port), !areSame(set, invalidateBox), !areSame(set, invalidatePlain) {
        RLMessagePortSetInvalidationCallBack(port, nil)
    }
    // One that was invalid has called it, or ignored it; one that becomes so takes it.
    if !wasValid { _ = rlcf_take_invalidation(UnsafeRawPointer(port)) }
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
    let kept = UnsafeRawPointer(port!)
    let own = invalidation(of: port!)
    let set = RLMessagePortGetInvalidationCallBack(port)
    _ = RLRetain(kept)
    let isOwn = areSame(set, own)
    // One by a name of librunloop's has replaced what was set here.
    if !isOwn && set != nil { rlcf_set_invalidation(kept, nil) }
    if rlcf_keep_port(kept, isOwn ? nil : unsafeBitCast(set, to: RLCFInvalidation?.self)) {
        // A port that has become invalid meanwhile calls it at once.
        RLMessagePortSetInvalidationCallBack(port, own)
    } else {
        RLRelease(kept)
    }
    return source
}
