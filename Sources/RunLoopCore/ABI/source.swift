// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

// The functions of <runloop/source.h>.

@c @implementation
public func RLSourceGetTypeID() -> UInt { UInt(ObjectType.source.rawValue) }

@c @implementation
public func RLSourceCreate(_ order: Int, _ context: UnsafeMutablePointer<RLSourceContext>?) -> OpaquePointer? {
    guard let context, context.pointee.version == 0 || context.pointee.version == 1 else { return nil }
    if context.pointee.version == 1 {
        let port = UnsafeMutableRawPointer(context).assumingMemoryBound(to: RLSourceContext1.self).pointee
        let functions = SourceFunctions(
            retain: port.retain, release: port.release, copyDescription: port.copyDescription, equal: port.equal,
            hash: port.hash, schedule: nil, cancel: nil, getPort: port.getPort, perform: port.perform)
        return SourcePointer.make(order: order, info: port.info, functions: functions, isVersionOne: true).handle
    }
    let custom = context.pointee
    let functions = SourceFunctions(
        retain: custom.retain, release: custom.release, copyDescription: custom.copyDescription, equal: custom.equal,
        hash: custom.hash, schedule: custom.schedule, cancel: custom.cancel, getPort: nil, perform: custom.perform)
    return SourcePointer.make(order: order, info: custom.info, functions: functions, isVersionOne: false).handle
}

@c @implementation
public func RLSourceGetOrder(_ s: OpaquePointer?) -> Int {
    object(s, as: Source.self, "RLSourceGetOrder")?.pointee.order ?? 0
}

@c @implementation
public func RLSourceInvalidate(_ s: OpaquePointer?) {
    object(s, as: Source.self, "RLSourceInvalidate")?.invalidate()
}

@c @implementation
public func RLSourceIsValid(_ s: OpaquePointer?) -> Bool {
    object(s, as: Source.self, "RLSourceIsValid")?.isValid ?? false
}

@c @implementation
public func RLSourceGetContext(_ s: OpaquePointer?, _ context: UnsafeMutablePointer<RLSourceContext>?) {
    guard let source = object(s, as: Source.self, "RLSourceGetContext"), let context else { return }
    let functions = source.functions
    if source.isVersionOne {
        UnsafeMutableRawPointer(context).assumingMemoryBound(to: RLSourceContext1.self).pointee = RLSourceContext1(
            version: 1, info: source.pointee.info, retain: functions.retain, release: functions.release,
            copyDescription: functions.copyDescription, equal: functions.equal, hash: functions.hash,
            getPort: functions.getPort, perform: functions.perform)
    } else if context.pointee.version == 1 {
        // The caller's structure is a version 1 context, which is the smaller one (S-ARG-4).
        context.pointee.version = 0
    } else {
        context.pointee = RLSourceContext(
            version: 0, info: source.pointee.info, retain: functions.retain, release: functions.release,
            copyDescription: functions.copyDescription, equal: functions.equal, hash: functions.hash,
            schedule: functions.schedule, cancel: functions.cancel, perform: functions.perform)
    }
}

@c @implementation
public func RLSourceSignal(_ s: OpaquePointer?) {
    guard let source = object(s, as: Source.self, "RLSourceSignal") else { return }
    if Trace.isWanted { return source.signalTraced(rl_caller()) }
    source.signal()
}

extension UnsafeMutablePointer where Pointee == Source {
    @inline(never)
    fileprivate func signalTraced(_ caller: UInt) {
        Trace.tell(.signal, firstLink.pointee.loop.load(ordering: .relaxed), item: UInt(bitPattern: self), caller: caller)
        signal()
    }
}

@c @implementation
public func RLSourceIsSignalled(_ s: OpaquePointer?) -> Bool {
    object(s, as: Source.self, "RLSourceIsSignalled")?.isFlagged ?? false
}

@c @implementation
public func RLContainsSource(_ rl: OpaquePointer?, _ s: OpaquePointer?, _ mode: UnsafePointer<CChar>?) -> Bool {
    guard let loop = object(rl, as: RunLoop.self, "RLContainsSource"),
        let source = object(s, as: Source.self, "RLContainsSource")
    else { return false }
    return loop.containsSource(source, in: ModeName(mode))
}

@c @implementation
public func RLAddSource(_ rl: OpaquePointer?, _ s: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    guard let loop = object(rl, as: RunLoop.self, "RLAddSource"), let source = object(s, as: Source.self, "RLAddSource") else {
        return
    }
    loop.addSource(source, to: ModeName(mode))
}

@c @implementation
public func RLRemoveSource(_ rl: OpaquePointer?, _ s: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    guard let loop = object(rl, as: RunLoop.self, "RLRemoveSource"),
        let source = object(s, as: Source.self, "RLRemoveSource")
    else { return }
    loop.removeSource(source, from: ModeName(mode))
}

@c @implementation
public func RLSourceSetLimit(_ s: OpaquePointer?, _ count: Int, _ seconds: Double) {
    guard let source = object(s, as: Source.self, "RLSourceSetLimit") else { return }
    let isLimit = count > 0 && seconds > 0
    source.setLimit(isLimit ? count : 0, isLimit ? Clock.nanoseconds(min(seconds, Clock.longestInterval)) : 0)
}

@c @implementation
public func RLSourceGetLimit(_ s: OpaquePointer?, _ seconds: UnsafeMutablePointer<Double>?) -> Int {
    let limit = object(s, as: Source.self, "RLSourceGetLimit")?.readLimit() ?? (0, 0)
    seconds?.pointee = Double(limit.1) / 1e9
    return limit.0
}
