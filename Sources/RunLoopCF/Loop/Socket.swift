// SPDX-License-Identifier: MIT
import CRunLoopCF

// <CoreFoundation/CFSocket.h>. librunloop's callback has the same arguments, because its data are CF's as well.

private let callBox: @convention(c) (OpaquePointer?, RLSocketCallBackType, OpaquePointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?)
    -> Void = { (socket, type, address, data, info) in
        let box = BoxPointer(info: info)
        guard let callout = box.pointee.callout else { return }
        let function = unsafeBitCast(callout, to: SocketCallBack.self)
        function(socket, UInt(type.rawValue), address, data, box.pointee.info)
    }

private typealias SocketCallBack =
    @convention(c) (OpaquePointer?, UInt, OpaquePointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void

/// Calls a Create function of librunloop with the context that it can call; a box that it has not taken over is freed.
private func make(
    _ callout: SocketCallBack?, _ context: UnsafePointer<CFSocketContext>?,
    _ create: (RLSocketCallBack?, UnsafePointer<RLSocketContext>?) -> OpaquePointer?
) -> OpaquePointer? {
    let direct = unsafeBitCast(callout, to: RLSocketCallBack?.self)
    guard let given = context?.pointee else { return create(direct, nil) }
    if given.copyDescription == nil {
        var own = RLSocketContext(version: 0, info: given.info, retain: given.retain, release: given.release, copyDescription: nil)
        return create(direct, &own)
    }
    let box = BoxPointer.make(Box(
        info: given.info, retain: given.retain, release: given.release, describe: given.copyDescription,
        callout: UnsafeRawPointer(bitPattern: address(callout))))
    var own = RLSocketContext(version: 0, info: box, retain: box.retainFunction, release: boxRelease, copyDescription: boxDescribe)
    let socket = create(callBox, &own)
    var kept = RLSocketContext()
    RLSocketGetContext(socket, &kept)
    // One that is valid without an info is another's. Where that has become invalid meanwhile, the box may be lost.
    let isOthers = socket != nil && kept.info == nil && RLSocketIsValid(socket)
    box.settle(isOthers ? nil : socket, current: kept.info)
    return socket
}

/// librunloop's signature for CF's, whose data may be of either kind.
private func withSignature<Result>(
    _ signature: UnsafePointer<CFSocketSignature>?, _ function: StaticString, _ body: (UnsafePointer<RLSocketSignature>?) -> Result
) -> Result {
    guard let given = signature?.pointee else { return body(nil) }
    let address = given.address.flatMap { runLoopData($0, function) }
    var own = RLSocketSignature(
        protocolFamily: given.protocolFamily, socketType: given.socketType, protocol: given.protocol, address: address)
    let result = body(&own)
    RLRelease(UnsafeRawPointer(address))
    return result
}

@c @implementation
public func RLCFSocketCreate(
    _ allocator: OpaquePointer?, _ family: Int32, _ type: Int32, _ proto: Int32, _ types: UInt,
    _ callout: (@convention(c) (OpaquePointer?, UInt, OpaquePointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafePointer<CFSocketContext>?
) -> OpaquePointer? {
    make(callout, context) { RLSocketCreate(family, type, proto, types, $0, $1) }
}

@c @implementation
public func RLCFSocketCreateWithNative(
    _ allocator: OpaquePointer?, _ native: Int32, _ types: UInt,
    _ callout: (@convention(c) (OpaquePointer?, UInt, OpaquePointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafePointer<CFSocketContext>?
) -> OpaquePointer? {
    make(callout, context) { RLSocketCreateWithNative(native, types, $0, $1) }
}

@c @implementation
public func RLCFSocketCreateWithSocketSignature(
    _ allocator: OpaquePointer?, _ signature: UnsafePointer<CFSocketSignature>?, _ types: UInt,
    _ callout: (@convention(c) (OpaquePointer?, UInt, OpaquePointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafePointer<CFSocketContext>?
) -> OpaquePointer? {
    withSignature(signature, "CFSocketCreateWithSocketSignature") { signature in
        make(callout, context) { RLSocketCreateWithSocketSignature(signature, types, $0, $1) }
    }
}

@c @implementation
public func RLCFSocketCreateConnectedToSocketSignature(
    _ allocator: OpaquePointer?, _ signature: UnsafePointer<CFSocketSignature>?, _ types: UInt,
    _ callout: (@convention(c) (OpaquePointer?, UInt, OpaquePointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafePointer<CFSocketContext>?, _ timeout: Double
) -> OpaquePointer? {
    withSignature(signature, "CFSocketCreateConnectedToSocketSignature") { signature in
        make(callout, context) { RLSocketCreateConnectedToSocketSignature(signature, types, $0, $1, timeout) }
    }
}

/// The bytes of an address or of data; NULL is none.
private func bytes(_ data: OpaquePointer?, _ function: StaticString) -> (start: UnsafePointer<UInt8>?, count: Int) {
    guard let data else { return (nil, 0) }
    let bytes = Bytes(data, function)
    return (bytes.start, bytes.count)
}

@c @implementation
public func RLCFSocketSetAddress(_ socket: OpaquePointer?, _ address: OpaquePointer?) -> Int {
    let address = bytes(address, "CFSocketSetAddress")
    return Int(RLSocketSetAddress(socket, address.start, address.count).rawValue)
}

@c @implementation
public func RLCFSocketConnectToAddress(_ socket: OpaquePointer?, _ address: OpaquePointer?, _ timeout: Double) -> Int {
    let address = bytes(address, "CFSocketConnectToAddress")
    return Int(RLSocketConnectToAddress(socket, address.start, address.count, timeout).rawValue)
}

@c @implementation
public func RLCFSocketGetContext(_ socket: OpaquePointer?, _ context: UnsafeMutablePointer<CFSocketContext>?) {
    guard let socket, let context else { return }
    let plain = readBox {
        var own = RLSocketContext()
        RLSocketGetContext(socket, &own)
        return PlainContext(own.info, own.retain, own.release)
    }
    context.pointee = CFSocketContext(
        version: 0, info: plain.info, retain: plain.retain, release: plain.release, copyDescription: plain.describe)
}

@c @implementation
public func RLCFSocketCreateRunLoopSource(_ allocator: OpaquePointer?, _ socket: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    RLSocketCreateRunLoopSource(socket, order)
}

@c @implementation
public func RLCFSocketSendData(_ socket: OpaquePointer?, _ address: OpaquePointer?, _ data: OpaquePointer?, _ timeout: Double) -> Int {
    let (address, data) = (bytes(address, "CFSocketSendData"), bytes(data, "CFSocketSendData"))
    return Int(RLSocketSendData(socket, address.start, address.count, data.start, data.count, timeout).rawValue)
}

// MARK: The name registry, whose server no system has

@c @implementation
public func RLCFSocketRegisterValue(
    _ server: UnsafePointer<CFSocketSignature>?, _ timeout: Double, _ name: OpaquePointer?, _ value: UnsafeRawPointer?
) -> Int { -1 }

@c @implementation
public func RLCFSocketCopyRegisteredValue(
    _ server: UnsafePointer<CFSocketSignature>?, _ timeout: Double, _ name: OpaquePointer?,
    _ value: UnsafeMutablePointer<UnsafeRawPointer?>?, _ address: UnsafeMutablePointer<OpaquePointer?>?
) -> Int {
    value?.pointee = nil
    address?.pointee = nil
    return -1
}

@c @implementation
public func RLCFSocketRegisterSocketSignature(
    _ server: UnsafePointer<CFSocketSignature>?, _ timeout: Double, _ name: OpaquePointer?,
    _ signature: UnsafePointer<CFSocketSignature>?
) -> Int { -1 }

@c @implementation
public func RLCFSocketCopyRegisteredSocketSignature(
    _ server: UnsafePointer<CFSocketSignature>?, _ timeout: Double, _ name: OpaquePointer?,
    _ signature: UnsafeMutablePointer<CFSocketSignature>?, _ address: UnsafeMutablePointer<OpaquePointer?>?
) -> Int {
    signature?.pointee = CFSocketSignature()
    address?.pointee = nil
    return -1
}

@c @implementation
public func RLCFSocketUnregister(_ server: UnsafePointer<CFSocketSignature>?, _ timeout: Double, _ name: OpaquePointer?) -> Int { -1 }
