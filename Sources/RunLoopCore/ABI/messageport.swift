import CRunLoop
import Synchronization

// The functions of <runloop/messageport.h>.

@_cdecl("RLMessagePortGetTypeID") @implementation
public func RLMessagePortGetTypeID() -> UInt { UInt(ObjectType.messagePort.rawValue) }

@_cdecl("RLMessagePortCreateLocal") @implementation
public func RLMessagePortCreateLocal(
    _ name: UnsafePointer<CChar>?, _ callout: RLMessagePortCallBack?, _ context: UnsafeMutablePointer<RLMessagePortContext>?,
    _ shouldFreeInfo: UnsafeMutablePointer<Bool>?
) -> OpaquePointer? {
    let (port, isNew) = MessagePortPointer.makeLocal(name: name, callout: callout, context: ClientContext(context))
    shouldFreeInfo?.pointee = !isNew
    return port?.handle
}

@_cdecl("RLMessagePortCreateRemote") @implementation
public func RLMessagePortCreateRemote(_ name: UnsafePointer<CChar>?) -> OpaquePointer? {
    name.flatMap { MessagePortPointer.makeRemote(name: $0) }?.handle
}

@_cdecl("RLMessagePortIsRemote") @implementation
public func RLMessagePortIsRemote(_ ms: OpaquePointer?) -> Bool {
    object(ms, as: MessagePort.self, "RLMessagePortIsRemote")?.pointee.isRemote ?? false
}

@_cdecl("RLMessagePortGetName") @implementation
public func RLMessagePortGetName(_ ms: OpaquePointer?) -> UnsafePointer<CChar>? {
    guard let port = object(ms, as: MessagePort.self, "RLMessagePortGetName") else { return nil }
    MessagePortTable.lock()
    defer { MessagePortTable.unlock() }
    return port.pointee.name.map { UnsafePointer($0.bytes) }
}

@_cdecl("RLMessagePortSetName") @implementation
public func RLMessagePortSetName(_ ms: OpaquePointer?, _ newName: UnsafePointer<CChar>?) -> Bool {
    guard let port = object(ms, as: MessagePort.self, "RLMessagePortSetName"), let newName else { return false }
    return port.setName(newName)
}

@_cdecl("RLMessagePortGetContext") @implementation
public func RLMessagePortGetContext(_ ms: OpaquePointer?, _ context: UnsafeMutablePointer<RLMessagePortContext>?) {
    guard let port = object(ms, as: MessagePort.self, "RLMessagePortGetContext"), let context else { return }
    port.lock()
    let own = port.pointee.local.context
    port.unlock()
    context.pointee = RLMessagePortContext(own, isValid: port.isValid)
}

@_cdecl("RLMessagePortInvalidate") @implementation
public func RLMessagePortInvalidate(_ ms: OpaquePointer?) {
    object(ms, as: MessagePort.self, "RLMessagePortInvalidate")?.invalidate()
}

@_cdecl("RLMessagePortIsValid") @implementation
public func RLMessagePortIsValid(_ ms: OpaquePointer?) -> Bool {
    object(ms, as: MessagePort.self, "RLMessagePortIsValid")?.isReachable() ?? false
}

@_cdecl("RLMessagePortGetInvalidationCallBack") @implementation
public func RLMessagePortGetInvalidationCallBack(_ ms: OpaquePointer?) -> RLMessagePortInvalidationCallBack? {
    object(ms, as: MessagePort.self, "RLMessagePortGetInvalidationCallBack")?.storedInvalidationCallBack
}

@_cdecl("RLMessagePortSetInvalidationCallBack") @implementation
public func RLMessagePortSetInvalidationCallBack(_ ms: OpaquePointer?, _ callout: RLMessagePortInvalidationCallBack?) {
    object(ms, as: MessagePort.self, "RLMessagePortSetInvalidationCallBack")?.setInvalidationCallBack(callout)
}

@_cdecl("RLMessagePortSendRequest") @implementation
public func RLMessagePortSendRequest(
    _ remote: OpaquePointer?, _ msgid: Int32, _ bytes: UnsafeRawPointer?, _ length: Int, _ sendTimeout: Double,
    _ rcvTimeout: Double, _ replyMode: UnsafePointer<CChar>?, _ returnData: UnsafeMutablePointer<OpaquePointer?>?
) -> Int32 {
    let request = MessageRequest(
        msgid: msgid, bytes: bytes, length: length, descriptors: nil, descriptorCount: 0, sendTimeout: sendTimeout,
        receiveTimeout: rcvTimeout, replyMode: replyMode)
    return send(object(remote, as: MessagePort.self, "RLMessagePortSendRequest"), request, returnData)
}

@_cdecl("RLMessagePortSendRequestWithDescriptors") @implementation
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

@_cdecl("RLMessagePortBeginRequest") @implementation
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

@_cdecl("RLMessagePortCancelRequest") @implementation
public func RLMessagePortCancelRequest(_ remote: OpaquePointer?, _ request: UInt32) -> Bool {
    object(remote, as: MessagePort.self, "RLMessagePortCancelRequest")?.cancelRequest(request) ?? false
}

@_cdecl("RLMessagePortTakeDescriptors") @implementation
public func RLMessagePortTakeDescriptors(
    _ local: OpaquePointer?, _ descriptors: UnsafeMutablePointer<Int32>?, _ capacity: Int
) -> Int {
    object(local, as: MessagePort.self, "RLMessagePortTakeDescriptors")?.takeDescriptors(descriptors, capacity) ?? 0
}

@_cdecl("RLMessagePortCreateRunLoopSource") @implementation
public func RLMessagePortCreateRunLoopSource(_ local: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    object(local, as: MessagePort.self, "RLMessagePortCreateRunLoopSource")?.makeSource(order: order)?.handle
}

@_cdecl("RLMessagePortSetDispatchQueue") @implementation
public func RLMessagePortSetDispatchQueue(_ local: OpaquePointer?, _ queue: UnsafeMutableRawPointer?) {
    object(local, as: MessagePort.self, "RLMessagePortSetDispatchQueue")?.setDispatchQueue(queue)
}
