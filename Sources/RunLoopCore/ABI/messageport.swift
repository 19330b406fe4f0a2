// SPDX-License-Identifier: MIT
import CRunLoop
import Synchronization

// The functions of <runloop/messageport.h>.

@c @implementation
public func RLMessagePortGetTypeID() -> UInt { UInt(ObjectType.messagePort.rawValue) }

@c @implementation
public func RLMessagePortCreateLocal(
    _ name: UnsafePointer<CChar>?, _ callout: RLMessagePortCallBack?, _ context: UnsafeMutablePointer<RLMessagePortContext>?,
    _ shouldFreeInfo: UnsafeMutablePointer<Bool>?
) -> OpaquePointer? {
    let (port, isNew) = MessagePortPointer.makeLocal(name: name, callout: callout, context: ClientContext(context))
    shouldFreeInfo?.pointee = !isNew
    return port?.handle
}

@c @implementation
public func RLMessagePortCreateRemote(_ name: UnsafePointer<CChar>?) -> OpaquePointer? {
    name.flatMap { MessagePortPointer.makeRemote(name: $0) }?.handle
}

@c @implementation
public func RLMessagePortIsRemote(_ ms: OpaquePointer?) -> Bool {
    object(ms, as: MessagePort.self, "RLMessagePortIsRemote")?.pointee.isRemote ?? false
}

@c @implementation
public func RLMessagePortGetName(_ ms: OpaquePointer?) -> UnsafePointer<CChar>? {
    guard let port = object(ms, as: MessagePort.self, "RLMessagePortGetName") else { return nil }
    MessagePortTable.lock()
    defer { MessagePortTable.unlock() }
    return port.pointee.name.map { UnsafePointer($0.bytes) }
}

@c @implementation
public func RLMessagePortSetName(_ ms: OpaquePointer?, _ newName: UnsafePointer<CChar>?) -> Bool {
    guard let port = object(ms, as: MessagePort.self, "RLMessagePortSetName"), let newName else { return false }
    return port.setName(newName)
}

@c @implementation
public func RLMessagePortGetContext(_ ms: OpaquePointer?, _ context: UnsafeMutablePointer<RLMessagePortContext>?) {
    guard let port = object(ms, as: MessagePort.self, "RLMessagePortGetContext"), let context else { return }
    port.lock()
    let own = port.pointee.local.context
    port.unlock()
    context.pointee = RLMessagePortContext(own, isValid: port.isValid)
}

@c @implementation
public func RLMessagePortInvalidate(_ ms: OpaquePointer?) {
    object(ms, as: MessagePort.self, "RLMessagePortInvalidate")?.invalidate()
}

@c @implementation
public func RLMessagePortIsValid(_ ms: OpaquePointer?) -> Bool {
    object(ms, as: MessagePort.self, "RLMessagePortIsValid")?.isReachable() ?? false
}

@c @implementation
public func RLMessagePortGetInvalidationCallBack(_ ms: OpaquePointer?) -> RLMessagePortInvalidationCallBack? {
    object(ms, as: MessagePort.self, "RLMessagePortGetInvalidationCallBack")?.storedInvalidationCallBack
}

@c @implementation
public func RLMessagePortSetInvalidationCallBack(_ ms: OpaquePointer?, _ callout: RLMessagePortInvalidationCallBack?) {
    object(ms, as: MessagePort.self, "RLMessagePortSetInvalidationCallBack")?.setInvalidationCallBack(callout)
}

@c @implementation
public func RLMessagePortSendRequest(
    _ remote: OpaquePointer?, _ msgid: Int32, _ bytes: UnsafeRawPointer?, _ length: Int, _ sendTimeout: Double,
    _ rcvTimeout: Double, _ replyMode: UnsafePointer<CChar>?, _ returnData: UnsafeMutablePointer<OpaquePointer?>?
) -> Int32 {
    let request = MessageRequest(
        msgid: msgid, bytes: bytes, length: length, descriptors: nil, descriptorCount: 0, sendTimeout: sendTimeout,
        receiveTimeout: rcvTimeout, replyMode: replyMode)
    return send(object(remote, as: MessagePort.self, "RLMessagePortSendRequest"), request, returnData)
}

@c @implementation
public func RLMessagePortSendRequestWithDescriptors(
    _ remote: OpaquePointer?, _ msgid: Int32, _ bytes: UnsafeRawPointer?, _ length: Int, _ descriptors: UnsafePointer<Int32>?,
    _ count: Int, _ sendTimeout: Double, _ rcvTimeout: Double, _ replyMode: UnsafePointer<CChar>?,
    _ returnData: UnsafeMutablePointer<OpaquePointer?>?
) -> Int32 {
    let request = MessageRequest(
        msgid: msgid, bytes: bytes, length: length, descriptors: descriptors, descriptorCount: count, sendTimeout: sendTimeout,
        receiveTimeout: rcvTimeout, replyMode: replyMode)
    return send(object(remote, as: MessagePort.self, "RLMessagePortSendRequestWithDescriptors"), request, returnData)
}

private func send(
    _ port: MessagePortPointer?, _ request: MessageRequest, _ returnData: UnsafeMutablePointer<OpaquePointer?>?
) -> Int32 {
    guard let port else { return MessagePortCode.isInvalid }
    let (code, data) = port.send(request)
    if let data {
        if let returnData { returnData.pointee = data.handle } else { data.release() }
    }
    return code
}

@c @implementation
public func RLMessagePortBeginRequest(
    _ remote: OpaquePointer?, _ msgid: Int32, _ bytes: UnsafeRawPointer?, _ length: Int, _ descriptors: UnsafePointer<Int32>?,
    _ count: Int, _ sendTimeout: Double, _ loop: OpaquePointer?, _ mode: UnsafePointer<CChar>?,
    _ callout: RLMessagePortReplyCallBack?, _ info: UnsafeMutableRawPointer?, _ request: UnsafeMutablePointer<UInt32>?
) -> Int32 {
    let what = MessageRequest(
        msgid: msgid, bytes: bytes, length: length, descriptors: descriptors, descriptorCount: count, sendTimeout: sendTimeout,
        receiveTimeout: 0, replyMode: nil)
    guard let port = object(remote, as: MessagePort.self, "RLMessagePortBeginRequest") else { return MessagePortCode.isInvalid }
    guard let loop = object(loop, as: RunLoop.self, "RLMessagePortBeginRequest"), let mode, let callout else {
        return MessagePortCode.transportError
    }
    return port.begin(what, on: loop, in: ModeName(mode), callout, info, request)
}

@c @implementation
public func RLMessagePortCancelRequest(_ remote: OpaquePointer?, _ request: UInt32) -> Bool {
    object(remote, as: MessagePort.self, "RLMessagePortCancelRequest")?.cancelRequest(request) ?? false
}

@c @implementation
public func RLMessagePortTakeDescriptors(
    _ local: OpaquePointer?, _ descriptors: UnsafeMutablePointer<Int32>?, _ capacity: Int
) -> Int {
    object(local, as: MessagePort.self, "RLMessagePortTakeDescriptors")?.takeDescriptors(descriptors, capacity) ?? 0
}

@c @implementation
public func RLMessagePortCreateRunLoopSource(_ local: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    object(local, as: MessagePort.self, "RLMessagePortCreateRunLoopSource")?.makeSource(order: order)?.handle
}

@c @implementation
public func RLMessagePortSetDispatchQueue(_ local: OpaquePointer?, _ queue: UnsafeMutableRawPointer?) {
    object(local, as: MessagePort.self, "RLMessagePortSetDispatchQueue")?.setDispatchQueue(queue)
}

@c @implementation
public func RLMessagePortKeep_(_ local: OpaquePointer?) {
    object(local, as: MessagePort.self, "RLMessagePortKeep_")?.keep()
}

@c @implementation
public func RLSetReleaseOfBoxes_(_ release: (@convention(c) (UnsafeRawPointer?) -> Void)?) {
    process.pointee.releaseOfBoxes.store(unsafeBitCast(release, to: UInt.self), ordering: .relaxed)
}
