// SPDX-License-Identifier: MIT
/// Passes notifications to observers.
///
/// - Threads: all members may be used from any thread; closures are called where the notification is
///   posted, unless they named the loop of another thread.
/// - Foundation: `NotificationCenter`, which programs that use Foundation have instead (S-NQ-16).
public final class NotificationCenter: Sendable {
    /// Stands for one addition of an observer; ``NotificationCenter/removeObserver(_:)`` takes it.
    ///
    /// It keeps nothing of what it was made with once the observer is removed.
    // Sendable: a sender that is a value was given away by the caller, is compared on one thread if it is not Sendable itself, and is
    // destroyed by whoever has it last; the rest is constant and Sendable, or behind a lock.
    public final class Observation: @unchecked Sendable {
        fileprivate let place: Place
        /// Ascends in the order of addition.
        fileprivate let number: UInt64
        /// Apart from the rest, for what is queued for the loop: a loop whose thread has ended keeps what was posted late, which therefore
        /// does not keep the loop.
        fileprivate let callee: Locked<Callee>
        /// nil: the observer is removed.
        private let kept: Locked<Kept?>
        private let hasSender: Bool
        /// The thread on which a sender that is a value and not `Sendable` may be looked at; 0: any.
        private let senderThread: UInt
        /// A sender that is an object; it is not kept alive, and when it is gone nothing matches.
        private weak let senderObject: AnyObject?

        fileprivate struct Callee: Sendable {
            /// Until the observer is removed.
            var block: (@Sendable (Notification) -> Void)?
        }

        private struct Kept {
            let queue: RunLoop?
            /// A sender that is a value.
            let sender: Any?
        }

        fileprivate init(
            _ place: Place, number: UInt64, object: sending Any?, isSendable: Bool, queue: RunLoop?,
            block: @escaping @Sendable (Notification) -> Void
        ) {
            self.place = place
            self.number = number
            callee = Locked(Callee(block: block))
            hasSender = object != nil
            if let object, type(of: object) is AnyClass {
                senderObject = object as AnyObject
                senderThread = 0
                kept = Locked(Kept(queue: queue, sender: nil))
            } else {
                senderObject = nil
                senderThread = isSendable || object == nil ? 0 : RunLoop.callingThread
                kept = Locked(Kept(queue: queue, sender: object))
            }
        }

        /// Lets go of everything, once the observer is removed.
        fileprivate func end() {
            // The ends of these may be the client's code: they go after the locks.
            let block = callee.withLock { $0.block.take() }
            let kept = self.kept.withLock { $0.take() }
            withExtendedLifetime((block, kept)) {}
        }

        /// Who calls the closure for a notification from a sender with the key of its own, nil for the posting thread; no answer if it is not
        /// called, because the sender is another one or the observer is removed.
        fileprivate func queue(for notification: Notification) -> RunLoop?? {
            guard let kept = kept.withLock({ $0 }) else { return nil }
            return wants(notification, kept.sender) ? .some(kept.queue) : nil
        }

        private func wants(_ notification: Notification, _ value: Any?) -> Bool {
            if !hasSender { return true }
            guard let sender = senderObject ?? value else { return false }
            if senderThread != 0 && senderThread != RunLoop.callingThread {
                // Values of other types may have its hash.
                if notification.object.map({ type(of: $0) != type(of: sender) }) ?? true { return false }
                preconditionFailure("NotificationCenter: an observer's sender that is not Sendable was compared on another thread")
            }
            return isSameSender(sender, notification.object)
        }
    }

    /// Where an observer is found: by name, nil for all, and sender, none for all.
    fileprivate struct Place: Hashable {
        let name: String?
        let sender: SenderKey
    }

    private struct State {
        /// By their numbers.
        var observations: [Place: [UInt64: Observation]] = [:]
        var lastNumber: UInt64 = 0
    }

    /// The centre that is used unless another is given.
    public static let `default` = NotificationCenter()

    private let state = Locked(State())

    /// Makes a centre with no observers.
    public init() {}

    /// Registers a closure that is called for each notification of a kind, of a sender, or both.
    ///
    /// - Parameters:
    ///   - name: the kind; nil for all.
    ///   - object: the sender, an object, which is not kept alive; nil for all.
    ///   - queue: the loop on whose thread the closure is called: within a posting on that thread, in whatever mode the loop runs
    ///     (S-NQ-17), and by the loop, in its common modes, some time after a posting on another thread. There a sender or information
    ///     that is not `Sendable` ends the program. With nil the posting thread calls the closure within each posting.
    ///   - block: called with the notification. It is kept until the observer is removed, or for as long as a call of it goes on.
    /// - Returns: what ``removeObserver(_:)`` takes; the centre keeps it too.
    /// - Foundation: `addObserver(forName:object:queue:using:)`, where the queue is an operation queue.
    @_disfavoredOverload
    public func addObserver(
        forName name: Notification.Name?, object: AnyObject?, queue: RunLoop?,
        using block: @escaping @Sendable (Notification) -> Void
    ) -> Observation {
        // Of an object the observation has a weak reference alone, at which it looks while a poster holds the object.
        nonisolated(unsafe) let sender: Any? = object
        return add(name, sender, isSendable: false, queue, block)
    }

    /// The same for a sender that is a value, which the centre keeps until the observer is removed.
    ///
    /// - Parameters:
    ///   - name: the kind; nil for all.
    ///   - object: the sender, which the caller gives away: any thread may destroy it. It is compared on the calling thread alone:
    ///     when a value of the same type and with the same hash, as an equal one has, is posted on another thread the program ends;
    ///     values of other types count as unequal there.
    ///   - queue: the loop that calls the closure; with nil the posting thread does.
    ///   - block: called with the notification.
    /// - Returns: what ``removeObserver(_:)`` takes; the centre keeps it too.
    @_disfavoredOverload
    public func addObserver(
        forName name: Notification.Name?, object: sending Any?, queue: RunLoop?,
        using block: @escaping @Sendable (Notification) -> Void
    ) -> Observation {
        add(name, object, isSendable: false, queue, block)
    }

    /// The same for a sender that may be compared on any thread.
    ///
    /// - Parameters:
    ///   - name: the kind; nil for all.
    ///   - object: the sender; nil for all. An object is not kept alive; a value is kept until the observer is removed.
    ///   - queue: the loop that calls the closure; with nil the posting thread does.
    ///   - block: called with the notification.
    /// - Returns: what ``removeObserver(_:)`` takes; the centre keeps it too.
    public func addObserver(
        forName name: Notification.Name?, object: (any Sendable)?, queue: RunLoop?,
        using block: @escaping @Sendable (Notification) -> Void
    ) -> Observation {
        add(name, object, isSendable: true, queue, block)
    }

    private func add(
        _ name: Notification.Name?, _ object: sending Any?, isSendable: Bool, _ queue: RunLoop?,
        _ block: @escaping @Sendable (Notification) -> Void
    ) -> Observation {
        let place = Place(name: name?.rawValue, sender: SenderKey(object))
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let observation = Observation(
            place, number: number, object: object, isSendable: isSendable, queue: queue, block: block)
        state.withLock { $0.observations[place, default: [:]][number] = observation }
        return observation
    }

    /// Ends what adding the observer began, and lets go of its sender, loop and closure; a call under way goes on.
    ///
    /// - Parameter observer: what that returned; anything else, another centre's, and one that was removed before, does nothing.
    public func removeObserver(_ observer: Any) {
        guard let observation = observer as? Observation else { return }
        let isRemoved = state.withLock { state in
            // Another centre has the same places and numbers.
            guard state.observations[observation.place]?[observation.number] === observation else { return false }
            state.observations[observation.place]?[observation.number] = nil
            if state.observations[observation.place]?.isEmpty == true { state.observations[observation.place] = nil }
            return true
        }
        if isRemoved { observation.end() }
    }

    /// Those who may want the notification, in the order of addition; others cost nothing.
    private func observations(for notification: Notification) -> [Observation] {
        let (name, sender) = (notification.name.rawValue, SenderKey(notification.object))
        var places = [Place(name: name, sender: .none), Place(name: nil, sender: .none)]
        if sender != .none && sender != .unlike { places += [Place(name: name, sender: sender), Place(name: nil, sender: sender)] }
        let found = state.withLock { state in places.compactMap { state.observations[$0] } }
        return found.flatMap(\.values).sorted { $0.number < $1.number }
    }

    /// Calls the closures of all matching observers, in the order in which they were added.
    ///
    /// An observer that is added meanwhile is not called, nor is one that is removed before its turn.
    ///
    /// - Parameter notification: what to post. If an observer has the loop of another thread, its sender and information have to be
    ///   `Sendable`, and to be given as such to the initializer or to `post(name:object:userInfo:)`: what was set by the properties
    ///   ``Notification/object`` and ``Notification/userInfo`` counts as not `Sendable`, whatever it is, and ends the program there.
    public func post(_ notification: Notification) {
        for observation in observations(for: notification) {
            guard let queue = observation.queue(for: notification) else { continue }
            let callee = observation.callee
            // Nothing that the caller may use again outlives the call on its loop's own thread.
            guard let queue, !queue.isOfCallingThread else {
                callee.withLock { $0.block }?(notification)
                continue
            }
            precondition(
                notification.isSendable,
                "NotificationCenter: what is not Sendable was posted to an observer of another thread's loop")
            nonisolated(unsafe) let notification = notification
            queue.perform(inModes: [.common]) { callee.withLock { $0.block }?(notification) }
            queue.wakeUp()
        }
    }

    /// Makes a notification and posts it.
    ///
    /// - Parameters:
    ///   - name: the kind of notification.
    ///   - object: the sender.
    ///   - userInfo: further information.
    @_disfavoredOverload
    public func post(name: Notification.Name, object: Any?, userInfo: [AnyHashable: Any]? = nil) {
        post(Notification(name: name, object: object, userInfo: userInfo))
    }

    /// Makes a notification that observers on other threads can get too, and posts it.
    ///
    /// - Parameters:
    ///   - name: the kind of notification.
    ///   - object: the sender.
    ///   - userInfo: further information.
    public func post(name: Notification.Name, object: (any Sendable)?, userInfo: [String: any Sendable]? = nil) {
        post(Notification(name: name, object: object, userInfo: userInfo))
    }
}

extension NotificationCenter: Hashable {
    /// Whether both are the same object (S-NSRL-15).
    public static func == (one: NotificationCenter, other: NotificationCenter) -> Bool { one === other }

    /// Feeds the identity to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
