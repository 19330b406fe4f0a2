/// What a notification queue does, for any kind of notification: RunLoopKit's own and Foundation's.
///
/// One observer of the loop posts. It is in the modes that any notification was enqueued for. Everything
/// happens on one thread.
package final class PendingNotifications<Note> {
    private struct Entry {
        let note: Note
        let style: NotificationQueue.PostingStyle
        let modes: [RunLoop.Mode]
        /// Ascends in the order of enqueueing.
        let sequence: UInt64
    }

    private let name: (Note) -> String
    private let sender: (Note) -> Any?
    private let post: (Note) -> Void

    /// In the order of enqueueing, both styles.
    private var entries: [Entry] = []
    private var nextSequence: UInt64 = 0

    private var loop: RunLoop?
    private var observer: RunLoop.Observer?
    /// In the common modes and in no other: it tells which modes are common, and is never called.
    private var commonModesProbe: RunLoop.Observer?
    private var observedModes: Set<RunLoop.Mode> = []
    /// Whether the loop may wait before the observer is called again: since the observer was called for the
    /// coming wait, or was added.
    private var isTooLateInPass = false

    package init(
        name: @escaping (Note) -> String, sender: @escaping (Note) -> Any?, post: @escaping (Note) -> Void
    ) {
        self.name = name
        self.sender = sender
        self.post = post
    }

    deinit { detach() }

    package func enqueue(
        _ note: Note, style: NotificationQueue.PostingStyle,
        coalescing: NotificationQueue.NotificationCoalescing, modes: [RunLoop.Mode]?
    ) {
        let modes = modes ?? [.default]
        dequeue(matching: note, coalescing: coalescing)
        if style == .now {
            // The modes are compared literally (S-NQ-3).
            if let mode = LoopRegistry.current().currentMode, !modes.contains(mode) { return }
            return post(note)
        }
        // Where this pass's last chance to post is over, or comes without the observer, the loop makes another
        // pass before it waits (S-NQ-4). While it does not run, this is forgotten.
        observe(modes)
        if isTooLateInPass, style == .asap { loop?.wakeUp() }
        entries.append(Entry(note: note, style: style, modes: modes, sequence: nextSequence))
        nextSequence += 1
    }

    package func dequeue(matching note: Note, coalescing: NotificationQueue.NotificationCoalescing) {
        if coalescing.isDisjoint(with: [.onName, .onSender]) { return }
        let (name, sender) = (name(note), sender(note))
        entries.removeAll { entry in
            if coalescing.contains(.onName), self.name(entry.note) != name { return false }
            if coalescing.contains(.onSender), !isSameSender(self.sender(entry.note), sender) { return false }
            return true
        }
    }

    // MARK: - The loop

    /// Has the observer in all of these modes.
    private func observe(_ modes: [RunLoop.Mode]) {
        let loop = LoopRegistry.current()
        if loop !== self.loop { attach(to: loop) }
        for mode in modes where observedModes.insert(mode).inserted {
            loop.add(observer!, forMode: mode)
            isTooLateInPass = true
        }
    }

    private func attach(to loop: RunLoop) {
        detach()
        // The queue and its loop are one thread's, so what the observer sees is never another thread's.
        nonisolated(unsafe) weak let queue = self
        // After the other observers, so that what they enqueue is posted before the loop waits.
        let observer = RunLoop.Observer(
            activities: [.beforeTimers, .beforeWaiting, .afterWaiting, .exit], order: .max
        ) { _, activity in queue?.serve(activity) }
        let probe = RunLoop.Observer(activities: []) { _, _ in }
        loop.add(probe, forMode: .common)
        self.loop = loop
        self.observer = observer
        commonModesProbe = probe
    }

    private func detach() {
        observer?.invalidate()
        commonModesProbe?.invalidate()
        observedModes = []
    }

    private func serve(_ activity: RunLoop.Activities) {
        isTooLateInPass = activity == .beforeWaiting
        if activity == .afterWaiting { return }
        guard !entries.isEmpty, let loop, let mode = loop.currentMode else { return }
        let isCommon = loop.contains(commonModesProbe!, forMode: mode)
        func isPermitted(_ entry: Entry) -> Bool {
            entry.modes.contains(mode) || isCommon && entry.modes.contains(.common)
        }
        postRound { $0.style == .asap && isPermitted($0) }
        guard activity == .beforeWaiting else { return }
        // What was enqueued while posting is for a later round (S-NQ-13). If it is urgent the loop makes another
        // pass before it waits (S-NQ-4), and what is for an idle loop comes after it (S-NQ-5).
        if entries.contains(where: { $0.style == .asap && isPermitted($0) }) { return loop.wakeUp() }
        postRound { $0.style == .whenIdle && isPermitted($0) }
        if entries.contains(where: { $0.style == .asap && isPermitted($0) }) { loop.wakeUp() }
    }

    /// Posts what is eligible now, in the order of enqueueing. An observer may enqueue, take back, or run the
    /// loop: what is posted is taken out before, one by one.
    private func postRound(_ isEligible: (Entry) -> Bool) {
        let end = nextSequence
        while let index = entries.firstIndex(where: { $0.sequence < end && isEligible($0) }) {
            post(entries.remove(at: index).note)
        }
    }
}
