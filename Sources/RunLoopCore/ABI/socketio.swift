// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

// The functions of <runloop/socketio.h>.

/// A count, or a negative errno, as C gets it; nil is a NULL socket.
private func answer(_ result: Int?) -> Int {
    let result = result ?? -Int(EBADF)
    guard result < 0 else { return result }
    rl_set_errno(Int32(-result))
    return -1
}

@c @implementation
public func RLSocketSend(
    _ s: OpaquePointer?, _ address: UnsafeRawPointer?, _ addressLength: Int, _ bytes: UnsafeRawPointer?, _ length: Int
) -> Int {
    answer(object(s, as: Socket.self, "RLSocketSend")?.sendNow(to: address, addressLength, bytes, length))
}

@c @implementation
public func RLSocketWrite(_ s: OpaquePointer?, _ bytes: UnsafeRawPointer?, _ length: Int, _ highWater: Int) -> Int {
    answer(object(s, as: Socket.self, "RLSocketWrite")?.write(bytes, length, highWater: UInt(bitPattern: highWater)))
}

@c @implementation
public func RLSocketClose(_ s: OpaquePointer?, _ how: RLSocketCloseType) -> RLSocketError {
    result(object(s, as: Socket.self, "RLSocketClose")?.close(how.rawValue))
}

@c @implementation
public func RLSocketListen(
    _ s: OpaquePointer?, _ address: UnsafeRawPointer?, _ length: Int, _ options: UInt, _ backlog: Int32
) -> RLSocketError {
    result(
        object(s, as: Socket.self, "RLSocketListen")?.setAddress(
            address, length, on: options, off: SocketOption.ofAddress & ~options, backlog: backlog))
}

@c @implementation
public func RLSocketSetOptions(_ s: OpaquePointer?, _ options: UInt, _ on: Bool) -> RLSocketError {
    result(object(s, as: Socket.self, "RLSocketSetOptions")?.setOptions(options, on))
}

@c @implementation
public func RLSocketSendDescriptors(
    _ s: OpaquePointer?, _ bytes: UnsafeRawPointer?, _ length: Int, _ descriptors: UnsafePointer<Int32>?, _ count: Int
) -> Int {
    answer(object(s, as: Socket.self, "RLSocketSendDescriptors")?.sendDescriptors(bytes, length, descriptors, count))
}

@c @implementation
public func RLSocketReceive(
    _ s: OpaquePointer?, _ bytes: UnsafeMutableRawPointer?, _ capacity: Int, _ ancillary: UnsafeMutablePointer<RLSocketAncillary>?
) -> Int {
    let socket = object(s, as: Socket.self, "RLSocketReceive")
    guard let ancillary else { return answer(socket?.receive(bytes, capacity, nil, 0, nil)) }
    var received = rl_received()
    let room = ancillary.pointee.descriptors == nil ? 0 : ancillary.pointee.room
    let result = socket?.receive(bytes, capacity, ancillary.pointee.descriptors, room, &received)
    ancillary.pointee.count = received.count
    ancillary.pointee.lostDescriptors = received.lost_descriptors
    ancillary.pointee.hasCredentials = received.has_credentials
    ancillary.pointee.process = received.process
    ancillary.pointee.user = received.user
    ancillary.pointee.group = received.group
    return answer(result)
}
