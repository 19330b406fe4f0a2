internal import Synchronization

/// Tells observers of notifications.
///
/// - Threads: all members may be used from any thread; closures are called where the notification is
///   posted, unless they named a loop.
/// - Foundation: `NotificationCenter`, which programs that use Foundation have instead (S-NQ-16).
public final class NotificationCenter: Sendable {
    /// Stands for one addition of an observer; ``NotificationCenter/removeObserver(_:)`` takes it.
    // Sendable: the sender is only compared, and the rest is constant and Sendable.
    public final class Observation: @unchecked Sendable {
        fileprivate let name: Notification.Name?
        fileprivate let queue: RunLoop?
        fileprivate let block: @Sendable (Notification) -> Void
        fileprivate let isRemoved = Atomic(false)
        private let hasSender: Bool
        /// A sender that is an object; it is not kept alive, and when it is gone nothing matches.
        private weak let senderObject: AnyObject?
        /// A sender that is a value.
        private let senderValue: Any?

        fileprivate init(
            name: Notification.Name?, object: Any?, queue: RunLoop?,
            block: @escaping @Sendable (Notification) -> Void
        ) {
            self.name = name
            self.queue = queue
            self.block = block
            hasSender = object != nil
            if let object, type(of: object) is AnyClass {
                senderObject = object as AnyObject
                senderValue = nil
            } else {
                senderObject = nil
                senderValue = object
            }
        }

        fileprivate func wants(_ notification: Notification) -> Bool {
            if let name, name != notification.name { return false }
            if !hasSender { return true }
            guard let sender = senderObject ?? senderValue else { return false }
            return isSameSender(sender, notification.object)
        }
    }

    /// The centre that everybody uses who does not say otherwise.
    public static let `default` = NotificationCenter()

    /// In the order of addition.
    private let observations = Locked<[Observation]>([])

    /// Makes a centre with no observers.
    public init() {}

    /// Has a closure called for each notification of a kind, of a sender, or both.
    ///
    /// - Parameters:
    ///   - name: the kind; nil for all.
    ///   - object: the sender, which is not kept alive; nil for all.
    ///   - queue: the loop that calls the closure, in its common modes, some time after the posting; with nil
    ///     the posting thread calls it before the posting returns.
    ///   - block: is given the notification. It is kept until the observer is removed.
    /// - Returns: what ``removeObserver(_:)`` takes; the centre keeps it too.
    /// - Foundation: `addObserver(forName:object:queue:using:)`, where the queue is an operation queue.
    public func addObserver(
        forName name: Notification.Name?, object: Any?, queue: RunLoop?,
        using block: @escaping @Sendable (Notification) -> Void
    ) -> Observation {
        let observation = Observation(name: name, object: object, queue: queue, block: block)
        observations.withLock { $0.append(observation) }
        return observation
    }

    /// Ends what ``addObserver(forName:object:queue:using:)`` began; a call under way goes on.
    ///
    /// - Parameter observer: what that returned; anything else, and one that was removed before, does nothing.
    public func removeObserver(_ observer: Any) {
        guard let observation = observer as? Observation else { return }
        // The closure may lead to objects whose end calls in here: it goes after the lock.
        let removed: Observation? = observations.withLock { observations in
            guard let index = observations.firstIndex(where: { $0 === observation }) else { return nil }
            return observations.remove(at: index)
        }
        removed?.isRemoved.store(true, ordering: .releasing)
    }

    /// Calls the closures of all who want the notification, in the order in which they were added.
    ///
    /// Who is added meanwhile is not called, nor is who is removed before its turn.
    ///
    /// - Parameter notification: what to tell.
    public func post(_ notification: Notification) {
        for observation in observations.withLock({ $0 }) where observation.wants(notification) {
            if observation.isRemoved.load(ordering: .acquiring) { continue }
            guard let queue = observation.queue else {
                observation.block(notification)
                continue
            }
            // Its sender answers for handing it to another thread when it posts to observers of all threads.
            nonisolated(unsafe) let notification = notification
            queue.perform(inModes: [.common]) {
                if !observation.isRemoved.load(ordering: .acquiring) { observation.block(notification) }
            }
            queue.wakeUp()
        }
    }

    /// Makes a notification and posts it.
    ///
    /// - Parameters:
    ///   - name: what kind it is.
    ///   - object: who says it.
    ///   - userInfo: what else there is to know.
    public func post(name: Notification.Name, object: Any?, userInfo: [AnyHashable: Any]? = nil) {
        post(Notification(name: name, object: object, userInfo: userInfo))
    }
}

extension NotificationCenter: Hashable {
    /// Whether both are the same object (S-NSRL-15).
    public static func == (one: NotificationCenter, other: NotificationCenter) -> Bool { one === other }

    /// Feeds the identity to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
