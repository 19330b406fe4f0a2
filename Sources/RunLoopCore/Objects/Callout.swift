import CLinux
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
/// libdispatch's `_dispatch_main_queue_callback_4CF`; its argument is not used.
typealias DrainFunction = @convention(c) (UnsafeMutableRawPointer?) -> Void

/// The only functions that call the client. Each has its own frame, so that a backtrace tells what kind of callback is
/// on the stack; an observer's is `notifyObservers`, which has many calls to make. No lock is held in any of them (S-THR-3).

@inline(never)
func callOutSource(_ perform: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    perform(info)
    rl_compiler_barrier()
}

@inline(never)
func callOutPortSource(_ perform: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    perform(info)
    rl_compiler_barrier()
}

@inline(never)
func callOutFileDescriptor(
    _ callout: FileDescriptorFunction, _ file: OpaquePointer, _ types: UInt, _ info: UnsafeMutableRawPointer?
) {
    callout(file, types, info)
    rl_compiler_barrier()
}

@inline(never)
func callOutSocket(
    _ callout: SocketFunction, _ socket: OpaquePointer, _ type: UInt, _ address: OpaquePointer?, _ data: UnsafeRawPointer?,
    _ info: UnsafeMutableRawPointer?
) {
    callout(socket, type, address, data, info)
    rl_compiler_barrier()
}

@inline(never)
func callOutTimer(_ callout: TimerFunction, _ timer: OpaquePointer, _ info: UnsafeMutableRawPointer?) {
    callout(timer, info)
    rl_compiler_barrier()
}

@inline(always)
func callOutObserver(
    _ callout: ObserverFunction, _ observer: OpaquePointer, _ activity: RLActivity, _ info: UnsafeMutableRawPointer?
) {
    callout(observer, activity, info)
    rl_compiler_barrier()
}

@inline(never)
func callOutPerformed(_ perform: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    perform(info)
    rl_compiler_barrier()
}

@inline(never)
func callOutPerformedRelease(_ release: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    release(info)
    rl_compiler_barrier()
}

@inline(never)
func callOutKernelEvent(
    _ callout: KernelEventFunction, _ source: OpaquePointer, _ event: inout RLKernelEvent, _ info: UnsafeMutableRawPointer?
) {
    callout(source, &event, info)
    rl_compiler_barrier()
}

@inline(never)
func callOutMainQueue(_ drain: DrainFunction) {
    drain(nil)
    rl_compiler_barrier()
}

@inline(never)
func callOutMessage(
    _ callout: MessageFunction, _ port: OpaquePointer, _ msgid: Int32, _ data: OpaquePointer, _ info: UnsafeMutableRawPointer?
) -> OpaquePointer? {
    callout(port, msgid, data, info)
}

@inline(never)
func callOutReply(
    _ callout: ReplyFunction, _ port: OpaquePointer, _ result: Int32, _ data: OpaquePointer?, _ info: UnsafeMutableRawPointer?
) {
    callout(port, result, data, info)
    rl_compiler_barrier()
}

@inline(never)
func callOutInvalidation(_ callout: InvalidationFunction, _ port: OpaquePointer, _ info: UnsafeMutableRawPointer?) {
    callout(port, info)
    rl_compiler_barrier()
}

@inline(never)
func callOutSchedule(_ schedule: ScheduleFunction, _ info: UnsafeMutableRawPointer?, _ loop: OpaquePointer, _ mode: UnsafePointer<CChar>) {
    schedule(info, loop, mode)
    rl_compiler_barrier()
}

@inline(never)
func callOutCancel(_ cancel: ScheduleFunction, _ info: UnsafeMutableRawPointer?, _ loop: OpaquePointer, _ mode: UnsafePointer<CChar>) {
    cancel(info, loop, mode)
    rl_compiler_barrier()
}

@inline(never)
func callOutGetPort(_ getPort: GetPortFunction, _ info: UnsafeMutableRawPointer?) -> Int32 {
    getPort(info)
}

@inline(never)
func callOutRetain(_ retain: RetainFunction, _ info: UnsafeMutableRawPointer?) -> UnsafeRawPointer? {
    retain(info)
}

@inline(never)
func callOutRelease(_ release: ReleaseFunction, _ info: UnsafeMutableRawPointer?) {
    release(info)
    rl_compiler_barrier()
}

@inline(never)
func callOutEqual(_ equal: EqualFunction, _ first: UnsafeMutableRawPointer?, _ second: UnsafeMutableRawPointer?) -> Bool {
    equal(first, second)
}

@inline(never)
func callOutHash(_ hash: HashFunction, _ info: UnsafeMutableRawPointer?) -> UInt {
    hash(info)
}

@inline(never)
func callOutCopyDescription(_ copy: DescribeFunction, _ info: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<CChar>? {
    copy(info)
}

@inline(never)
func callOutMachPort(
    _ callout: MachPortFunction, _ port: OpaquePointer, _ message: UnsafePointer<RLMachMessage>, _ info: UnsafeMutableRawPointer?
) {
    callout(port, message, info)
    rl_compiler_barrier()
}

@inline(never)
func callOutThread(_ body: ThreadFunction, _ thread: OpaquePointer, _ info: UnsafeMutableRawPointer?) {
    body(thread, info)
    rl_compiler_barrier()
}

/// A function that may end its thread; `cleanup` is called then.
@inline(never)
func callOutGuarded(
    _ function: PerformFunction, _ info: UnsafeMutableRawPointer?, _ cleanup: PerformFunction, _ argument: UnsafeMutableRawPointer
) {
    rl_call_guarded(function, info, cleanup, argument)
    rl_compiler_barrier()
}

@inline(never)
func callOutLogHandler(_ handler: LogHandler, _ line: UnsafePointer<CChar>, _ info: UnsafeMutableRawPointer?) {
    handler(line, info)
    rl_compiler_barrier()
}
