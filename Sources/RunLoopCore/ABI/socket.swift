// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

// The functions of <runloop/socket.h>.

@c @implementation
public func RLSocketGetTypeID() -> UInt { UInt(ObjectType.socket.rawValue) }

/// Passes the parts of a context to one call that makes a socket.
private func makeSocket(
    _ native: Int32, _ types: UInt, _ callout: RLSocketCallBack?, _ context: UnsafePointer<RLSocketContext>?
) -> SocketPointer {
    return SocketPointer.make(
        native: native, types: types, callout: unsafeBitCast(callout, to: SocketFunction?.self), info: context?.pointee.info,
        functions: ClientContext(context).functions)
}

@c @implementation
public func RLSocketCreate(
    _ protocolFamily: Int32, _ socketType: Int32, _ protocol: Int32, _ callBackTypes: UInt, _ callout: RLSocketCallBack?,
    _ context: UnsafePointer<RLSocketContext>?
) -> OpaquePointer? {
    let native = openSocket(protocolFamily, socketType, `protocol`)
    return native < 0 ? nil : makeSocket(native, callBackTypes, callout, context).handle
}

/// S-SOCK-6.
private func openSocket(_ family: Int32, _ type: Int32, _ protocolNumber: Int32) -> Int32 {
    guard family <= 0 || family == PF_INET else { return rl_socket_open(family, type, protocolNumber) }
    let type = type <= 0 ? rl_sock_stream() : type
    var number = protocolNumber
    if number <= 0 {
        number = type == rl_sock_stream() ? Int32(IPPROTO_TCP) : type == rl_sock_dgram() ? Int32(IPPROTO_UDP) : 0
    }
    return rl_socket_open(PF_INET, type, number)
}

@c @implementation
public func RLSocketCreateWithNative(
    _ sock: RLSocketNativeHandle, _ callBackTypes: UInt, _ callout: RLSocketCallBack?, _ context: UnsafePointer<RLSocketContext>?
) -> OpaquePointer? {
    makeSocket(sock, callBackTypes, callout, context).handle
}

@c @implementation
public func RLSocketCreateWithSocketSignature(
    _ signature: UnsafePointer<RLSocketSignature>?, _ callBackTypes: UInt, _ callout: RLSocketCallBack?,
    _ context: UnsafePointer<RLSocketContext>?
) -> OpaquePointer? {
    makeSocket(signature, callBackTypes, callout, context, "RLSocketCreateWithSocketSignature") { $0.setAddress($1, $2) }
}

@c @implementation
public func RLSocketCreateConnectedToSocketSignature(
    _ signature: UnsafePointer<RLSocketSignature>?, _ callBackTypes: UInt, _ callout: RLSocketCallBack?,
    _ context: UnsafePointer<RLSocketContext>?, _ timeout: Double
) -> OpaquePointer? {
    makeSocket(signature, callBackTypes, callout, context, "RLSocketCreateConnectedToSocketSignature") {
        $0.connect($1, $2, timeout: timeout)
    }
}

/// S-SOCK-7: a socket that was made but cannot be given its address is invalidated.
private func makeSocket(
    _ signature: UnsafePointer<RLSocketSignature>?, _ types: UInt, _ callout: RLSocketCallBack?,
    _ context: UnsafePointer<RLSocketContext>?, _ function: StaticString,
    _ finish: (SocketPointer, UnsafeRawPointer?, Int) -> SocketResult
) -> OpaquePointer? {
    guard let signature else { return nil }
    let address = object(signature.pointee.address, as: Data.self, function)
    let native = openSocket(signature.pointee.protocolFamily, signature.pointee.socketType, signature.pointee.protocol)
    guard native >= 0 else { return nil }
    let socket = makeSocket(native, types, callout, context)
    let outcome = finish(socket, address.map { UnsafeRawPointer($0.bytes) }, address?.pointee.length ?? 0)
    if outcome == .success { return socket.handle }
    socket.invalidate()
    socket.release()
    return nil
}

@c @implementation
public func RLSocketSetAddress(_ s: OpaquePointer?, _ address: UnsafeRawPointer?, _ length: Int) -> RLSocketError {
    result(object(s, as: Socket.self, "RLSocketSetAddress")?.setAddress(address, length))
}

@c @implementation
public func RLSocketConnectToAddress(
    _ s: OpaquePointer?, _ address: UnsafeRawPointer?, _ length: Int, _ timeout: Double
) -> RLSocketError {
    result(object(s, as: Socket.self, "RLSocketConnectToAddress")?.connect(address, length, timeout: timeout))
}

/// The result as C gets it; nil is a NULL socket.
func result(_ result: SocketResult?) -> RLSocketError {
    RLSocketError(rawValue: (result ?? .error).rawValue)!
}

@c @implementation
public func RLSocketInvalidate(_ s: OpaquePointer?) {
    object(s, as: Socket.self, "RLSocketInvalidate")?.invalidate()
}

@c @implementation
public func RLSocketIsValid(_ s: OpaquePointer?) -> Bool {
    object(s, as: Socket.self, "RLSocketIsValid")?.isStillOpen() ?? false
}

@c @implementation
public func RLSocketCopyAddress(_ s: OpaquePointer?) -> OpaquePointer? {
    object(s, as: Socket.self, "RLSocketCopyAddress")?.copyAddress()?.handle
}

@c @implementation
public func RLSocketCopyPeerAddress(_ s: OpaquePointer?) -> OpaquePointer? {
    guard let socket = object(s, as: Socket.self, "RLSocketCopyPeerAddress"), socket.isStillOpen() else { return nil }
    return socket.copyPeerAddress()?.handle
}

@c @implementation
public func RLSocketGetContext(_ s: OpaquePointer?, _ context: UnsafeMutablePointer<RLSocketContext>?) {
    guard let socket = object(s, as: Socket.self, "RLSocketGetContext"), let context else { return }
    let functions = socket.pointee.callbacks.pointee.functions
    context.pointee = RLSocketContext(
        version: 0, info: socket.isValid ? socket.pointee.info : nil, retain: functions.retain, release: functions.release,
        copyDescription: functions.copyDescription)
}

@c @implementation
public func RLSocketGetNative(_ s: OpaquePointer?) -> RLSocketNativeHandle {
    guard let socket = object(s, as: Socket.self, "RLSocketGetNative"), socket.isStillOpen() else { return -1 }
    return socket.native
}

@c @implementation
public func RLSocketCreateRunLoopSource(_ s: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    object(s, as: Socket.self, "RLSocketCreateRunLoopSource")?.copySource(order: order)?.handle
}

@c @implementation
public func RLSocketGetSocketFlags(_ s: OpaquePointer?) -> UInt {
    object(s, as: Socket.self, "RLSocketGetSocketFlags")?.pointee.flags.load(ordering: .relaxed) ?? 0
}

@c @implementation
public func RLSocketSetSocketFlags(_ s: OpaquePointer?, _ flags: UInt) {
    object(s, as: Socket.self, "RLSocketSetSocketFlags")?.pointee.flags.store(flags, ordering: .relaxed)
}

@c @implementation
public func RLSocketDisableCallBacks(_ s: OpaquePointer?, _ callBackTypes: UInt) {
    guard let socket = object(s, as: Socket.self, "RLSocketDisableCallBacks"), socket.isStillOpen() else { return }
    socket.disable(callBackTypes)
}

@c @implementation
public func RLSocketEnableCallBacks(_ s: OpaquePointer?, _ callBackTypes: UInt) {
    guard let socket = object(s, as: Socket.self, "RLSocketEnableCallBacks"), socket.isStillOpen() else { return }
    socket.enable(callBackTypes)
}

@c @implementation
public func RLSocketSendData(
    _ s: OpaquePointer?, _ address: UnsafeRawPointer?, _ addressLength: Int, _ bytes: UnsafeRawPointer?, _ length: Int,
    _ timeout: Double
) -> RLSocketError {
    result(object(s, as: Socket.self, "RLSocketSendData")?.send(to: address, addressLength, bytes, length, timeout: timeout))
}

// MARK: The name registry, which no longer exists on any system (S-SOCK-49)

@c @implementation
public func RLSocketRegisterValue(
    _ nameServer: UnsafePointer<RLSocketSignature>?, _ timeout: Double, _ name: UnsafePointer<CChar>?,
    _ bytes: UnsafeRawPointer?, _ length: Int
) -> RLSocketError { result(.error) }

@c @implementation
public func RLSocketCopyRegisteredValue(
    _ nameServer: UnsafePointer<RLSocketSignature>?, _ timeout: Double, _ name: UnsafePointer<CChar>?,
    _ value: UnsafeMutablePointer<OpaquePointer?>?, _ nameServerAddress: UnsafeMutablePointer<OpaquePointer?>?
) -> RLSocketError {
    value?.pointee = nil
    nameServerAddress?.pointee = nil
    return result(.error)
}

@c @implementation
public func RLSocketRegisterSocketSignature(
    _ nameServer: UnsafePointer<RLSocketSignature>?, _ timeout: Double, _ name: UnsafePointer<CChar>?,
    _ signature: UnsafePointer<RLSocketSignature>?
) -> RLSocketError { result(.error) }

@c @implementation
public func RLSocketCopyRegisteredSocketSignature(
    _ nameServer: UnsafePointer<RLSocketSignature>?, _ timeout: Double, _ name: UnsafePointer<CChar>?,
    _ signature: UnsafeMutablePointer<RLSocketSignature>?, _ nameServerAddress: UnsafeMutablePointer<OpaquePointer?>?
) -> RLSocketError {
    signature?.pointee = RLSocketSignature()
    nameServerAddress?.pointee = nil
    return result(.error)
}

@c @implementation
public func RLSocketUnregister(
    _ nameServer: UnsafePointer<RLSocketSignature>?, _ timeout: Double, _ name: UnsafePointer<CChar>?
) -> RLSocketError { result(.error) }

@c @implementation
public func RLSocketSetDefaultNameRegistryPortNumber(_ port: UInt16) {
    process.pointee.nameRegistryPort.store(port ^ 2454, ordering: .relaxed)
}

@c @implementation
public func RLSocketGetDefaultNameRegistryPortNumber() -> UInt16 {
    process.pointee.nameRegistryPort.load(ordering: .relaxed) ^ 2454
}
