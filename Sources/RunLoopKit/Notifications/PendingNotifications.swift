// SPDX-License-Identifier: MIT
internal import Synchronization

/// What a notification queue does, for any kind of notification: RunLoopKit's own and Foundation's.
///
/// An observer of the loop posts. It is in the modes that any notification was enqueued for. Everything
/// happens on one thread.
package final class PendingNotifications<Note> {
    private final class Entry {
        let note: Note
        let style: NotificationQueue.PostingStyle
        let modes: [RunLoop.Mode]
        let places: [Place]
        /// Ascends in the order of enqueueing.
        let sequence: UInt64
        /// False once it was posted or taken back.
        var isQueued = true

        init(
            _ note: Note, _ style: NotificationQueue.PostingStyle, _ modes: [RunLoop.Mode], _ places: [Place], _ sequence: UInt64
        ) {
            self.note = note
            self.style = style
            self.modes = modes
            self.places = places
            self.sequence = sequence
        }
    }

    /// Entries of one style that one mode permits; an entry has one for each of its modes.
    private struct Group: Hashable {
        let style: NotificationQueue.PostingStyle
        let mode: RunLoop.Mode
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

    /// All that wait, by their sequence numbers, in two ways: those of other modes and other names cost nothing.
    private var groups: [Group: [UInt64: Entry]] = [:]
    private var places: [Place: [UInt64: Entry]] = [:]
    private var nextSequence: UInt64 = 0

    /// The thread that used it first; 0 before.
    private let owner = Atomic<UInt>(0)
    private var loop: RunLoop?
    /// An observer is not called again while it is on the stack: there are as many as posting is nested in runs that observers of the
    /// notifications make, and one more. The one whose turn it is posts.
    private var observers: [RunLoop.Observer] = []
    /// How many of them are posting.
    private var posting = 0
    /// How many notifications were posted.
    private var posted = 0
    /// In the common modes and in no other: it tells which modes are common, and is never called.
    private var commonModesProbe: RunLoop.Observer?
    private var observedModes: Set<RunLoop.Mode> = []
    /// `nextSequence` at the end of the last `postBeforeWait`, and the thread's dispatches.
    private var postedUntil: (UInt64, UInt) = (0, 0)
    /// Whether something was enqueued, since a run last ended, for which the loop was not woken.
    private var isSomethingNew = false
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

    /// Stops the program on any thread but the first: a queue that was sent to another task would be changed there while its
    /// observer posts here.
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
        // Where this pass's last chance to post is over, or comes without the observer, the loop makes another
        // pass before it waits (S-NQ-4). While it does not run, this is forgotten.
        observe(modes)
        // In a callback of the host's, while a foreign run waits, that goes for an idle loop too: no other pass of its
        // own would follow, because a prepare does nothing again until something was dispatched. So it does in a
        // guest's pass before the wait.
        if isTooLateInPass, let loop, style == .asap || loop.isWaiting || GuestLoop.isServing { loop.wakeUp() } else { isSomethingNew = true }
        let (name, key) = (name(note), SenderKey(sender(note)))
        let entry = Entry(note, style, modes, [.name(name), .sender(key), .both(name, key)], nextSequence)
        nextSequence += 1
        for mode in modes { groups[Group(style: style, mode: mode), default: [:]][entry.sequence] = entry }
        for place in entry.places { places[place, default: [:]][entry.sequence] = entry }
    }

    /// False if it is gone already.
    private func take(_ entry: Entry) -> Bool {
        guard entry.isQueued else { return false }
        entry.isQueued = false
        for mode in entry.modes {
            let group = Group(style: entry.style, mode: mode)
            groups[group]?[entry.sequence] = nil
            if groups[group]?.isEmpty == true { groups[group] = nil }
        }
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

    // MARK: - The loop

    /// Has the observer in all of these modes.
    private func observe(_ modes: [RunLoop.Mode]) {
        let loop = LoopRegistry.current()
        if loop !== self.loop { attach(to: loop) }
        for mode in modes where observedModes.insert(mode).inserted {
            for observer in observers { loop.add(observer, forMode: mode) }
            isTooLateInPass = true
        }
    }

    private func attach(to loop: RunLoop) {
        detach()
        let probe = RunLoop.Observer(activities: []) { _, _ in }
        loop.add(probe, forMode: .common)
        self.loop = loop
        commonModesProbe = probe
        addObserver()
        // The thread's list keeps nothing.
        nonisolated(unsafe) weak let queue = self
        QueuesOfThread.add(isThere: { queue != nil }) { queue?.postBeforeWait(in: $0) ?? false }
    }

    private func addObserver() {
        // The queue and its loop are one thread's, so what the observer sees is never another thread's.
        nonisolated(unsafe) weak let queue = self
        let index = observers.count
        // After the other observers, so that what they enqueue is posted before the loop waits.
        let observer = RunLoop.Observer(
            activities: [.beforeTimers, .beforeWaiting, .afterWaiting, .exit], order: .max
        ) { _, activity in
            if let queue, queue.posting == index { queue.serve(activity) }
        }
        observers.append(observer)
        for mode in observedModes { loop?.add(observer, forMode: mode) }
    }

    /// The host of a foreign run is about to wait in a callback of the loop, where no observer is called before that. What was enqueued while posting is
    /// for a later wait, of which that alone is no reason. True if anything was posted.
    private func postBeforeWait(in mode: RunLoop.Mode) -> Bool {
        let now = (nextSequence, QueuesOfThread.dispatches)
        guard now != postedUntil, !groups.isEmpty, let loop else { return false }
        let before = posted
        let permitted = loop.contains(commonModesProbe!, forMode: mode) ? [mode, .common] : [mode]
        postRound(.asap, permitted)
        postRound(.whenIdle, permitted)
        postedUntil = (nextSequence, now.1)
        return posted != before
    }

    private func detach() {
        for observer in observers { observer.invalidate() }
        observers = []
        commonModesProbe?.invalidate()
        observedModes = []
    }

    private func serve(_ activity: RunLoop.Activities) {
        // After a nested run the stage of the run around it is not known.
        isTooLateInPass = activity == .beforeWaiting || activity == .exit
        if activity == .afterWaiting { return }
        guard !groups.isEmpty, let loop, let mode = loop.currentMode else { return }
        let permitted = loop.contains(commonModesProbe!, forMode: mode) ? [mode, .common] : [mode]
        func isUrgent() -> Bool { permitted.contains { groups[Group(style: .asap, mode: $0)] != nil } }
        let before = posted
        postRound(.asap, permitted)
        if activity == .exit {
            // While a foreign run waits around this one it makes no pass by itself.
            if isSomethingNew && !groups.isEmpty && RunLoop.ForeignRun.isOnThread { loop.wakeUp() }
            isSomethingNew = false
            return
        }
        guard activity == .beforeWaiting else {
            if posted != before { GuestLoop.serve() }
            return
        }
        // What was enqueued while posting is for a later round (S-NQ-13). If it is urgent the loop makes another
        // pass before it waits (S-NQ-4), and what is for an idle loop comes after it (S-NQ-5).
        if isUrgent() { return loop.wakeUp() }
        postRound(.whenIdle, permitted)
        // Observers may have given something to a guest, whose last pass before the wait came before this. What it enqueues is for another pass.
        if posted != before { GuestLoop.serve() }
        if isUrgent() { loop.wakeUp() }
    }

    /// Posts what one of the modes permits now, in the order of enqueueing. An observer may enqueue, take back, or run the
    /// loop: what is posted is taken out before, one by one. So one that two modes permit is posted once.
    private func postRound(_ style: NotificationQueue.PostingStyle, _ modes: [RunLoop.Mode]) {
        let round = modes.compactMap { groups[Group(style: style, mode: $0)] }.flatMap(\.values).sorted { $0.sequence < $1.sequence }
        for entry in round where take(entry) {
            posted &+= 1
            posting += 1
            if observers.count == posting { addObserver() }
            post(entry.note)
            posting -= 1
            // One more for the next posting; those of deeper ones would cost each pass a call.
            while observers.count > posting + 2 { observers.removeLast().invalidate() }
        }
    }
}

/// What posts the notifications that wait in the calling thread's queues.
final class QueuesOfThread {
    private var queues: [(isThere: () -> Bool, post: (RunLoop.Mode) -> Bool)] = []
    /// With how many of them those that are gone are looked for.
    private var nextLook = 8
    private static let list = ThreadLocal<QueuesOfThread>()

    static func prepare() { _ = list }

    /// How many waits of foreign runs have ended.
    static var dispatches: UInt { list.known?.dispatches ?? 0 }
    private var dispatches: UInt = 0
    static func countDispatch() { list.known?.dispatches &+= 1 }

    /// Whether the calling thread has had any.
    static var isAny: Bool { list.known != nil }

    static func add(isThere: @escaping () -> Bool, _ post: @escaping (RunLoop.Mode) -> Bool) {
        let list = list.value { QueuesOfThread() }
        // Not at each call, for which all would be looked through.
        if list.queues.count >= list.nextLook {
            list.queues.removeAll { !$0.isThere() }
            list.nextLook = 2 * list.queues.count + 8
        }
        list.queues.append((isThere, post))
    }

    /// True if anything was posted.
    static func postBeforeWait(in mode: RunLoop.Mode) -> Bool {
        guard let list = list.known else { return false }
        var hasPosted = false
        // An observer may make a queue, or end one.
        for queue in list.queues where queue.post(mode) { hasPosted = true }
        return hasPosted
    }
}
