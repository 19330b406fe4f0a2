// SPDX-License-Identifier: MIT
import CRunLoopCF

// Sources: <CoreFoundation/CFRunLoop.h>. Their info is always a box: functions of equality have other types here, and two
// sources are equal by the client's functions.

private let equalBoxes: @convention(c) (UnsafeRawPointer?, UnsafeRawPointer?) -> Bool = { first, second in
    let (one, two) = (BoxPointer(info: first), BoxPointer(info: second))
    if one == two { return true }
    if !areSame(one.pointee.equal, two.pointee.equal) || !areSame(one.pointee.hash, two.pointee.hash)
        || !areSame(one.pointee.perform, two.pointee.perform)
    {
        return false
    }
    guard let equal = one.pointee.equal else { return one.pointee.info == two.pointee.info }
    return equal(one.pointee.info, two.pointee.info) != 0
}

private let hashBox: @convention(c) (UnsafeRawPointer?) -> UInt = { info in
    let box = BoxPointer(info: info)
    return box.pointee.hash.map { $0(box.pointee.info) } ?? UInt(bitPattern: box.pointee.info)
}

private typealias ModeFunction = @convention(c) (UnsafeMutableRawPointer?, UnsafeMutableRawPointer?, UnsafeRawPointer?) -> Void

private let scheduleBox: @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, UnsafePointer<CChar>?) -> Void = { info, loop, mode in
    let box = BoxPointer(info: info)
    let string = copyMode(mode!)
    rlcf_call_with_mode(unsafeBitCast(box.pointee.schedule, to: ModeFunction.self), box.pointee.info, UnsafeMutableRawPointer(loop), UnsafeRawPointer(string))
}

private let cancelBox: @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, UnsafePointer<CChar>?) -> Void = { info, loop, mode in
    let box = BoxPointer(info: info)
    let string = copyMode(mode!)
    rlcf_call_with_mode(unsafeBitCast(box.pointee.cancel, to: ModeFunction.self), box.pointee.info, UnsafeMutableRawPointer(loop), UnsafeRawPointer(string))
}

private let performBox: @convention(c) (UnsafeMutableRawPointer?) -> Void = { info in
    let box = BoxPointer(info: info)
    box.pointee.perform?(box.pointee.info)
}

private let portOfBox: @convention(c) (UnsafeMutableRawPointer?) -> Int32 = { info in
    let box = BoxPointer(info: info)
    return box.pointee.getPort.map { $0(box.pointee.info) } ?? -1
}

@c @implementation
public func RLCFRunLoopSourceCreate(
    _ allocator: OpaquePointer?, _ order: Int, _ context: UnsafeMutablePointer<CFRunLoopSourceContext>?
) -> OpaquePointer? {
    guard let context, context.pointee.version == 0 || context.pointee.version == 1 else { return nil }
    var box = Box()
    let source: OpaquePointer?
    if context.pointee.version == 0 {
        let given = context.pointee
        box = Box(
            info: given.info, retain: given.retain, release: given.release, describe: given.copyDescription, equal: given.equal,
            hash: given.hash, schedule: given.schedule, cancel: given.cancel, perform: given.perform)
        let info = BoxPointer.make(box)
        var own = RLSourceContext(
            version: 0, info: info, retain: info.retainFunction, release: boxRelease,
            copyDescription: given.copyDescription == nil ? nil : boxDescribe, equal: equalBoxes, hash: hashBox,
            schedule: given.schedule == nil ? nil : scheduleBox, cancel: given.cancel == nil ? nil : cancelBox,
            perform: given.perform == nil ? nil : performBox)
        source = RLSourceCreate(order, &own)
        info.settle(source, current: info)
    } else {
        let given = UnsafeMutableRawPointer(context).assumingMemoryBound(to: CFRunLoopSourceContext1.self).pointee
        box = Box(
            info: given.info, retain: given.retain, release: given.release, describe: given.copyDescription, equal: given.equal,
            hash: given.hash, perform: given.perform, getPort: given.getPort)
        let info = BoxPointer.make(box)
        var own = RLSourceContext1(
            version: 1, info: info, retain: info.retainFunction, release: boxRelease,
            copyDescription: given.copyDescription == nil ? nil : boxDescribe, equal: equalBoxes, hash: hashBox,
            getPort: given.getPort == nil ? nil : portOfBox, perform: given.perform == nil ? nil : performBox)
        source = withUnsafeMutablePointer(to: &own) {
            $0.withMemoryRebound(to: RLSourceContext.self, capacity: 1) { RLSourceCreate(order, $0) }
        }
        info.settle(source, current: info)
    }
    return source
}

@c @implementation
public func RLCFRunLoopSourceGetContext(_ source: OpaquePointer?, _ context: UnsafeMutablePointer<CFRunLoopSourceContext>?) {
    guard let source, let context else { return }
    // Room for either version; librunloop's structs are as long as CF's.
    var own = RLSourceContext()
    RLSourceGetContext(source, &own)
    guard let info = own.info, areSame(own.release, boxRelease) else {
        // A source that librunloop made: of a socket, a port, or of RLSourceCreate.
        RLSourceGetContext(source, UnsafeMutableRawPointer(context).assumingMemoryBound(to: RLSourceContext.self))
        return
    }
    let box = BoxPointer(info: info).pointee
    if own.version == 1 {
        UnsafeMutableRawPointer(context).assumingMemoryBound(to: CFRunLoopSourceContext1.self).pointee = CFRunLoopSourceContext1(
            version: 1, info: box.info, retain: box.retain, release: box.release, copyDescription: box.describe, equal: box.equal,
            hash: box.hash, getPort: box.getPort, perform: box.perform)
    } else if context.pointee.version == 1 {
        context.pointee.version = 0
    } else {
        context.pointee = CFRunLoopSourceContext(
            version: 0, info: box.info, retain: box.retain, release: box.release, copyDescription: box.describe, equal: box.equal,
            hash: box.hash, schedule: box.schedule, cancel: box.cancel, perform: box.perform)
    }
}
