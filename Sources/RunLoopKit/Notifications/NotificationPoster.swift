// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// A notification that waits in a queue, which alone keeps it.
class PendingEntry {
    let style: NotificationQueue.PostingStyle
    let modes: [RunLoop.Mode]
    /// Ascends in the order of enqueueing, on the whole thread.
    fileprivate(set) var sequence: UInt64 = 0
    /// False once it was posted or taken back.
    fileprivate var isQueued = false

    init(_ style: NotificationQueue.PostingStyle, _ modes: [RunLoop.Mode]) {
        self.style = style
        self.modes = modes
    }

    /// Takes it out of its queue and posts it, unless it was taken back or the queue is gone.
    func post() {}
}

/// Posts what waits in the notification queues of one thread, by observers of its loop.
///
/// It has its turn last in three stages of a pass: it posts asap notifications at BeforeTimers, BeforeWaiting and Exit, and whenIdle ones
/// at BeforeWaiting, each for the mode that runs. What comes after its turn before a wait is too late for the wait: the run then makes
/// another pass first (S-NQ-15). Whether it has come too late is not kept here, because runs nest, in any modes, and some of them do not
/// call these observers, or began to call the others before these came: the core marks a run whose BeforeWaiting or Exit observers it is about to
/// call without one of these, which it knows by a mark of theirs; otherwise the turn sets that. Who enqueues looks at the runs there are.
///
/// It lives as long as one of the thread's queues has a use of it, and then until the end of its next turn outside all other runs: where a run is
/// among its observers, the core counts on its turn. Only its thread has to do with it.
final class NotificationPoster {
    /// What a queue has of it. Any thread may release it last.
    final class Use {
        let poster: NotificationPoster
        fileprivate init(_ poster: NotificationPoster) { self.poster = poster }
    }

    /// Entries of one style that one mode permits; an entry has one for each of its modes.
    private struct Group: Hashable {
        let style: NotificationQueue.PostingStyle
        let mode: RunLoop.Mode
    }

    private struct Waiting {
        weak var entry: PendingEntry?
    }

    /// By their sequence numbers: those of other modes cost nothing.
    private var groups: [Group: [UInt64: Waiting]] = [:]
    /// How many places there are in all groups, and with how many those of queues that are gone are looked for.
    private var count = 0
    private var nextSweep = 64
    private var nextSequence: UInt64 = 0

    private var loop: RunLoop?
    /// An observer is not called again while it is on the stack: there are as many as turns are on the stack, nested in runs that observers of the
    /// notifications make, and one more. The one whose index is the number of turns has the next.
    private var observers: [RunLoop.Observer] = []
    private var turns = 0
    /// How many notifications were posted.
    private var posted = 0
    /// In the common modes and in no other: it tells which modes are common, and is never called.
    private var commonModesProbe: RunLoop.Observer?
    /// Those that anything was enqueued for. The observers are in these.
    private var observedModes: Set<RunLoop.Mode> = []
    /// What was enqueued while the last wait of a host in a callback was posted for.
    private var held: [Range<UInt64>] = []

    private weak var use: Use?

    private final class OfThread {
        var poster: NotificationPoster?
    }
    private static let posters = ThreadLocal<OfThread>()
    /// What `RLRunGetWait_` wants its observers to have.
    private static var mark: RunLoop.Activities { RunLoop.Activities(rawValue: 1 << 63) }

    static func prepare() { _ = posters }

    /// Of the calling thread's, for a queue of it.
    static func ofThread() -> Use {
        let place = posters.value { OfThread() }
        let poster = place.poster ?? NotificationPoster()
        place.poster = poster
        if let use = poster.use { return use }
        let use = Use(poster)
        poster.use = use
        return use
    }

    deinit { detach() }

    // MARK: What waits

    /// Gives the entry its number.
    func add(_ entry: PendingEntry) {
        let loop = LoopRegistry.current()
        if loop !== self.loop { attach(to: loop) }
        for mode in entry.modes where observedModes.insert(mode).inserted { observe(mode, of: loop) }
        entry.sequence = nextSequence
        entry.isQueued = true
        nextSequence += 1
        if count >= nextSweep { sweep() }
        for mode in entry.modes where groups[Group(style: entry.style, mode: mode), default: [:]].updateValue(
            Waiting(entry: entry), forKey: entry.sequence) == nil { count += 1 }
        wakeRuns(for: entry, of: loop)
    }

    /// False if it is gone already.
    func remove(_ entry: PendingEntry) -> Bool {
        guard entry.isQueued else { return false }
        entry.isQueued = false
        for mode in entry.modes { remove(entry.sequence, from: Group(style: entry.style, mode: mode)) }
        return true
    }

    private func remove(_ sequence: UInt64, from group: Group) {
        if groups[group]?.removeValue(forKey: sequence) != nil { count -= 1 }
        if groups[group]?.isEmpty == true { groups[group] = nil }
    }

    /// Entries go with their queue, whichever thread releases that, and leave their places here.
    private func sweep() {
        for (group, entries) in groups {
            for (sequence, waiting) in entries where waiting.entry == nil { remove(sequence, from: group) }
        }
        nextSweep = 2 * count + 64
    }

    // MARK: The loop

    private func attach(to loop: RunLoop) {
        detach()
        let probe = RunLoop.Observer(activities: []) { _, _ in }
        loop.add(probe, forMode: .common)
        self.loop = loop
        commonModesProbe = probe
        addObserver()
    }

    private func detach() {
        for observer in observers { observer.invalidate() }
        observers = []
        commonModesProbe?.invalidate()
        observedModes = []
    }

    /// At the end of a turn.
    private func endIfUnused() {
        guard use == nil, turns == 0, let loop, !RunsOfLoop(loop).areNested else { return }
        detach()
        if let place = Self.posters.known, place.poster === self { place.poster = nil }
    }

    private func addObserver() {
        // The poster and its loop are one thread's, so what the observer sees is never another thread's.
        nonisolated(unsafe) weak let poster = self
        let index = observers.count
        // After the other observers, so that what they enqueue is posted before the loop waits, but before those that send off what was done until
        // then, such as those of the adapters.
        let observer = RunLoop.Observer(activities: [.beforeTimers, .beforeWaiting, .exit, Self.mark], order: .max - 1) { _, activity in
            if let poster, poster.turns == index {
                poster.serve(activity)
                poster.endIfUnused()
            }
        }
        observers.append(observer)
        for mode in observedModes { loop?.add(observer, forMode: mode) }
    }

    /// Has the observers in a mode from now on.
    private func observe(_ mode: RunLoop.Mode, of loop: RunLoop) {
        for observer in observers { loop.add(observer, forMode: mode) }
    }

    /// Whether notifications for these modes are posted while the loop runs in one.
    private func permits(_ modes: [RunLoop.Mode], in mode: RunLoop.Mode) -> Bool {
        modes.contains(mode) || (modes.contains(.common) && loop!.contains(commonModesProbe!, forMode: mode))
    }

    /// The modes whose notifications are posted while the loop runs in one.
    private func permitted(in mode: RunLoop.Mode) -> [RunLoop.Mode] {
        loop!.contains(commonModesProbe!, forMode: mode) ? [mode, .common] : [mode]
    }

    private func isUrgent(_ permitted: [RunLoop.Mode]) -> Bool { permitted.contains { groups[Group(style: .asap, mode: $0)] != nil } }

    /// Has runs make another pass before they wait, if the entry is too late for the wait of their present ones.
    private func wakeRuns(for entry: PendingEntry, of loop: RunLoop) {
        switch entry.style {
        case .asap:
            // The innermost run that may post it does so, at its end at the latest. Those around it have nothing to do.
            for run in RunsOfLoop(loop) where run.wait != .last && permits(entry.modes, in: run.mode) {
                if run.wait == .next { run.wake() }
                return
            }
        case .whenIdle:
            // No other pass of its own would follow where a host waits: a prepare does nothing again until something was dispatched. The same goes
            // for a guest's pass before the wait. Otherwise it is for the next wait: idle work that enqueues more of itself keeps no loop awake.
            for run in RunsOfLoop(loop) where run.wait == .next && (run.isHosts || (run.outer == 0 && GuestLoop.isServing)) {
                if permits(entry.modes, in: run.mode) { run.wake() }
            }
        case .now: break
        }
    }

    /// A turn in a stage of the innermost run.
    private func serve(_ activity: RunLoop.Activities) {
        guard let loop, let run = RunsOfLoop(loop).innermost else { return }
        // A wake-up that a nested run took ends the wait all the same (S-WAKE-9).
        if activity == .beforeWaiting && run.wait == .ahead { run.mark(.next) }
        if activity == .exit { run.mark(.last) }
        if groups.isEmpty { return }
        beginTurn()
        defer { endTurn() }
        let permitted = permitted(in: run.mode)
        let before = posted
        postRound(.asap, permitted)
        if activity == .exit { return }
        // What was enqueued while posting is for a later round (S-NQ-13). If it is urgent, so that the run makes another pass
        // before it waits, what is for an idle loop comes after it (S-NQ-5).
        if activity == .beforeWaiting {
            if isUrgent(permitted) { return }
            postRound(.whenIdle, permitted)
        }
        // Observers may have given something to a guest, whose last pass before the wait came before this. What it enqueues is for another pass.
        if posted != before { GuestLoop.serve() }
    }

    /// The host of a foreign run of that loop and mode is about to wait. If it waits in a callback of the loop, where no observer is called before that, this
    /// posts what the pass before such a wait would. `isSame`: for the wait that it was last about to make, and for which it has
    /// posted already; what the posting has enqueued is for another one. True if anything was posted.
    static func postBeforeWait(of loop: RLRunLoopRef, in mode: RunLoop.Mode, isSame: Bool) -> Bool {
        guard let poster = posters.known?.poster, let own = poster.loop, own.reference == loop else { return false }
        // While the host waits around the callback it has waited already.
        guard let run = RunsOfLoop(own).innermost, !run.isHosts, !own.isWaiting else { return false }
        return poster.postBeforeWait(in: mode, isSame)
    }

    private func postBeforeWait(in mode: RunLoop.Mode, _ isSame: Bool) -> Bool {
        if !isSame { held = [] }
        if groups.isEmpty { return false }
        beginTurn()
        defer { endTurn() }
        let permitted = permitted(in: mode)
        let (before, start) = (posted, nextSequence)
        postRound(.asap, permitted)
        if !isUrgent(permitted) { postRound(.whenIdle, permitted, but: held) }
        // A dispatch posts it, at once.
        if isUrgent(permitted) { loop?.wakeUp() }
        if nextSequence != start { held.append(start..<nextSequence) }
        return posted != before
    }

    /// Posts what one of the modes permits now, in the order of enqueueing. An observer may enqueue, take back, or run the
    /// loop: what is posted is taken out before, one by one. So one that two modes permit is posted once.
    private func postRound(_ style: NotificationQueue.PostingStyle, _ modes: [RunLoop.Mode], but held: [Range<UInt64>] = []) {
        var round: [PendingEntry] = []
        for group in modes.map({ Group(style: style, mode: $0) }) {
            for (sequence, waiting) in groups[group] ?? [:] {
                if let entry = waiting.entry { round.append(entry) } else { remove(sequence, from: group) }
            }
        }
        round.sort { $0.sequence < $1.sequence }
        for entry in round where entry.isQueued && !held.contains(where: { $0.contains(entry.sequence) }) {
            posted &+= 1
            entry.post()
            // Its queue went with an observer of an earlier one.
            _ = remove(entry)
        }
    }

    private func beginTurn() {
        turns += 1
        if observers.count == turns { addObserver() }
    }

    private func endTurn() {
        turns -= 1
        // One more for the next turn; those of deeper ones would cost each pass a call.
        while observers.count > turns + 2 { observers.removeLast().invalidate() }
    }
}

/// The runs of the calling thread's loop that are under way, the innermost first.
private struct RunsOfLoop: Sequence, IteratorProtocol {
    /// What a run knows about the wait of its pass: `RLRunGetWait_`.
    enum Wait: UInt8 {
        /// It is to come, and so is a turn before it, if the pass has a wait.
        case ahead = 1
        /// It is to come, and no turn before it.
        case next = 2
        /// It is to come, and ends at once.
        case woken = 3
        /// It is over: what comes now is for the next pass, or for the end of the run.
        case over = 4
        /// The run ends, and there is no turn to come in it.
        case last = 5
    }

    struct Run {
        let loop: RunLoop
        /// How many runs are nested in it.
        let outer: Int
        let wait: Wait
        /// It is one of a host, which has the thread now: the host waits, or one of its callbacks runs.
        let isHosts: Bool
        let name: UnsafePointer<CChar>

        var mode: RunLoop.Mode { RunLoop.Mode(String(cString: name)) }

        func mark(_ wait: Wait) {
            var name = name
            _ = RLRunGetWait_(loop.reference, outer, wait.rawValue, &name)
        }

        /// Ends its wait, which is to come. The runs in it are not concerned.
        func wake() {
            // The host may be asleep.
            if outer == 0 && isHosts { loop.wakeUp() } else { mark(.woken) }
        }
    }

    private let loop: RunLoop
    private var outer = 0

    init(_ loop: RunLoop) { self.loop = loop }

    var innermost: Run? { first { _ in true } }
    var areNested: Bool { dropFirst().contains { _ in true } }

    mutating func next() -> Run? {
        var name = kRLDefaultMode
        let answer = RLRunGetWait_(loop.reference, outer, 0, &name)
        guard let wait = Wait(rawValue: answer & 15) else { return nil }
        defer { outer += 1 }
        return Run(loop: loop, outer: outer, wait: wait, isHosts: answer & 16 != 0, name: name)
    }
}
