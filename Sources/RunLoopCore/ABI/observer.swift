// SPDX-License-Identifier: MIT
import CRunLoop
import Synchronization

// The functions of <runloop/observer.h>.

@c @implementation
public func RLObserverGetTypeID() -> UInt { UInt(ObjectType.observer.rawValue) }

@c @implementation
public func RLObserverCreate(
    _ activities: UInt, _ repeats: Bool, _ order: Int, _ callout: RLObserverCallBack?,
    _ context: UnsafeMutablePointer<RLObserverContext>?
) -> OpaquePointer? {
    return ObserverPointer.make(
        activities: activities, repeats: repeats, order: order, callout: callout, context: ClientContext(context)
    ).handle
}

@c @implementation
public func RLObserverGetActivities(_ o: OpaquePointer?) -> UInt {
    object(o, as: Observer.self, "RLObserverGetActivities")?.pointee.activities ?? 0
}

@c @implementation
public func RLObserverDoesRepeat(_ o: OpaquePointer?) -> Bool {
    object(o, as: Observer.self, "RLObserverDoesRepeat")?.pointee.repeats ?? false
}

@c @implementation
public func RLObserverGetOrder(_ o: OpaquePointer?) -> Int {
    object(o, as: Observer.self, "RLObserverGetOrder")?.pointee.order ?? 0
}

@c @implementation
public func RLObserverInvalidate(_ o: OpaquePointer?) {
    object(o, as: Observer.self, "RLObserverInvalidate")?.invalidate()
}

@c @implementation
public func RLObserverIsValid(_ o: OpaquePointer?) -> Bool {
    object(o, as: Observer.self, "RLObserverIsValid")?.isValid ?? false
}

@c @implementation
public func RLObserverGetContext(_ o: OpaquePointer?, _ context: UnsafeMutablePointer<RLObserverContext>?) {
    guard let observer = object(o, as: Observer.self, "RLObserverGetContext"), let context else { return }
    let own = observer.pointee.context
    context.pointee = RLObserverContext(own, isValid: observer.isValid)
}

@c @implementation
public func RLContainsObserver(_ rl: OpaquePointer?, _ o: OpaquePointer?, _ mode: UnsafePointer<CChar>?) -> Bool {
    guard let loop = object(rl, as: RunLoop.self, "RLContainsObserver"),
        let observer = object(o, as: Observer.self, "RLContainsObserver")
    else { return false }
    return loop.containsObserver(observer, in: ModeName(mode))
}

@c @implementation
public func RLAddObserver(_ rl: OpaquePointer?, _ o: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    guard let loop = object(rl, as: RunLoop.self, "RLAddObserver"),
        let observer = object(o, as: Observer.self, "RLAddObserver")
    else { return }
    loop.addObserver(observer, to: ModeName(mode))
}

@c @implementation
public func RLRemoveObserver(_ rl: OpaquePointer?, _ o: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    guard let loop = object(rl, as: RunLoop.self, "RLRemoveObserver"),
        let observer = object(o, as: Observer.self, "RLRemoveObserver")
    else { return }
    loop.removeObserver(observer, from: ModeName(mode))
}
