import CRunLoop
import Synchronization

// The functions of <runloop/observer.h>.

@_cdecl("RLObserverGetTypeID") @implementation
public func RLObserverGetTypeID() -> UInt { UInt(ObjectType.observer.rawValue) }

@_cdecl("RLObserverCreate") @implementation
public func RLObserverCreate(
    _ activities: UInt, _ repeats: Bool, _ order: Int, _ callout: RLObserverCallBack?,
    _ context: UnsafeMutablePointer<RLObserverContext>?
) -> OpaquePointer? {
    return ObserverPointer.make(
        activities: activities, repeats: repeats, order: order, callout: callout, context: ClientContext(context)
    ).handle
}

@_cdecl("RLObserverGetActivities") @implementation
public func RLObserverGetActivities(_ o: OpaquePointer?) -> UInt {
    object(o, as: Observer.self, "RLObserverGetActivities")?.pointee.activities ?? 0
}

@_cdecl("RLObserverDoesRepeat") @implementation
public func RLObserverDoesRepeat(_ o: OpaquePointer?) -> Bool {
    object(o, as: Observer.self, "RLObserverDoesRepeat")?.pointee.repeats ?? false
}

@_cdecl("RLObserverGetOrder") @implementation
public func RLObserverGetOrder(_ o: OpaquePointer?) -> Int {
    object(o, as: Observer.self, "RLObserverGetOrder")?.pointee.order ?? 0
}

@_cdecl("RLObserverInvalidate") @implementation
public func RLObserverInvalidate(_ o: OpaquePointer?) {
    object(o, as: Observer.self, "RLObserverInvalidate")?.invalidate()
}

@_cdecl("RLObserverIsValid") @implementation
public func RLObserverIsValid(_ o: OpaquePointer?) -> Bool {
    object(o, as: Observer.self, "RLObserverIsValid")?.isValid ?? false
}

@_cdecl("RLObserverGetContext") @implementation
public func RLObserverGetContext(_ o: OpaquePointer?, _ context: UnsafeMutablePointer<RLObserverContext>?) {
    guard let observer = object(o, as: Observer.self, "RLObserverGetContext"), let context else { return }
    let own = observer.pointee.context
    context.pointee = RLObserverContext(own, isValid: observer.isValid)
}

@_cdecl("RLContainsObserver") @implementation
public func RLContainsObserver(_ rl: OpaquePointer?, _ o: OpaquePointer?, _ mode: UnsafePointer<CChar>?) -> Bool {
    guard let loop = object(rl, as: RunLoop.self, "RLContainsObserver"),
        let observer = object(o, as: Observer.self, "RLContainsObserver")
    else { return false }
    return loop.containsObserver(observer, in: ModeName(mode))
}

@_cdecl("RLAddObserver") @implementation
public func RLAddObserver(_ rl: OpaquePointer?, _ o: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    guard let loop = object(rl, as: RunLoop.self, "RLAddObserver"),
        let observer = object(o, as: Observer.self, "RLAddObserver")
    else { return }
    loop.addObserver(observer, to: ModeName(mode))
}

@_cdecl("RLRemoveObserver") @implementation
public func RLRemoveObserver(_ rl: OpaquePointer?, _ o: OpaquePointer?, _ mode: UnsafePointer<CChar>?) {
    guard let loop = object(rl, as: RunLoop.self, "RLRemoveObserver"),
        let observer = object(o, as: Observer.self, "RLRemoveObserver")
    else { return }
    loop.removeObserver(observer, from: ModeName(mode))
}
