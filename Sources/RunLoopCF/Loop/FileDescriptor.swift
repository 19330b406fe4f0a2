// SPDX-License-Identifier: MIT
import CRunLoopCF

// <CoreFoundation/CFFileDescriptor.h>. Here, too, a context without copyDescription is librunloop's own.

private let callBox: @convention(c) (OpaquePointer?, UInt, UnsafeMutableRawPointer?) -> Void = { file, types, info in
    let box = BoxPointer(info: info)
    guard let callout = box.pointee.callout else { return }
    unsafeBitCast(callout, to: (@convention(c) (OpaquePointer?, UInt, UnsafeMutableRawPointer?) -> Void).self)(
        file, types, box.pointee.info)
}

// The same functions with pointers that are not const.
private let retainBox: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = {
    UnsafeMutableRawPointer(mutating: boxRetain($0))
}
private let releaseBox: @convention(c) (UnsafeMutableRawPointer?) -> Void = { boxRelease($0) }
private let describeBox: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutablePointer<CChar>? = { boxDescribe($0) }

@c @implementation
public func RLCFFileDescriptorCreate(
    _ allocator: OpaquePointer?, _ native: Int32, _ closes: UInt8,
    _ callout: (@convention(c) (OpaquePointer?, UInt, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafePointer<CFFileDescriptorContext>?
) -> OpaquePointer? {
    guard let given = context?.pointee else { return RLFileDescriptorCreate(native, closes != 0, callout, nil) }
    if given.copyDescription == nil {
        var own = RLFileDescriptorContext(
            version: 0, info: given.info, retain: given.retain, release: given.release, copyDescription: nil)
        return RLFileDescriptorCreate(native, closes != 0, callout, &own)
    }
    let box = BoxPointer.make(Box(
        info: given.info, retain: unsafeBitCast(given.retain, to: RetainFunction?.self),
        release: unsafeBitCast(given.release, to: ReleaseFunction?.self),
        describe: unsafeBitCast(given.copyDescription, to: DescribeFunction?.self),
        callout: UnsafeRawPointer(bitPattern: address(callout))))
    var own = RLFileDescriptorContext(
        version: 0, info: box, retain: given.retain == nil ? nil : retainBox, release: releaseBox, copyDescription: describeBox)
    let file = RLFileDescriptorCreate(native, closes != 0, callBox, &own)
    box.settle(file, current: box)
    return file
}

@c @implementation
public func RLCFFileDescriptorGetContext(_ file: OpaquePointer?, _ context: UnsafeMutablePointer<CFFileDescriptorContext>?) {
    guard let file, let context else { return }
    var own = RLFileDescriptorContext()
    let box: Box? = readBox {
        RLFileDescriptorGetContext(file, &own)
        return areSame(own.release, releaseBox) ? own.info.map { BoxPointer(info: $0).pointee } ?? Box() : nil
    }
    guard let box else {
        context.pointee = CFFileDescriptorContext(
            version: 0, info: own.info, retain: own.retain, release: own.release, copyDescription: nil)
        return
    }
    context.pointee = CFFileDescriptorContext(
        version: 0, info: box.info,
        retain: unsafeBitCast(box.retain, to: (@convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?)?.self),
        release: unsafeBitCast(box.release, to: (@convention(c) (UnsafeMutableRawPointer?) -> Void)?.self),
        copyDescription: unsafeBitCast(box.describe, to: (@convention(c) (UnsafeMutableRawPointer?) -> OpaquePointer?)?.self))
}

@c @implementation
public func RLCFFileDescriptorCreateRunLoopSource(_ allocator: OpaquePointer?, _ file: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    RLFileDescriptorCreateRunLoopSource(file, order)
}
