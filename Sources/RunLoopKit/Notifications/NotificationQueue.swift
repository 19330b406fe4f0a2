// SPDX-License-Identifier: MIT
/// Posts notifications later: when the callback in progress is over, or when the loop has nothing to do.
///
/// A queue belongs to the thread that uses it first: its notifications are posted on that thread, by observers of
/// its loop (S-NQ-14). Using it on another thread ends the program. Notifications of one style are posted in the order
/// in which they were enqueued
/// (S-NQ-2). Those that wait do not keep a run going and do not wake the loop (S-NQ-15); they are dropped with the queue.
///
/// - Threads: one.
/// - Foundation: `NotificationQueue`; RunLoopKitFoundation has one for Foundation's notifications (S-NQ-16).
open class NotificationQueue {
    /// When to post.
    ///
    /// Foundation: `NotificationQueue.PostingStyle`, with the same raw values.
    public enum PostingStyle: UInt, Sendable {
        /// When the loop is about to wait, after everything that is posted as soon as possible (S-NQ-5). A
        /// run that only polls is never about to wait (S-NQ-6). While a foreign run waits, what its host's callbacks enqueue is
        /// posted in the pass that follows at once.
        case whenIdle = 1
        /// When the callback in progress has returned: in this pass or the next, before the loop waits, and at
        /// the latest when the run ends (S-NQ-4).
        case asap = 2
        /// Inside the call, if the loop is not running or runs one of the modes given (S-NQ-3).
        case now = 3
    }

    /// Which waiting notifications a new one replaces.
    ///
    /// Foundation: `NotificationQueue.NotificationCoalescing`, with the same raw values.
    public struct NotificationCoalescing: OptionSet, Sendable {
        /// One bit for each thing that has to be the same.
        public let rawValue: UInt

        /// The things of those bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// It replaces none (S-NQ-11).
        public static var none: NotificationCoalescing { [] }
        /// It replaces those of the same name; together with ``onSender`` both have to be the same.
        public static var onName: NotificationCoalescing { NotificationCoalescing(rawValue: 1 << 0) }
        /// It replaces those of the same sender.
        public static var onSender: NotificationCoalescing { NotificationCoalescing(rawValue: 1 << 1) }
    }

    private static let defaults = ThreadLocal<NotificationQueue>()

    static func prepare() { _ = defaults }

    private let pending: PendingNotifications<Notification>

    /// The calling thread's own queue, for the default centre (S-NQ-1).
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    open class var `default`: NotificationQueue {
        defaults.value { NotificationQueue(notificationCenter: .default) }
    }

    /// Makes another queue for the calling thread.
    ///
    /// - Parameter notificationCenter: where it posts.
    public init(notificationCenter: NotificationCenter) {
        pending = PendingNotifications(
            name: { $0.name.rawValue }, sender: { $0.object }, post: { notificationCenter.post($0) })
    }

    /// Enqueues a notification for the default mode; it replaces waiting ones of the same name and sender (S-NQ-8).
    ///
    /// - Parameters:
    ///   - notification: what to post. Its sender and information are kept until then: no other task or thread may use meanwhile what of
    ///     them is not `Sendable`, and the compiler does not see to that.
    ///   - postingStyle: when to post.
    open func enqueue(_ notification: Notification, postingStyle: PostingStyle) {
        enqueue(notification, postingStyle: postingStyle, coalesceMask: [.onName, .onSender], forModes: nil)
    }

    /// Enqueues a notification, or posts it now.
    ///
    /// - Parameters:
    ///   - notification: what to post. It is put at the end, even if it replaces others (S-NQ-9). Its sender and information are kept until
    ///     it is posted: no other task or thread may use meanwhile what of them is not `Sendable`, and the compiler does not see to that.
    ///   - postingStyle: when to post.
    ///   - coalesceMask: which waiting ones it replaces, whatever their style.
    ///   - modes: the modes in which it may be posted; it waits for a run of one of them. Nil is the default
    ///     mode (S-NQ-7).
    open func enqueue(
        _ notification: Notification, postingStyle: PostingStyle, coalesceMask: NotificationCoalescing,
        forModes modes: [RunLoop.Mode]?
    ) {
        pending.enqueue(notification, style: postingStyle, coalescing: coalesceMask, modes: modes)
    }

    /// Removes waiting notifications of all styles (S-NQ-12).
    ///
    /// - Parameters:
    ///   - notification: has the name and the sender to look for.
    ///   - coalesceMask: which of them have to be the same; with none nothing is removed.
    open func dequeueNotifications(matching notification: Notification, coalesceMask: NotificationCoalescing) {
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
