// SPDX-License-Identifier: MIT
// What every object of Foundation's can be asked, for RunLoopKit's, which are no subclasses of `NSObject`.

/// What `NSObject` has and `NSObjectProtocol` asks for, over the hash and the description that the types have.
public protocol FoundationObject: NSObjectProtocol {}

extension FoundationObject {
    /// This object.
    public func `self`() -> Self { self }
    /// False.
    public func isProxy() -> Bool { false }
    /// Whether it is of exactly that class.
    public func isMember(of aClass: AnyClass) -> Bool { type(of: self) == aClass }
    /// Whether it is of that class or of a subclass.
    public func isKind(of aClass: AnyClass) -> Bool {
        var next: AnyClass? = type(of: self)
        while let known = next, known != aClass { next = _getSuperclass(known) }
        return next != nil
    }
    /// This object: it is not copied.
    public func copy(with zone: NSZone? = nil) -> Any { self }
    /// This object: it is not copied.
    public func copy() -> Any { self }
    /// Its description.
    public var debugDescription: String { description }
}

extension FoundationObject where Self: Hashable {
    /// The same as `hashValue`.
    public var hash: Int { hashValue }
    /// Whether the other is an equal object of this kind.
    public func isEqual(_ object: Any?) -> Bool { (object as? Self) == self }
}

extension FoundationObject {
    /// By its identity.
    public var hash: Int { ObjectIdentifier(self).hashValue }
    /// Whether both are the same object.
    public func isEqual(_ object: Any?) -> Bool { object.map { $0 as AnyObject } === self }
    /// Its class and its address.
    public var description: String { "<\(type(of: self)): \(UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()))>" }
}

extension RunLoop: FoundationObject {}
extension Timer: FoundationObject {}
extension Port: FoundationObject {}
extension PortMessage: FoundationObject {}
extension NotificationQueue: FoundationObject {}
