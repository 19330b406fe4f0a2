// SPDX-License-Identifier: MIT
internal import CRunLoopFoundation

/// A thread's loop and Foundation's loop of that thread, which serve each other (``RunLoopKit/RunLoop/hostsFoundation(inModes:)``).
///
/// *While this loop runs*, the set of descriptors in which Foundation's would wait is a port of it (``HostedMode/bridge``). Foundation's
/// makes a pass when that is ready, before each wait of this one, at the end of each run, and at the latest in every second
/// pass. Its wait is ended at once by a port of its own (``PassEnd``), so that all its observers are called and a stop can be told from an end. *While Foundation's waits*, this loop is a foreign run, whose descriptor is a port of Foundation's from just before the wait
/// until something is served. The two sets are never in each other.
///
/// Both sides are seen by observers. An observer is not called again while it is on the stack, so there are as many on each side as
/// callbacks are nested in observers, and the one whose turn it is acts.
///
/// All of it belongs to the thread.
// Sendable: see there.
final class FoundationHost: @unchecked Sendable {
    private static let hosts = ThreadLocal<Keeper>()

    static func prepare() { _ = hosts }

    let loop: RunLoop
    /// Foundation's loop, retained until the end.
    let foundation: UnsafeMutableRawPointer
    /// The thread is ending, or this is a child of `fork`: nothing is done any more.
    private(set) var isOver = false
    private let forks = GuestLoop.forks
    private var nextLook = ContinuousClock.now

    var modes: [RunLoop.Mode: HostedMode] = [:]
    /// What was asked for.
    var observed: [RunLoop.Mode] = []
    var observers: [RunLoop.Observer] = []
    var foundationObservers: [UnsafeMutableRawPointer] = []
    /// How many of the observers have called something that may run a loop, and wait for it to return.
    var callingOut = 0
    var foundationCallingOut = 0
    /// How many runs of this loop there were at the innermost of these calls.
    var runsCallingOut = 0

    /// The runs of this loop that are under way, the innermost last.
    var runs: [Run] = []
    struct Run {
        let name: RunLoop.Mode?
        /// It serves this loop inside a wait of Foundation's.
        var isGuest = false
        /// Nil for such a run, and as long as the kernel has no descriptor for the other loop's part in it.
        var mode: HostedMode?
        /// It is the foreign run itself, not one nested in a callback.
        var isForeign = false
        /// Foundation's loop has made no pass in the pass under way.
        var owesPass = false
        /// Nothing is left in the mode, and the pass under way is the last one unless something comes.
        var isEnding = false
    }

    /// The runs of Foundation's that are under way, the innermost last.
    var foundationRuns: [FoundationRun] = []
    struct FoundationRun {
        /// Nil as long as the kernel has no descriptor for it.
        var mode: HostedMode?
        /// It is a pass that this loop makes.
        var isPass = false
        var ownsForeign = false
        /// It makes another pass before its wait, because of what was posted.
        var isWokenForPosts = false
        /// `nestedRuns` at its last BeforeTimers, after which it looks at the time.
        var runsBefore = 0
    }
    /// The next run of Foundation's is a pass that this loop makes.
    var beginsPass = false
    let passEnd: PassEnd

    var foreign: RunLoop.ForeignRun?
    var foreignMode: HostedMode?
    /// How many calls of the foreign run are on the stack.
    var foreignCalls = 0
    /// The next run of this loop is one that the foreign run makes.
    var beginsForeign = false
    /// The source of Foundation's whose port is the foreign run's descriptor.
    var port: UnsafeMutableRawPointer?
    /// Where that source is.
    var offeredIn: HostedMode?
    /// Never signalled; in the mode `kept`.
    let keeper = RunLoop.Source { _ in }
    var kept: HostedMode?
    /// How many runs have begun, of either loop, but for those of the foreign run itself.
    var nestedRuns = 0
    /// Ends a run of this loop that is to end when a source was handled.
    let handled = RunLoop.Source { _ in FoundationHost.current(orMake: false)?.removeHandled() }

    private init(loop: RunLoop, foundation: UnsafeMutableRawPointer) {
        self.loop = loop
        passEnd = PassEnd(foundation)
        self.foundation = rlf_retain(foundation)
    }

    /// Ends the host with its thread, before or after the loops do.
    private final class Keeper {
        let host: FoundationHost
        init(_ host: FoundationHost) { self.host = host }
        deinit { host.end() }
    }

    static func current(orMake makes: Bool) -> FoundationHost? {
        if !makes { return hosts.known?.host }
        return hosts.value { Keeper(FoundationHost(loop: .current, foundation: rlf_current())) }.host
    }

    // MARK: The beginning and the end

    func host(_ asked: [RunLoop.Mode]) -> Bool {
        if isOver { return false }
        // Shows whether this Foundation can be hosted.
        guard passEnd.begin(), hosted(.default) != nil else {
            if observers.isEmpty { passEnd.end() }
            return false
        }
        if observers.isEmpty {
            GuestLoop.tell(
                serve: { FoundationHost.current(orMake: false)?.serveOnceMore() },
                isServing: { FoundationHost.current(orMake: false).map(\.isServing) ?? false }
            ) { mode in FoundationHost.current(orMake: false)?.beforeRun(in: mode) }
            addObserver()
            addFoundationObserver()
        }
        for mode in asked where !observed.contains(mode) {
            // As early as the default mode's.
            if mode != .common { _ = hosted(mode) }
            observed.append(mode)
            for observer in observers { loop.add(observer, forMode: mode) }
            for observer in foundationObservers { addToFoundation(observer, in: mode) }
        }
        return true
    }

    func hosted(_ name: RunLoop.Mode) -> HostedMode? {
        if let known = modes[name] { return known }
        let made = HostedMode(name, of: foundation) { [weak self] mode in self?.bridgeIsReady(mode) }
        guard let made else {
            lookLater()
            return nil
        }
        modes[name] = made
        // The mode may be a common one here and not there.
        for observer in foundationObservers { rlf_add_observer(foundation, observer, made.foundationName) }
        return made
    }

    /// There was no descriptor: one of the loops is not served while the other one waits, until a pass of that one finds one.
    func lookLater() {
        let now = ContinuousClock.now
        if now < nextLook { return }
        nextLook = now + .milliseconds(100)
        LaterLook.begin(loop, foundation)
    }

    func addObserver() {
        let index = observers.count
        let made = RunLoop.Observer(
            // Before those of notification queues: what theirs enqueue in the pass that is made here is posted before the wait, and at the exit.
            activities: [.entry, .beforeTimers, .beforeWaiting, .exit], order: .max - 2
        ) { [weak self] _, stage in
            guard let self, self.mayGoOn(), index == self.callingOut else { return }
            self.stage(stage)
        }
        observers.append(made)
        for mode in observed { loop.add(made, forMode: mode) }
    }

    func addFoundationObserver() {
        let context = FoundationObserver(host: self, index: foundationObservers.count)
        let stages = UInt(rlf_entry | rlf_before_timers | rlf_before_waiting | rlf_after_waiting | rlf_exit)
        let made = rlf_make_observer(
            stages,
            { _, stage, info in
                let observer = Unmanaged<FoundationObserver>.fromOpaque(info).takeUnretainedValue()
                guard let host = observer.host, host.mayGoOn(), observer.index == host.foundationCallingOut else { return }
                host.foundationStage(Int(stage))
            },
            Unmanaged.passUnretained(context).toOpaque(),
            { info in UnsafeRawPointer(Unmanaged<FoundationObserver>.fromOpaque(info).retain().toOpaque()) },
            { info in Unmanaged<FoundationObserver>.fromOpaque(info).release() })
        guard let made else { fatalError("RunLoopKit: no memory for an observer") }
        foundationObservers.append(made)
        for mode in observed { addToFoundation(made, in: mode) }
        for mode in modes.values { rlf_add_observer(foundation, made, mode.foundationName) }
    }

    private final class FoundationObserver {
        weak let host: FoundationHost?
        let index: Int
        init(host: FoundationHost, index: Int) {
            self.host = host
            self.index = index
        }
    }

    private func addToFoundation(_ observer: UnsafeMutableRawPointer, in mode: RunLoop.Mode) {
        guard let name = rlf_make_mode(mode.rawValue) else { return }
        rlf_add_observer(foundation, observer, name)
        rlf_release(name)
    }

    /// False in a child of `fork`, which shares the descriptors of Foundation's loop with its parent and leaves them alone.
    func mayGoOn() -> Bool {
        if isOver { return false }
        if GuestLoop.forks == forks { return true }
        isOver = true
        detachAll()
        keep(nil)
        handled.invalidate()
        foreign?.invalidate()
        foreign = nil
        for observer in observers { observer.invalidate() }
        loop.wakeUp()
        return false
    }

    private func end() {
        guard mayGoOn() else { return }
        withdraw()
        isOver = true
        foreign?.invalidate()
        foreign = nil
        for observer in observers { observer.invalidate() }
        handled.invalidate()
        for mode in modes.values { mode.end() }
        modes = [:]
        for observer in foundationObservers {
            rlf_invalidate_observer(observer)
            rlf_release(observer)
        }
        foundationObservers = []
        if let port {
            rlf_invalidate_source(port)
            rlf_release(port)
        }
        passEnd.end()
        rlf_release(foundation)
    }
}
