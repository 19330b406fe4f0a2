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
    /// Notes the stages from which on nothing is too late, before other observers are called.
    private var stageObserver: RunLoop.Observer?

    /// A run that is under way in a mode that has the observers.
    private struct Run {
        let mode: RunLoop.Mode
        /// Its pass has had its last chance to post: it may wait before the observer is called again.
        var isTooLate = false
        /// The loop was woken since: the run makes another pass before it waits, as do those around it (S-WAKE-9).
        var isWoken = false
    }
    /// The innermost is the last. One that was under way when its mode got the observers comes in with its next call of one.
    private var runs: [Run] = []
    /// How many of them are posting.
    private var posting = 0
    /// How many notifications were posted.
    private var posted = 0
    /// In the common modes and in no other: it tells which modes are common, and is never called.
    private var commonModesProbe: RunLoop.Observer?
    private var observedModes: Set<RunLoop.Mode> = []
    /// What was enqueued in postings before one wait of a host: for another one.
    private var held = (wait: HostWait(run: 0, dispatches: 0), sequences: Range<UInt64>(uncheckedBounds: (0, 0)))

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
        observe(modes, style)
        wakeRuns(for: modes, style)
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

    /// Has the observers in all of these modes, for something that is enqueued for them, and in that of the run which it is enqueued in.
    private func observe(_ modes: [RunLoop.Mode], _ style: NotificationQueue.PostingStyle) {
        let loop = LoopRegistry.current()
        if loop !== self.loop { attach(to: loop) }
        let current = loop.currentMode
        for mode in modes + (current.map { [$0] } ?? []) where observedModes.insert(mode).inserted {
            for observer in observers { loop.add(observer, forMode: mode) }
            loop.add(stageObserver!, forMode: mode)
            if mode == current {
                // The observers may be there as in any common mode.
                if runs.last?.mode != mode { runs.append(Run(mode: mode, isTooLate: true)) }
            } else if current != nil && (style == .asap || RunLoop.ForeignRun.isOnThread) {
                // It may be that of a run around this one, at whatever stage of its pass.
                loop.wakeUp()
            }
        }
    }

    /// Where the pass of a run that permits one of the modes has had its last chance to post, the run makes another one before it waits (S-NQ-4). While
    /// a foreign run waits that goes for an idle loop too: no pass of its own would follow, because a prepare does nothing again until something was
    /// dispatched. So it does in a guest's pass before the wait. Idle work that enqueues more of itself is none for this wait.
    private func wakeRuns(for modes: [RunLoop.Mode], _ style: NotificationQueue.PostingStyle) {
        guard let loop, let last = runs.indices.last else { return }
        var wakes = false
        for index in runs.indices where runs[index].isTooLate && !runs[index].isWoken {
            let isUrgent =
                style == .asap
                || (index == last ? loop.isWaiting || GuestLoop.isServing : posting == 0 && RunLoop.ForeignRun.isOnThread)
            if isUrgent && modes.contains(where: permitted(in: runs[index].mode).contains) { wakes = true }
        }
        if !wakes { return }
        for index in runs.indices where runs[index].isTooLate { runs[index].isWoken = true }
        loop.wakeUp()
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
        stageObserver = RunLoop.Observer(activities: [.entry, .beforeTimers, .afterWaiting, .exit], order: .min) { _, activity in
            queue?.begin(activity)
        }
        QueuesOfThread.add(isThere: { queue != nil }) { queue?.postBeforeWait(of: $0, in: $1) ?? false }
    }

    private func addObserver() {
        // The queue and its loop are one thread's, so what the observer sees is never another thread's.
        nonisolated(unsafe) weak let queue = self
        let index = observers.count
        // After the other observers, so that what they enqueue is posted before the loop waits.
        let observer = RunLoop.Observer(
            activities: [.beforeTimers, .beforeWaiting, .exit], order: .max
        ) { _, activity in
            if let queue, queue.posting == index { queue.serve(activity) }
        }
        observers.append(observer)
        for mode in observedModes { loop?.add(observer, forMode: mode) }
    }

    /// The host of a foreign run is about to wait in a callback of the loop, where no observer is called before that. What was enqueued while posting is
    /// for a later wait, of which that alone is no reason. True if anything was posted.
    private func postBeforeWait(of wait: HostWait, in mode: RunLoop.Mode) -> Bool {
        if groups.isEmpty { return false }
        if held.wait != wait { held = (wait, nextSequence..<nextSequence) }
        let (before, later, start) = (posted, held.sequences, nextSequence)
        let permitted = permitted(in: mode)
        postRound(.asap, permitted)
        postRound(.whenIdle, permitted, but: later)
        if posted == before { return false }
        held = (wait, (later.isEmpty ? start : later.lowerBound)..<nextSequence)
        if isUrgent(permitted) { loop?.wakeUp() }
        return true
    }

    /// The modes whose notifications are posted while the loop runs in one.
    private func permitted(in mode: RunLoop.Mode) -> [RunLoop.Mode] {
        loop!.contains(commonModesProbe!, forMode: mode) ? [mode, .common] : [mode]
    }

    private func detach() {
        for observer in observers { observer.invalidate() }
        observers = []
        stageObserver?.invalidate()
        runs = []
        commonModesProbe?.invalidate()
        observedModes = []
    }

    private func isUrgent(_ permitted: [RunLoop.Mode]) -> Bool { permitted.contains { groups[Group(style: .asap, mode: $0)] != nil } }

    /// Before other observers.
    private func begin(_ activity: RunLoop.Activities) {
        guard let mode = loop?.currentMode else { return }
        if activity == .entry || runs.last?.mode != mode { runs.append(Run(mode: mode)) } else { runs[runs.count - 1] = Run(mode: mode) }
    }

    /// After them.
    private func serve(_ activity: RunLoop.Activities) {
        guard let loop, let mode = loop.currentMode else { return }
        if runs.last?.mode != mode { runs.append(Run(mode: mode)) }
        if activity == .beforeWaiting { runs[runs.count - 1] = Run(mode: mode, isTooLate: true) }
        defer { if activity == .exit { _ = runs.popLast() } }
        if groups.isEmpty { return }
        let permitted = permitted(in: mode)
        let before = posted
        postRound(.asap, permitted)
        if activity == .exit { return }
        guard activity == .beforeWaiting else {
            if posted != before { GuestLoop.serve() }
            return
        }
        // What was enqueued while posting is for a later round (S-NQ-13). If it is urgent the loop makes another
        // pass before it waits (S-NQ-4), and what is for an idle loop comes after it (S-NQ-5).
        if isUrgent(permitted) { return loop.wakeUp() }
        postRound(.whenIdle, permitted)
        // Observers may have given something to a guest, whose last pass before the wait came before this. What it enqueues is for another pass.
        if posted != before { GuestLoop.serve() }
        if isUrgent(permitted) { loop.wakeUp() }
    }

    /// Posts what one of the modes permits now, in the order of enqueueing. An observer may enqueue, take back, or run the
    /// loop: what is posted is taken out before, one by one. So one that two modes permit is posted once.
    private func postRound(_ style: NotificationQueue.PostingStyle, _ modes: [RunLoop.Mode], but later: Range<UInt64>? = nil) {
        let round = modes.compactMap { groups[Group(style: style, mode: $0)] }.flatMap(\.values).sorted { $0.sequence < $1.sequence }
        for entry in round where later?.contains(entry.sequence) != true && take(entry) {
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

/// A wait of a host in a callback of its loop, by a number of its foreign run and of the thread's dispatches.
struct HostWait: Equatable {
    let run: UInt
    let dispatches: UInt
}

/// What posts the notifications that wait in the calling thread's queues.
final class QueuesOfThread {
    private var queues: [(isThere: () -> Bool, post: (HostWait, RunLoop.Mode) -> Bool)] = []
    /// With how many of them those that are gone are looked for.
    private var nextLook = 8
    private static let list = ThreadLocal<QueuesOfThread>()

    static func prepare() { _ = list }

    /// How many waits of foreign runs have ended, and how many foreign runs began to post.
    private var dispatches: UInt = 0
    private var runs: UInt = 0
    static func countDispatch() { list.known?.dispatches &+= 1 }

    /// Whether the calling thread has had any.
    static var isAny: Bool { list.known != nil }

    static func add(isThere: @escaping () -> Bool, _ post: @escaping (HostWait, RunLoop.Mode) -> Bool) {
        let list = list.value { QueuesOfThread() }
        // Not at each call, for which all would be looked through.
        if list.queues.count >= list.nextLook {
            list.queues.removeAll { !$0.isThere() }
            list.nextLook = 2 * list.queues.count + 8
        }
        list.queues.append((isThere, post))
    }

    /// True if anything was posted. `run`: 0, or the number that this gave the foreign run.
    static func postBeforeWait(of run: inout UInt, in mode: RunLoop.Mode) -> Bool {
        guard let list = list.known else { return false }
        if run == 0 {
            list.runs += 1
            run = list.runs
        }
        let wait = HostWait(run: run, dispatches: list.dispatches)
        var hasPosted = false
        // An observer may make a queue, or end one.
        for queue in list.queues where queue.post(wait, mode) { hasPosted = true }
        return hasPosted
    }
}
