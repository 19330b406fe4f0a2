// SPDX-License-Identifier: MIT
import CRunLoop
import Synchronization

// The functions of <runloop/machport.h>.

@c @implementation
public func RLMachPortGetTypeID() -> UInt { UInt(ObjectType.machPort.rawValue) }

@c @implementation
public func RLMachPortCreate(
    _ callout: RLMachPortCallBack?, _ context: UnsafeMutablePointer<RLMachPortContext>?, _ shouldFreeInfo: UnsafeMutablePointer<Bool>?
) -> OpaquePointer {
    shouldFreeInfo?.pointee = true
    let port = MachPortPointer.make(callout: callout, context: ClientContext(context))
    shouldFreeInfo?.pointee = false
    return port.handle
}

@c @implementation
public func RLMachPortCreateWithPort(
    _ port: Int32, _ callout: RLMachPortCallBack?, _ context: UnsafeMutablePointer<RLMachPortContext>?,
    _ shouldFreeInfo: UnsafeMutablePointer<Bool>?
) -> OpaquePointer? {
    shouldFreeInfo?.pointee = true
    return MachPortPointer.find(port)?.handle
}

@c @implementation
public func RLMachPortGetPort(_ port: OpaquePointer?) -> Int32 {
    object(port, as: MachPort.self, "RLMachPortGetPort")?.port() ?? -1
}

@c @implementation
public func RLMachPortGetContext(_ port: OpaquePointer?, _ context: UnsafeMutablePointer<RLMachPortContext>?) {
    guard let port = object(port, as: MachPort.self, "RLMachPortGetContext"), let context else { return }
    let own = port.pointee.context
    context.pointee = RLMachPortContext(own, isValid: port.isValid)
}

@c @implementation
public func RLMachPortInvalidate(_ port: OpaquePointer?) {
    object(port, as: MachPort.self, "RLMachPortInvalidate")?.invalidate()
}

@c @implementation
public func RLMachPortIsValid(_ port: OpaquePointer?) -> Bool {
    object(port, as: MachPort.self, "RLMachPortIsValid")?.isValid ?? false
}

@c @implementation
public func RLMachPortGetInvalidationCallBack(_ port: OpaquePointer?) -> RLMachPortInvalidationCallBack? {
    object(port, as: MachPort.self, "RLMachPortGetInvalidationCallBack")?.invalidationCallout
}

@c @implementation
public func RLMachPortSetInvalidationCallBack(_ port: OpaquePointer?, _ callout: RLMachPortInvalidationCallBack?) {
    object(port, as: MachPort.self, "RLMachPortSetInvalidationCallBack")?.setInvalidationCallout(callout)
}

@c @implementation
public func RLMachPortCreateRunLoopSource(_ port: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    object(port, as: MachPort.self, "RLMachPortCreateRunLoopSource")?.copySource(order: order)?.handle
}

@c @implementation
public func RLMachPortSetQueueLimit(_ port: OpaquePointer?, _ limit: Int) {
    object(port, as: MachPort.self, "RLMachPortSetQueueLimit")?.setLimit(limit)
}

@c @implementation
public func RLMachPortSend(
    _ port: OpaquePointer?, _ msgid: Int32, _ bytes: UnsafeRawPointer?, _ length: Int, _ replyPort: OpaquePointer?,
    _ timeout: Double
) -> Int32 {
    let replyPort = object(replyPort, as: MachPort.self, "RLMachPortSend")
    guard let port = object(port, as: MachPort.self, "RLMachPortSend") else { return Int32(kRLMessagePortIsInvalid) }
    let length = bytes == nil ? 0 : length
    // A negative value here is a length of more than half of the address space.
    guard length >= 0 else { return Int32(kRLMessagePortTransportError) }
    return port.send(msgid, bytes, length, replyPort, timeout: timeout)
}
