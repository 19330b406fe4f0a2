// SPDX-License-Identifier: MIT
internal import CRunLoopFoundation

/// While this loop runs: Foundation's makes passes.
extension FoundationHost {
    /// A mode in which only Foundation has something to do is not empty.
    func beforeRun(in name: RunLoop.Mode) {
        guard mayGoOn() else { return }
        keep(nil)
        guard loop.contains(observers[0], forMode: name), let mode = hosted(name) else { return }
        if rlf_is_mode_empty(foundation, mode.foundationName) { detach(mode) } else { attach(mode) }
    }

    func stage(_ stage: RunLoop.Activities) {
        if stage == .entry {
            let isGuest = beginsForeign
            let isForeign = isGuest && !isForeignNested
            beginsForeign = false
            if !isGuest { nestedRuns &+= 1 }
            let name = loop.currentMode
            runs.append(Run(name: name, isGuest: isGuest, mode: isGuest ? nil : name.flatMap(hosted), isForeign: isForeign))
            if !isGuest, let mode = runs.last?.mode { attach(mode) }
            return
        }
        // The mode may take part since the middle of the run.
        if !isInnermostKnown { runs.append(Run(name: loop.currentMode, mode: loop.currentMode.flatMap(hosted))) }
        let last = runs.count - 1
        if runs[last].mode == nil && !runs[last].isGuest && stage != .exit { runs[last].mode = loop.currentMode.flatMap(hosted) }
        guard let mode = runs[last].mode else {
            if stage == .exit { runs.removeLast() }
            return
        }
        switch stage {
        case .beforeTimers:
            attach(mode)
            if runs[last].owesPass { callOut { makePass(mode) } }
            runs[last].owesPass = true
            endIfEmpty(mode)
        case .beforeWaiting:
            if runs[last].isEnding { return }
            attach(mode)
            callOut { makePass(mode) }
            runs[last].owesPass = false
            // The last thing that there was may have been served now.
            endIfEmpty(mode)
            if !runs[last].isEnding { attach(mode) }
        default:
            callOut { poll(mode) }
            runs.removeLast()
            if rlf_is_mode_empty(foundation, mode.foundationName) { detach(mode) }
        }
    }

    /// The last of the runs is the loop's innermost one, and not a run around one of a mode that does not take part.
    private var isInnermostKnown: Bool { runs.last.map { $0.name == loop.currentMode } ?? false }

    /// The innermost run of this loop has called Foundation's.
    var isServing: Bool { callingOut > 0 && runsCallingOut == runs.count && isInnermostKnown }

    /// What was posted may have given something to Foundation's.
    func serveOnceMore() {
        guard mayGoOn(), isInnermostKnown, let run = runs.last else { return }
        // Inside of a wait of Foundation's, which is to make another pass before it.
        guard let mode = run.mode else { return rlf_wake_up(foundation) }
        if run.isEnding && rlf_is_mode_empty(foundation, mode.foundationName) { return }
        callOut { makePass(mode) }
        endIfEmpty(mode)
        if !runs[runs.count - 1].isEnding { attach(mode) }
    }

    /// Lets the innermost run decide at the end of its pass, without a wait, whether to end, if nothing is left in the mode.
    private func endIfEmpty(_ mode: HostedMode) {
        let isEnding = isEmpty(mode)
        runs[runs.count - 1].isEnding = isEnding
        if isEnding { loop.wakeUp() }
    }

    func callOut(_ body: () -> Void) {
        let runsOfOuter = runsCallingOut
        runsCallingOut = runs.count
        callingOut += 1
        if observers.count == callingOut { addObserver() }
        body()
        callingOut -= 1
        runsCallingOut = runsOfOuter
        while observers.count > callingOut + 2 { observers.removeLast().invalidate() }
    }

    /// One pass of Foundation's loop, with a wait that ends at once.
    func makePass(_ mode: HostedMode, inBridge: Bool = false) {
        if rlf_is_mode_empty(foundation, mode.foundationName) { return }
        let isEndOfOuter = passEnd.wasServed
        defer { passEnd.wasServed = isEndOfOuter }
        passEnd.wasServed = false
        beginsPass = true
        let result = Int(rlf_run(mode.foundationName, 1e10, 1))
        beginsPass = false
        passEnd.withdraw()
        if result == rlf_stopped { loop.stop() }
        // The bridge is a source that is handled itself.
        if result != rlf_handled_source || passEnd.wasServed || inBridge { return }
        loop.add(handled, forMode: mode.name)
        handled.signal()
        loop.wakeUp()
    }

    /// One pass of Foundation's loop that does not wait, at the end of a run.
    func poll(_ mode: HostedMode) {
        beginsPass = true
        _ = rlf_run(mode.foundationName, 0, 1)
        beginsPass = false
    }

    func removeHandled() {
        for mode in modes.keys { loop.remove(handled, forMode: mode) }
    }

    func bridgeIsReady(_ mode: HostedMode) {
        guard mayGoOn() else { return }
        if rlf_is_mode_empty(foundation, mode.foundationName) {
            // Such as a wake-up of a loop that does not run, which is forgotten.
            rlf_discard_events(mode.portSet, foundation, mode.foundationName)
        } else {
            makePass(mode, inBridge: true)
        }
    }

    /// Whether there is nothing in the mode but the bridge, which then is not there either.
    func isEmpty(_ mode: HostedMode) -> Bool {
        guard rlf_is_mode_empty(foundation, mode.foundationName) else { return false }
        detach(mode)
        if GuestLoop.isModeEmpty(mode.name) { return true }
        attach(mode)
        return false
    }

    func attach(_ mode: HostedMode) {
        withdraw()
        keep(nil)
        if mode.isAttached { return }
        mode.isAttached = true
        loop.add(mode.bridge, forMode: mode.name)
    }

    func detach(_ mode: HostedMode) {
        if !mode.isAttached { return }
        mode.isAttached = false
        loop.remove(mode.bridge, forMode: mode.name)
    }

    func detachAll() {
        for mode in modes.values { detach(mode) }
    }
}
