// SPDX-License-Identifier: MIT
internal import Synchronization

/// What a notification queue does, for any kind of notification: RunLoopKit's own and Foundation's.
///
/// The queue keeps its notifications and finds those that others replace; the poster of its thread posts them. Everything happens on
/// one thread, except that another one may release the queue last.
package final class PendingNotifications<Note> {
    private final class Entry: PendingEntry {
        let note: Note
        let places: [Place]
        private weak let queue: PendingNotifications?

        init(
            _ note: Note, _ style: NotificationQueue.PostingStyle, _ modes: [RunLoop.Mode], _ places: [Place], of queue: PendingNotifications
        ) {
            self.note = note
            self.places = places
            self.queue = queue
            super.init(style, modes)
        }

        override func post() {
            guard let queue, queue.take(self) else { return }
            queue.post(note)
        }
    }

    /// What new notifications may replace entries by: the name, the sender, or both.
    private enum Place: Hashable {
        case name(String)
        case sender(SenderKey)
        case both(String, SenderKey)
    }

    private let name: (Note) -> String
    private let sender: (Note) -> Any?
    private let post: (Note) -> Void

    /// All that wait, by their sequence numbers: those of other names cost nothing.
    private var places: [Place: [UInt64: Entry]] = [:]

    /// The thread that used it first; 0 before.
    private let owner = Atomic<UInt>(0)
    /// Of that thread's poster, from the first notification on.
    private var use: NotificationPoster.Use?
    private var poster: NotificationPoster? { use?.poster }

    package init(
        name: @escaping (Note) -> String, sender: @escaping (Note) -> Any?, post: @escaping (Note) -> Void
    ) {
        self.name = name
        self.sender = sender
        self.post = post
    }

    /// Stops the program on any thread but the first: a queue that was sent to another task would be changed there while its
    /// thread's poster posts here.
    private func checkThread() {
        let caller = RunLoop.callingThread
        let (isFirst, owner) = owner.compareExchange(expected: 0, desired: caller, ordering: .relaxed)
        precondition(isFirst || owner == caller, "NotificationQueue: used on another thread than the one that used it first")
    }

    package func enqueue(
        _ note: Note, style: NotificationQueue.PostingStyle,
        coalescing: NotificationQueue.NotificationCoalescing, modes: [RunLoop.Mode]?
    ) {
        checkThread()
        let modes = modes ?? [.default]
        dequeue(matching: note, coalescing: coalescing)
        if style == .now {
            // The modes are compared literally (S-NQ-3).
            if let mode = LoopRegistry.current().currentMode, !modes.contains(mode) { return }
            return post(note)
        }
        let use = use ?? NotificationPoster.ofThread()
        self.use = use
        let (name, key) = (name(note), SenderKey(sender(note)))
        let entry = Entry(note, style, modes, [.name(name), .sender(key), .both(name, key)], of: self)
        use.poster.add(entry)
        for place in entry.places { places[place, default: [:]][entry.sequence] = entry }
    }

    /// False if it is gone already.
    private func take(_ entry: Entry) -> Bool {
        guard let poster, poster.remove(entry) else { return false }
        for place in entry.places {
            places[place]?[entry.sequence] = nil
            if places[place]?.isEmpty == true { places[place] = nil }
        }
        return true
    }

    package func dequeue(matching note: Note, coalescing: NotificationQueue.NotificationCoalescing) {
        checkThread()
        if coalescing.isDisjoint(with: [.onName, .onSender]) { return }
        let (name, sender) = (name(note), sender(note))
        let key = SenderKey(sender)
        // It is the same as no other, of however many there are.
        if key == .unlike, coalescing.contains(.onSender) { return }
        let place: Place =
            !coalescing.contains(.onSender) ? .name(name) : coalescing.contains(.onName) ? .both(name, key) : .sender(key)
        // Comparing senders calls the client, who may come back here.
        for entry in Array((places[place] ?? [:]).values) {
            if coalescing.contains(.onSender), !isSameSender(self.sender(entry.note), sender) { continue }
            _ = take(entry)
        }
    }
}
