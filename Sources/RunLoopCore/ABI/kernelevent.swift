// SPDX-License-Identifier: MIT
import CRunLoop

// The functions of <runloop/kernelevent.h>.

@c @implementation
public func RLKernelEventSourceCreate(
    _ event: UnsafePointer<RLKernelEvent>?, _ callout: RLKernelEventCallBack?,
    _ context: UnsafeMutablePointer<RLKernelEventContext>?
) -> OpaquePointer? {
    guard let event else { return nil }
    return KernelEvent.make(event.pointee, callout: callout, context: ClientContext(context))?.handle
}

@c @implementation
public func RLKernelEventSourceGetEvent(_ source: OpaquePointer?, _ event: UnsafeMutablePointer<RLKernelEvent>?) -> Bool {
    guard let source = object(source, as: Source.self, "RLKernelEventSourceGetEvent"), let record = KernelEvent.of(source) else {
        return false
    }
    event?.pointee = record.registration
    return true
}

@c @implementation
public func RLKernelEventSourceSetEnabled(_ source: OpaquePointer?, _ enabled: Bool) {
    guard let source = object(source, as: Source.self, "RLKernelEventSourceSetEnabled") else { return }
    KernelEvent.of(source)?.setEnabled(enabled)
}

@c @implementation
public func RLKernelEventSourceTrigger(_ source: OpaquePointer?, _ fflags: UInt32, _ data: Int64) {
    guard let source = object(source, as: Source.self, "RLKernelEventSourceTrigger") else { return }
    KernelEvent.of(source)?.trigger(fflags, data)
}
