// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

// The functions of <runloop/watchdog.h>.

@c @implementation
public func RLSetSlowCalloutHandler(
    _ rl: OpaquePointer?, _ seconds: Double, _ handler: RLSlowCalloutHandler?, _ info: UnsafeMutableRawPointer?,
    _ release: (@convention(c) (UnsafeMutableRawPointer?) -> Void)?
) {
    guard let loop = object(rl, as: RunLoop.self, "RLSetSlowCalloutHandler") else {
        if let release { callOutPerformedRelease(release, info) }
        return
    }
    // The record keeps the info also where there is no handler.
    let record = handler != nil || release != nil ? SlowHandlerPointer.make(handler, info, release) : nil
    loop.setSlowHandler(RunLoopPointer.slowLimit(seconds), record)
}

@c @implementation
public func RLGetSlowCalloutTime(_ rl: OpaquePointer?) -> Double {
    guard let loop = object(rl, as: RunLoop.self, "RLGetSlowCalloutTime") else { return 0 }
    return Double(loop.slowLimit) / 1e9
}

@c @implementation
public func RLServiceNotify(_ state: UnsafePointer<CChar>?) -> Bool {
    guard let state else { return false }
    return rl_service_notify(state, true)
}

@c @implementation
public func RLServiceWatchdogCreate() -> OpaquePointer? {
    ServiceWatchdog.make(date: RLAbsoluteTimeGetCurrent())?.handle
}
