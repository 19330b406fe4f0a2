// SPDX-License-Identifier: MIT
/// RunLoopKit's notification queue for Foundation's notifications and centres (S-NQ-16).
///
/// It posts on the thread that uses it, by observers of that thread's RunLoopKit loop, the one that
/// `RunLoop.current` means in a file that imports this module.
///
/// - Threads: one.
open class NotificationQueue {
    /// When to post.
    public typealias PostingStyle = RunLoopKit.NotificationQueue.PostingStyle
    /// Which waiting notifications a new one replaces.
    public typealias NotificationCoalescing = RunLoopKit.NotificationQueue.NotificationCoalescing

    private static let defaults = ThreadLocal<NotificationQueue>()

    static func prepare() { _ = defaults }

    private let pending: PendingNotifications<Foundation.Notification>

    /// The calling thread's own queue, for Foundation's default centre (S-NQ-1).
    open class var `default`: NotificationQueue {
        defaults.value { NotificationQueue(notificationCenter: .default) }
    }

    /// Makes another queue for the calling thread.
    ///
    /// - Parameter notificationCenter: where it posts.
    public init(notificationCenter: Foundation.NotificationCenter) {
        pending = PendingNotifications(
            name: { $0.name.rawValue }, sender: { $0.object }, post: { notificationCenter.post($0) })
    }

    /// Enqueues a notification for the default mode; it replaces waiting ones of the same name and sender (S-NQ-8).
    ///
    /// - Parameters:
    ///   - notification: what to post. Its sender and information are kept until then: no other task or thread may use meanwhile what of
    ///     them is not `Sendable`, and the compiler does not see to that.
    ///   - postingStyle: when to post.
    open func enqueue(_ notification: Foundation.Notification, postingStyle: PostingStyle) {
        enqueue(notification, postingStyle: postingStyle, coalesceMask: [.onName, .onSender], forModes: nil)
    }

    /// Enqueues a notification, or posts it now.
    ///
    /// - Parameters:
    ///   - notification: what to post. It is put at the end, even if it replaces others (S-NQ-9). Its sender and information are kept until
    ///     it is posted: no other task or thread may use meanwhile what of them is not `Sendable`, and the compiler does not see to that.
    ///   - postingStyle: when to post.
    ///   - coalesceMask: which waiting ones it replaces, whatever their style.
    ///   - modes: the modes in which it may be posted; nil is the default mode (S-NQ-7).
    open func enqueue(
        _ notification: Foundation.Notification, postingStyle: PostingStyle,
        coalesceMask: NotificationCoalescing, forModes modes: [RunLoop.Mode]?
    ) {
        pending.enqueue(notification, style: postingStyle, coalescing: coalesceMask, modes: modes)
    }

    /// Removes waiting notifications of all styles (S-NQ-12).
    ///
    /// - Parameters:
    ///   - notification: has the name and the sender to look for.
    ///   - coalesceMask: which of them have to be the same; with none nothing is removed.
    open func dequeueNotifications(
        matching notification: Foundation.Notification, coalesceMask: NotificationCoalescing
    ) {
        pending.dequeue(matching: notification, coalescing: coalesceMask)
    }
}

@available(*, unavailable)
extension NotificationQueue: Sendable {}

extension NotificationQueue: Hashable {
    /// Whether both are the same object (S-NSRL-15).
    public static func == (one: NotificationQueue, other: NotificationQueue) -> Bool { one === other }

    /// Feeds the identity to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
