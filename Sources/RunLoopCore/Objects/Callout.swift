// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

/// The client's functions, as C calls them.
typealias RetainFunction = @convention(c) (UnsafeRawPointer?) -> UnsafeRawPointer?
typealias ReleaseFunction = @convention(c) (UnsafeRawPointer?) -> Void
typealias DescribeFunction = @convention(c) (UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>?
typealias EqualFunction = @convention(c) (UnsafeRawPointer?, UnsafeRawPointer?) -> Bool
typealias HashFunction = @convention(c) (UnsafeRawPointer?) -> UInt
typealias ScheduleFunction = @convention(c) (UnsafeMutableRawPointer?, OpaquePointer?, UnsafePointer<CChar>?) -> Void
public typealias PerformFunction = @convention(c) (UnsafeMutableRawPointer?) -> Void
typealias GetPortFunction = @convention(c) (UnsafeMutableRawPointer?) -> Int32
typealias TimerFunction = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void
typealias ObserverFunction = @convention(c) (OpaquePointer?, RLActivity, UnsafeMutableRawPointer?) -> Void
typealias ThreadFunction = @convention(c) (OpaquePointer, UnsafeMutableRawPointer?) -> Void
typealias FileDescriptorFunction = @convention(c) (OpaquePointer?, UInt, UnsafeMutableRawPointer?) -> Void
typealias SocketFunction = @convention(c) (OpaquePointer?, UInt, OpaquePointer?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void
typealias KernelEventFunction = @convention(c) (OpaquePointer?, UnsafePointer<RLKernelEvent>, UnsafeMutableRawPointer?) -> Void
typealias MachPortFunction = @convention(c) (OpaquePointer, UnsafePointer<RLMachMessage>, UnsafeMutableRawPointer?) -> Void
typealias MessageFunction = @convention(c) (OpaquePointer, Int32, OpaquePointer, UnsafeMutableRawPointer?) -> OpaquePointer?
typealias ReplyFunction = @convention(c) (OpaquePointer, Int32, OpaquePointer?, UnsafeMutableRawPointer?) -> Void
typealias InvalidationFunction = @convention(c) (OpaquePointer, UnsafeMutableRawPointer?) -> Void
typealias SlowCalloutFunction = @convention(c) (UnsafePointer<RLSlowCallout>, UnsafeMutableRawPointer?) -> Void
/// libdispatch's `_dispatch_main_queue_callback_4CF`; its argument is not used.
typealias DrainFunction = @convention(c) (UnsafeMutableRawPointer?) -> Void

// The only path to the client: functions in C, whose frames and names a backtrace shows, and which no exception leaves
// (`CLinux/callouts.c`). No lock is held in any of them (S-THR-3).

@inline(always)
func callOutSource(_ perform: PerformFunction, _ info: UnsafeMutableRawPointer?) { RLCallOutSource(perform, info) }

@inline(always)
func callOutPortSource(_ perform: PerformFunction, _ info: UnsafeMutableRawPointer?) { RLCallOutPortSource(perform, info) }

@inline(always)
func callOutFileDescriptor(
    _ callout: FileDescriptorFunction, _ file: OpaquePointer, _ types: UInt, _ info: UnsafeMutableRawPointer?
) { RLCallOutFileDescriptor(callout, file, types, info) }

@inline(always)
func callOutSocket(
    _ callout: SocketFunction, _ socket: OpaquePointer, _ type: UInt, _ address: OpaquePointer?, _ data: UnsafeRawPointer?,
    _ info: UnsafeMutableRawPointer?
) { RLCallOutSocket(callout, socket, type, address, data, info) }

@inline(always)
func callOutTimer(_ callout: TimerFunction, _ timer: OpaquePointer, _ info: UnsafeMutableRawPointer?) {
    RLCallOutTimer(callout, timer, info)
}

@inline(always)
func callOutObserver(
    _ callout: ObserverFunction, _ observer: OpaquePointer, _ activity: RLActivity, _ info: UnsafeMutableRawPointer?
) {
    typealias Raw = @convention(c) (OpaquePointer?, UInt, UnsafeMutableRawPointer?) -> Void
    RLCallOutObserver(unsafeBitCast(callout, to: Raw.self), observer, activity.rawValue, info)
}

@inline(always)
func callOutPerformed(_ perform: PerformFunction, _ info: UnsafeMutableRawPointer?) { RLCallOutFunction(perform, info) }

@inline(always)
func callOutPerformedRelease(_ release: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    RLCallOutFunctionRelease(release, info)
}

@inline(always)
func callOutKernelEvent(
    _ callout: KernelEventFunction, _ source: OpaquePointer, _ event: inout RLKernelEvent, _ info: UnsafeMutableRawPointer?
) {
    typealias Raw = @convention(c) (OpaquePointer?, UnsafeRawPointer, UnsafeMutableRawPointer?) -> Void
    RLCallOutKernelEvent(unsafeBitCast(callout, to: Raw.self), source, &event, info)
}

@inline(always)
func callOutMainQueue(_ drain: DrainFunction) { RLCallOutMainQueue(drain, nil) }

@inline(always)
func callOutMessage(
    _ callout: MessageFunction, _ port: OpaquePointer, _ msgid: Int32, _ data: OpaquePointer, _ info: UnsafeMutableRawPointer?
) -> OpaquePointer? { RLCallOutMessage(callout, port, msgid, data, info) }

@inline(always)
func callOutReply(
    _ callout: ReplyFunction, _ port: OpaquePointer, _ result: Int32, _ data: OpaquePointer?, _ info: UnsafeMutableRawPointer?
) { RLCallOutReply(callout, port, result, data, info) }

@inline(always)
func callOutInvalidation(_ callout: InvalidationFunction, _ port: OpaquePointer, _ info: UnsafeMutableRawPointer?) {
    RLCallOutInvalidation(callout, port, info)
}

@inline(always)
func callOutSchedule(_ schedule: ScheduleFunction, _ info: UnsafeMutableRawPointer?, _ loop: OpaquePointer, _ mode: UnsafePointer<CChar>) {
    RLCallOutSchedule(schedule, info, loop, mode)
}

@inline(always)
func callOutCancel(_ cancel: ScheduleFunction, _ info: UnsafeMutableRawPointer?, _ loop: OpaquePointer, _ mode: UnsafePointer<CChar>) {
    RLCallOutCancel(cancel, info, loop, mode)
}

@inline(always)
func callOutGetPort(_ getPort: GetPortFunction, _ info: UnsafeMutableRawPointer?) -> Int32 { RLCallOutGetPort(getPort, info) }

@inline(always)
func callOutRetain(_ retain: RetainFunction, _ info: UnsafeMutableRawPointer?) -> UnsafeRawPointer? {
    RLCallOutRetain(retain, info)
}

@inline(always)
func callOutRelease(_ release: ReleaseFunction, _ info: UnsafeMutableRawPointer?) { RLCallOutRelease(release, info) }

@inline(always)
func callOutEqual(_ equal: EqualFunction, _ first: UnsafeMutableRawPointer?, _ second: UnsafeMutableRawPointer?) -> Bool {
    RLCallOutEqual(equal, first, second)
}

@inline(always)
func callOutHash(_ hash: HashFunction, _ info: UnsafeMutableRawPointer?) -> UInt { RLCallOutHash(hash, info) }

@inline(always)
func callOutCopyDescription(_ copy: DescribeFunction, _ info: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<CChar>? {
    RLCallOutCopyDescription(copy, info)
}

@inline(always)
func callOutMachPort(
    _ callout: MachPortFunction, _ port: OpaquePointer, _ message: UnsafePointer<RLMachMessage>, _ info: UnsafeMutableRawPointer?
) {
    typealias Raw = @convention(c) (OpaquePointer, UnsafeRawPointer, UnsafeMutableRawPointer?) -> Void
    RLCallOutMachPort(unsafeBitCast(callout, to: Raw.self), port, message, info)
}

@inline(always)
func callOutThread(_ body: ThreadFunction, _ thread: OpaquePointer, _ info: UnsafeMutableRawPointer?) {
    RLCallOutThread(body, thread, info)
}

/// A function that may end its thread; `cleanup` is called then.
@inline(always)
func callOutGuarded(
    _ function: PerformFunction, _ info: UnsafeMutableRawPointer?, _ cleanup: PerformFunction, _ argument: UnsafeMutableRawPointer
) {
    rl_call_guarded(function, info, cleanup, argument)
}

@inline(always)
func callOutLogHandler(_ handler: LogHandler, _ line: UnsafePointer<CChar>, _ info: UnsafeMutableRawPointer?) {
    RLCallOutLogHandler(handler, line, info)
}

@inline(always)
func callOutSlowCallout(_ handler: SlowCalloutFunction, _ callout: UnsafePointer<RLSlowCallout>, _ info: UnsafeMutableRawPointer?) {
    typealias Raw = @convention(c) (UnsafeRawPointer, UnsafeMutableRawPointer?) -> Void
    RLCallOutSlowCallout(unsafeBitCast(handler, to: Raw.self), callout, info)
}
