// SPDX-License-Identifier: MIT
/// A message that something happened: a name, a sender, and further information.
///
/// - Foundation: `Notification`, which programs that use Foundation have instead, including
///   RunLoopKitFoundation's ``NotificationQueue`` (S-NQ-16).
public struct Notification {
    /// The name of a kind of notification.
    ///
    /// Foundation: `Notification.Name`.
    public struct Name: RawRepresentable, Hashable, Sendable {
        /// The name as a string.
        public let rawValue: String

        /// The kind of that name.
        public init(rawValue: String) { self.rawValue = rawValue }

        /// The kind of that name.
        public init(_ rawValue: String) { self.rawValue = rawValue }
    }

    /// The kind of notification.
    public var name: Name
    /// The sender, often the object that something happened to.
    ///
    /// One that is set here counts as not `Sendable`, whatever it is, and the notification does not go to other threads; one that may is
    /// given to the initializer.
    public var object: Any? { didSet { isSenderSendable = object == nil } }
    /// Further information.
    ///
    /// What is set here counts as not `Sendable`, as with ``object``.
    public var userInfo: [AnyHashable: Any]? { didSet { isInfoSendable = userInfo == nil } }

    /// Whether the compiler has seen that the sender, and the rest, may go to another thread.
    private var isSenderSendable: Bool
    private var isInfoSendable: Bool
    var isSendable: Bool { isSenderSendable && isInfoSendable }

    /// Makes a notification; it is not posted yet.
    ///
    /// - Parameters:
    ///   - name: the kind of notification.
    ///   - object: the sender.
    ///   - userInfo: further information.
    @_disfavoredOverload
    public init(name: Name, object: Any? = nil, userInfo: [AnyHashable: Any]? = nil) {
        self.name = name
        self.object = object
        self.userInfo = userInfo
        isSenderSendable = object == nil
        isInfoSendable = userInfo == nil
    }

    /// Makes a notification that observers on other threads can get too; it is not posted yet.
    ///
    /// - Parameters:
    ///   - name: the kind of notification.
    ///   - object: the sender.
    ///   - userInfo: further information.
    public init(name: Name, object: (any Sendable)? = nil, userInfo: [String: any Sendable]? = nil) {
        self.name = name
        self.object = object
        self.userInfo = userInfo
        isSenderSendable = true
        isInfoSendable = true
    }
}

/// Whether two senders are one: the same object, or equal values, or neither there (S-NQ-10).
package func isSameSender(_ one: Any?, _ other: Any?) -> Bool {
    switch (one, other) {
    case (nil, nil): return true
    case (let one?, let other?):
        let (first, second) = (type(of: one) is AnyClass, type(of: other) is AnyClass)
        if first != second { return false }
        if first { return (one as AnyObject) === (other as AnyObject) }
        // A value has no identity; one that can be compared is the same as its equals.
        guard let one = hashable(one), let other = hashable(other) else { return false }
        return one == other
    default: return false
    }
}

/// A value that can be compared here. The cast to `AnyHashable` alone finds a conformance that is isolated to an actor on any thread.
private func hashable(_ value: Any) -> AnyHashable? { value is any Hashable ? value as? AnyHashable : nil }

/// By what senders are looked up: those that are the same have equal keys. Of those with equal keys ``isSameSender(_:_:)`` decides,
/// since a key keeps no object alive and has only the hash of a value.
package enum SenderKey: Hashable, Sendable {
    case none
    case object(ObjectIdentifier)
    case value(Int)
    /// A value that cannot be compared, and is the same as none.
    case unlike

    package init(_ sender: Any?) {
        guard let sender else {
            self = .none
            return
        }
        if type(of: sender) is AnyClass {
            self = .object(ObjectIdentifier(sender as AnyObject))
        } else if let value = hashable(sender) {
            self = .value(value.hashValue)
        } else {
            self = .unlike
        }
    }
}
