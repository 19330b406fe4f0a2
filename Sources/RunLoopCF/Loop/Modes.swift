// SPDX-License-Identifier: MIT
import CRunLoopCF

// Modes are strings here and UTF-8 in librunloop.

/// Calls a closure with a mode's name; NULL is NULL.
@inline(__always)
func withName<Result>(_ mode: OpaquePointer?, _ function: StaticString, _ body: (UnsafePointer<CChar>?) -> Result) -> Result {
    let name = Name(mode, function)
    let result = body(name.bytes)
    name.free()
    return result
}

/// The string for a mode's name, with a reference for the caller; the default mode's is the constant (S-CF-15).
func copyMode(_ name: UnsafePointer<CChar>) -> OpaquePointer {
    if strcmp(name, kRLDefaultMode) == 0 { return rlcf_default_mode() }
    if strcmp(name, kRLCommonModes) == 0 { return rlcf_common_modes() }
    return makeString(name)
}

/// Calls a function, in which the thread may end, with a mode's name. So it is no closure, which might be in memory of its own.
func callWithName(_ mode: OpaquePointer?, _ function: StaticString, _ call: NamedCall, _ arguments: UnsafeMutableRawPointer) {
    let name = Name(mode, function)
    if let memory = name.copy { rlcf_call_with_name(call, memory, arguments) } else { call(name.bytes, arguments) }
}

typealias NamedCall = @convention(c) (UnsafePointer<CChar>?, UnsafeMutableRawPointer?) -> Void

private struct Run {
    var seconds: Double
    var returnsAfterSource: Bool
    var result: Int32 = 0
}

private struct Membership {
    var loop: OpaquePointer?
    var source: OpaquePointer?
}

private func cast<Arguments>(_ pointer: UnsafeMutableRawPointer?, _ type: Arguments.Type) -> UnsafeMutablePointer<Arguments> {
    pointer!.assumingMemoryBound(to: type)
}

@c @implementation
public func RLCFRunLoopCopyCurrentMode(_ loop: OpaquePointer?) -> OpaquePointer? {
    guard let name = RLCopyCurrentMode(loop) else { return nil }
    let mode = copyMode(name)
    free(name)
    return mode
}

@c @implementation
public func RLCFRunLoopCopyAllModes(_ loop: OpaquePointer?) -> OpaquePointer? {
    guard let names = RLCopyAllModes(loop, nil) else { return nil }
    let array = makeArray(systemAllocator, .objects, isMutable: true)
    var index = 0
    while let name = names[index] {
        let mode = copyMode(name)
        array?.insert(UnsafeRawPointer(mode), at: index)
        RLCFRelease(UnsafeRawPointer(mode))
        index += 1
    }
    free(names)
    array?.freeze()
    return array?.handle
}

@c @implementation
public func RLCFRunLoopAddCommonMode(_ loop: OpaquePointer?, _ mode: OpaquePointer?) {
    withName(mode, "CFRunLoopAddCommonMode") { RLAddCommonMode(loop, $0) }
}

@c @implementation
public func RLCFRunLoopGetNextTimerFireDate(_ loop: OpaquePointer?, _ mode: OpaquePointer?) -> Double {
    withName(mode, "CFRunLoopGetNextTimerFireDate") { RLGetNextTimerFireDate(loop, $0) }
}

@c @implementation
public func RLCFRunLoopRun() {
    rlcf_attach_main_queue()
    RLRun()
}

@c @implementation
public func RLCFRunLoopRunInMode(_ mode: OpaquePointer?, _ seconds: Double, _ returnAfterSourceHandled: UInt8) -> Int32 {
    rlcf_attach_main_queue()
    var run = Run(seconds: seconds, returnsAfterSource: returnAfterSourceHandled != 0)
    callWithName(mode, "CFRunLoopRunInMode", {
        let run = cast($1, Run.self)
        run.pointee.result = RLRunInMode($0, run.pointee.seconds, run.pointee.returnsAfterSource).rawValue
    }, &run)
    return run.result
}

/// A name and its string that stay for good.
func interned(_ name: UnsafePointer<CChar>) -> UnsafePointer<RLCFInterned> {
    rlcf_intern(name) { UnsafeMutableRawPointer(makeString($0!)) }
}

@c @implementation
public func RLCFRunLoopContainsSource(_ loop: OpaquePointer?, _ source: OpaquePointer?, _ mode: OpaquePointer?) -> UInt8 {
    withName(mode, "CFRunLoopContainsSource") { RLContainsSource(loop, source, $0) } ? 1 : 0
}

@c @implementation
public func RLCFRunLoopAddSource(_ loop: OpaquePointer?, _ source: OpaquePointer?, _ mode: OpaquePointer?) {
    var membership = Membership(loop: loop, source: source)
    callWithName(mode, "CFRunLoopAddSource", { RLAddSource(cast($1, Membership.self).pointee.loop, cast($1, Membership.self).pointee.source, $0) }, &membership)
}

@c @implementation
public func RLCFRunLoopRemoveSource(_ loop: OpaquePointer?, _ source: OpaquePointer?, _ mode: OpaquePointer?) {
    var membership = Membership(loop: loop, source: source)
    callWithName(mode, "CFRunLoopRemoveSource", { RLRemoveSource(cast($1, Membership.self).pointee.loop, cast($1, Membership.self).pointee.source, $0) }, &membership)
}

@c @implementation
public func RLCFRunLoopContainsObserver(_ loop: OpaquePointer?, _ observer: OpaquePointer?, _ mode: OpaquePointer?) -> UInt8 {
    withName(mode, "CFRunLoopContainsObserver") { RLContainsObserver(loop, observer, $0) } ? 1 : 0
}

@c @implementation
public func RLCFRunLoopAddObserver(_ loop: OpaquePointer?, _ observer: OpaquePointer?, _ mode: OpaquePointer?) {
    withName(mode, "CFRunLoopAddObserver") { RLAddObserver(loop, observer, $0) }
}

@c @implementation
public func RLCFRunLoopRemoveObserver(_ loop: OpaquePointer?, _ observer: OpaquePointer?, _ mode: OpaquePointer?) {
    withName(mode, "CFRunLoopRemoveObserver") { RLRemoveObserver(loop, observer, $0) }
}

@c @implementation
public func RLCFRunLoopContainsTimer(_ loop: OpaquePointer?, _ timer: OpaquePointer?, _ mode: OpaquePointer?) -> UInt8 {
    withName(mode, "CFRunLoopContainsTimer") { RLContainsTimer(loop, timer, $0) } ? 1 : 0
}

@c @implementation
public func RLCFRunLoopAddTimer(_ loop: OpaquePointer?, _ timer: OpaquePointer?, _ mode: OpaquePointer?) {
    withName(mode, "CFRunLoopAddTimer") { RLAddTimer(loop, timer, $0) }
}

@c @implementation
public func RLCFRunLoopRemoveTimer(_ loop: OpaquePointer?, _ timer: OpaquePointer?, _ mode: OpaquePointer?) {
    withName(mode, "CFRunLoopRemoveTimer") { RLRemoveTimer(loop, timer, $0) }
}
