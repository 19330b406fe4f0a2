// SPDX-License-Identifier: MIT
internal import CRunLoopFoundation

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// While Foundation's loop runs: this one is a port of it.
extension FoundationHost {
    func foundationStage(_ stage: Int) {
        if stage == rlf_entry {
            nestedRuns &+= 1
            foundationRuns.append(FoundationRun(mode: foundationMode(), isPass: beginsPass))
            beginsPass = false
            return
        }
        // The mode may take part since the middle of the run.
        if !isInnermostFoundationKnown { foundationRuns.append(FoundationRun(mode: foundationMode())) }
        let last = foundationRuns.count - 1
        if foundationRuns[last].mode == nil && stage != rlf_exit { foundationRuns[last].mode = foundationMode() }
        guard let mode = foundationRuns[last].mode else {
            if stage == rlf_exit { foundationRuns.removeLast() }
            return
        }
        if foundationRuns[last].isPass {
            if stage == rlf_before_timers { passEnd.takeBack() }
            if stage == rlf_before_waiting { passEnd.offer(in: mode.foundationName) }
            if stage == rlf_exit { foundationRuns.removeLast() }
            return
        }
        switch stage {
        case rlf_before_timers:
            withdraw()
            foundationRuns[last].runsBefore = nestedRuns
        case rlf_before_waiting: offer(mode)
        case rlf_after_waiting:
            if let foreign, !rlf_is_readable(foreign.descriptor) { withdraw() }
        default:
            withdraw()
            if foundationRuns[last].ownsForeign { endForeign() }
            foundationRuns.removeLast()
            // The run of this loop in which that was called goes on.
            if let mode = runs.last?.mode { attach(mode) }
        }
    }

    private var isInnermostFoundationKnown: Bool {
        guard let last = foundationRuns.last else { return false }
        guard let mode = last.mode, let name = rlf_copy_current_mode(foundation) else { return true }
        defer { rlf_release(name) }
        return rlf_equal(mode.foundationName, name) != 0
    }

    func foundationMode() -> HostedMode? {
        guard let name = rlf_copy_current_mode(foundation) else { return nil }
        defer { rlf_release(name) }
        for mode in modes.values where rlf_equal(mode.foundationName, name) != 0 { return mode }
        guard let text = rlf_copy_text(name) else { return nil }
        defer { free(text) }
        return hosted(RunLoop.Mode(String(cString: text)))
    }

    /// Makes this loop a port of Foundation's, which is about to wait.
    func offer(_ mode: HostedMode) {
        // The port has kept the run from ending.
        if rlf_is_mode_empty(foundation, mode.foundationName) { return rlf_wake_up(foundation) }
        guard let foreign = foreignRun(in: mode) else { return }
        detachAll()
        keep(mode)
        let last = foundationRuns.count - 1
        let (runsBefore, isSameWait) = (foundationRuns[last].runsBefore, foundationRuns[last].isWokenForPosts)
        var isReady = false
        foundationCallOut { callForeign { isReady = foreign.prepare(isSameWait: isSameWait) == .zero } }
        detachAll()
        // A run whose beginning was not seen may have ended in that: then this one is not known any more, and begins another pass.
        guard foundationRuns.count == last + 1 else { return rlf_wake_up(foundation) }
        // Where the port is ready, it ends the wait: Foundation serves a wake-up before it, and what is posted again and again would keep it waiting.
        foundationRuns[last].isWokenForPosts = foreign.hasPosted && !isReady
        guard foreign === self.foreign, foreign.isValid else { return rlf_wake_up(foundation) }
        keep(mode)
        // Theirs has looked at the time before that, and a run in it, or in a block, may have taken the wake-up of its limit.
        // What was posted may have given something to theirs.
        if nestedRuns != runsBefore || foundationRuns[last].isWokenForPosts { rlf_wake_up(foundation) }
        if port == nil {
            port = rlf_make_source(
                { info in Unmanaged<FoundationHost>.fromOpaque(info).takeUnretainedValue().foreign?.descriptor ?? -1 },
                { info in Unmanaged<FoundationHost>.fromOpaque(info).takeUnretainedValue().portIsReady() },
                Unmanaged.passUnretained(self).toOpaque())
        }
        guard let port else { return }
        offeredIn = mode
        rlf_add_source(foundation, port, mode.foundationName)
    }

    func withdraw() {
        guard let mode = offeredIn, let port else { return }
        offeredIn = nil
        rlf_remove_source(foundation, port, mode.foundationName)
    }

    func portIsReady() {
        guard mayGoOn() else { return }
        withdraw()
        guard let foreign else { return }
        if !foundationRuns.isEmpty { foundationRuns[foundationRuns.count - 1].isWokenForPosts = false }
        var result: RunLoop.RunResult?
        callForeign { result = foreign.dispatch() }
        if result == .stopped, mayGoOn() { rlf_stop(foundation) }
    }

    /// This loop is in a callback, and its foreign run makes runs of their own.
    var isForeignNested: Bool { foreignCalls > 1 || !(runs.isEmpty || runs.last!.isForeign) }

    func callForeign(_ body: () -> Void) {
        foreignCalls += 1
        beginsForeign = isForeignNested || !(runs.last?.isForeign ?? false)
        body()
        beginsForeign = false
        foreignCalls -= 1
    }

    func foundationCallOut(_ body: () -> Void) {
        foundationCallingOut += 1
        if foundationObservers.count == foundationCallingOut { addFoundationObserver() }
        body()
        foundationCallingOut -= 1
        while foundationObservers.count > foundationCallingOut + 2 {
            let last = foundationObservers.removeLast()
            rlf_invalidate_observer(last)
            rlf_release(last)
        }
    }

    /// The foreign run of a mode for the innermost run of Foundation's. A run of Foundation's in another mode, around this one, gets another when it
    /// waits again.
    func foreignRun(in mode: HostedMode) -> RunLoop.ForeignRun? {
        if let foreign, foreign.isValid, foreignMode === mode { return foreign }
        endForeign()
        do throws(RunLoop.SystemError) {
            foreign = try RunLoop.ForeignRun(mode: mode.name)
        } catch {
            // Otherwise the program has one.
            if error.code != EBUSY { lookLater() }
        }
        foreign?.isGuest = true
        foreignMode = mode
        foundationRuns[foundationRuns.count - 1].ownsForeign = true
        return foreign
    }

    func endForeign() {
        guard let ended = foreign else { return }
        foreign = nil
        keep(nil)
        foundationCallOut { ended.invalidate() }
    }

    /// Keeps a mode from being empty for the foreign run: the bridge, which stands for what is in Foundation's mode, cannot be there meanwhile
    /// (S-HOST-4). Nil: none.
    func keep(_ mode: HostedMode?) {
        if kept === mode { return }
        if let kept { loop.remove(keeper, forMode: kept.name) }
        kept = mode
        if let mode { loop.add(keeper, forMode: mode.name) }
    }
}
