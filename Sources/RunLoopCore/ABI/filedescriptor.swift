// SPDX-License-Identifier: MIT
import CRunLoop
import Synchronization

// The functions of <runloop/filedescriptor.h>.

@c @implementation
public func RLFileDescriptorGetTypeID() -> UInt { UInt(ObjectType.fileDescriptor.rawValue) }

@c @implementation
public func RLFileDescriptorCreate(
    _ fd: RLFileDescriptorNativeDescriptor, _ closeOnInvalidate: Bool, _ callout: RLFileDescriptorCallBack?,
    _ context: UnsafePointer<RLFileDescriptorContext>?
) -> OpaquePointer? {
    guard let callout, fd >= 0 else { return nil }
    var functions = SourceFunctions()
    if let context {
        functions.retain = unsafeBitCast(context.pointee.retain, to: RetainFunction?.self)
        functions.release = unsafeBitCast(context.pointee.release, to: ReleaseFunction?.self)
        functions.copyDescription = unsafeBitCast(context.pointee.copyDescription, to: DescribeFunction?.self)
    }
    return FileDescriptorPointer.make(
        descriptor: fd, closesOnInvalidate: closeOnInvalidate, callout: callout, info: context?.pointee.info, functions: functions
    ).handle
}

@c @implementation
public func RLFileDescriptorGetNativeDescriptor(_ f: OpaquePointer?) -> RLFileDescriptorNativeDescriptor {
    guard let file = object(f, as: FileDescriptor.self, "RLFileDescriptorGetNativeDescriptor"), file.isValid else { return -1 }
    return file.pointee.descriptor.load(ordering: .relaxed)
}

@c @implementation
public func RLFileDescriptorGetContext(_ f: OpaquePointer?, _ context: UnsafeMutablePointer<RLFileDescriptorContext>?) {
    guard let file = object(f, as: FileDescriptor.self, "RLFileDescriptorGetContext"), let context else { return }
    let functions = file.pointee.callbacks.pointee.functions
    context.pointee = RLFileDescriptorContext(
        version: 0, info: file.isValid ? file.pointee.info : nil,
        retain: unsafeBitCast(functions.retain, to: FileDescriptorRetain?.self),
        release: unsafeBitCast(functions.release, to: FileDescriptorRelease?.self),
        copyDescription: unsafeBitCast(functions.copyDescription, to: FileDescriptorDescribe?.self))
}

@c @implementation
public func RLFileDescriptorEnableCallBacks(_ f: OpaquePointer?, _ callBackTypes: UInt) {
    object(f, as: FileDescriptor.self, "RLFileDescriptorEnableCallBacks")?.enable(UInt32(truncatingIfNeeded: callBackTypes))
}

@c @implementation
public func RLFileDescriptorEnablePersistentCallBacks(_ f: OpaquePointer?, _ callBackTypes: UInt) {
    object(f, as: FileDescriptor.self, "RLFileDescriptorEnablePersistentCallBacks")?.enable(
        UInt32(truncatingIfNeeded: callBackTypes), persistently: true)
}

@c @implementation
public func RLFileDescriptorDisableCallBacks(_ f: OpaquePointer?, _ callBackTypes: UInt) {
    object(f, as: FileDescriptor.self, "RLFileDescriptorDisableCallBacks")?.disable(UInt32(truncatingIfNeeded: callBackTypes))
}

@c @implementation
public func RLFileDescriptorInvalidate(_ f: OpaquePointer?) {
    object(f, as: FileDescriptor.self, "RLFileDescriptorInvalidate")?.invalidate()
}

@c @implementation
public func RLFileDescriptorIsValid(_ f: OpaquePointer?) -> Bool {
    object(f, as: FileDescriptor.self, "RLFileDescriptorIsValid")?.isValid ?? false
}

@c @implementation
public func RLFileDescriptorCreateRunLoopSource(_ f: OpaquePointer?, _ order: Int) -> OpaquePointer? {
    object(f, as: FileDescriptor.self, "RLFileDescriptorCreateRunLoopSource")?.copySource(order: order)?.handle
}
