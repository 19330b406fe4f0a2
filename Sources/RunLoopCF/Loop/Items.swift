// SPDX-License-Identifier: MIT
import CRunLoopCF

// Timers and observers: <CoreFoundation/CFRunLoop.h>. A context without copyDescription is librunloop's own, and the callback is
// called from there; one with it has a box.

// MARK: Timers

private let fireBox: @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void = { timer, info in
    let box = BoxPointer(info: info)
    guard let callout = box.pointee.callout else { return }
    let function = unsafeBitCast(callout, to: (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void).self)
    function(timer, box.pointee.info)
}

@c @implementation
public func RLCFRunLoopTimerCreate(
    _ allocator: OpaquePointer?, _ fireDate: Double, _ interval: Double, _ flags: UInt, _ order: Int,
    _ callout: (@convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafeMutablePointer<CFRunLoopTimerContext>?
) -> OpaquePointer? {
    guard let given = context?.pointee else { return RLTimerCreate(fireDate, interval, flags, order, callout, nil) }
    if given.copyDescription == nil {
        var own = RLTimerContext(version: 0, info: given.info, retain: given.retain, release: given.release, copyDescription: nil)
        return RLTimerCreate(fireDate, interval, flags, order, callout, &own)
    }
    let box = BoxPointer.make(Box(
        info: given.info, retain: given.retain, release: given.release, describe: given.copyDescription,
        callout: UnsafeRawPointer(bitPattern: address(callout))))
    var own = RLTimerContext(version: 0, info: box, retain: box.retainFunction, release: boxRelease, copyDescription: boxDescribe)
    let timer = RLTimerCreate(fireDate, interval, flags, order, fireBox, &own)
    box.settle(timer, current: box)
    return timer
}

@c @implementation
public func RLCFRunLoopTimerGetContext(_ timer: OpaquePointer?, _ context: UnsafeMutablePointer<CFRunLoopTimerContext>?) {
    guard let timer, let context else { return }
    let plain = readBox {
        var own = RLTimerContext()
        RLTimerGetContext(timer, &own)
        return PlainContext(own.info, own.retain, own.release)
    }
    context.pointee = CFRunLoopTimerContext(
        version: 0, info: plain.info, retain: plain.retain, release: plain.release, copyDescription: plain.describe)
}

/// A context as the client gave it, of what librunloop keeps.
struct PlainContext {
    var info: UnsafeMutableRawPointer?
    var retain: RetainFunction?
    var release: ReleaseFunction?
    var describe: DescribeFunction?

    init(_ info: UnsafeMutableRawPointer?, _ retain: RetainFunction?, _ release: ReleaseFunction?) {
        guard areSame(release, boxRelease) else {
            (self.info, self.retain, self.release) = (info, retain, release)
            return
        }
        // The box of an invalid item is gone.
        guard let info else { return }
        let box = BoxPointer(info: info).pointee
        (self.info, self.retain, self.release, self.describe) = (box.info, box.retain, box.release, box.describe)
    }
}

// MARK: Observers

private let observeBox: @convention(c) (OpaquePointer?, RLActivity, UnsafeMutableRawPointer?) -> Void = { observer, activity, info in
    let box = BoxPointer(info: info)
    guard let callout = box.pointee.callout else { return }
    let function = unsafeBitCast(callout, to: (@convention(c) (OpaquePointer?, UInt, UnsafeMutableRawPointer?) -> Void).self)
    function(observer, UInt(activity.rawValue), box.pointee.info)
}

@c @implementation
public func RLCFRunLoopObserverCreate(
    _ allocator: OpaquePointer?, _ activities: UInt, _ repeats: UInt8, _ order: Int,
    _ callout: (@convention(c) (OpaquePointer?, UInt, UnsafeMutableRawPointer?) -> Void)?,
    _ context: UnsafeMutablePointer<CFRunLoopObserverContext>?
) -> OpaquePointer? {
    let direct = unsafeBitCast(callout, to: RLObserverCallBack?.self)
    guard let given = context?.pointee else { return RLObserverCreate(activities, repeats != 0, order, direct, nil) }
    if given.copyDescription == nil {
        var own = RLObserverContext(version: 0, info: given.info, retain: given.retain, release: given.release, copyDescription: nil)
        return RLObserverCreate(activities, repeats != 0, order, direct, &own)
    }
    let box = BoxPointer.make(Box(
        info: given.info, retain: given.retain, release: given.release, describe: given.copyDescription,
        callout: UnsafeRawPointer(bitPattern: address(callout))))
    var own = RLObserverContext(version: 0, info: box, retain: box.retainFunction, release: boxRelease, copyDescription: boxDescribe)
    let observer = RLObserverCreate(activities, repeats != 0, order, observeBox, &own)
    box.settle(observer, current: box)
    return observer
}

@c @implementation
public func RLCFRunLoopObserverGetContext(_ observer: OpaquePointer?, _ context: UnsafeMutablePointer<CFRunLoopObserverContext>?) {
    guard let observer, let context else { return }
    let plain = readBox {
        var own = RLObserverContext()
        RLObserverGetContext(observer, &own)
        return PlainContext(own.info, own.retain, own.release)
    }
    context.pointee = CFRunLoopObserverContext(
        version: 0, info: plain.info, retain: plain.retain, release: plain.release, copyDescription: plain.describe)
}
