// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Performing signalled sources: step P5 of the pass, and the port sources of P13.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Moves what was signalled since from the stack into `pending`, and what became ready into `inboxes`. Caller holds the lock.
    @inline(always)
    func drainLocked() {
        var link = takeSignalled()
        while let current = link {
            link = current.pointee.next
            if current.pointee.loop.load(ordering: .sequentiallyConsistent) == self {
                enlist(current)
            } else {
                // A signaller pushed it late, after the source had left this loop.
                current.pointee.next = nil
                SourceLink.forward(current, freedBy: nil)
            }
        }
    }

    /// The same on any thread. What became ready is on the stack no more, where a loop that is about to sleep would find it, so that looks again.
    @inline(never)
    func drainAnywhereLocked() {
        if pointee.signalled.load(ordering: .sequentiallyConsistent) == nil { return }
        drainLocked()
        if mayBeAsleep { lookAgain() }
    }

    /// Performs the signalled sources of the mode (S-SRC-31), with `onlyFirst` just the first of them (S-RUN-13). True if any
    /// was handled (S-PASS-15).
    @inline(always)
    func performSources(in mode: ModePointer, onlyFirst: Bool) -> Bool {
        hasSignalledSources(in: mode) ? performSignalled(in: mode, onlyFirst: onlyFirst) : false
    }

    /// Whether anything was signalled, or is left from earlier signals and was not looked at for the mode. A signal that comes right now is
    /// for the next pass, like one right after.
    @inline(always)
    func hasSignalledSources(in mode: ModePointer) -> Bool {
        pointee.signalled.load(ordering: .sequentiallyConsistent) != nil || hasListedLinks(for: mode)
    }

    /// Whether links were left in the lists, looked up under the lock. Other threads change the lists only together with a stack
    /// or an Add, which the next pass sees.
    private func hasListedLinks(for mode: ModePointer) -> Bool {
        lock(owner: true)
        defer { unlock(owner: true) }
        return !pointee.pending.isEmpty || (!pointee.parked.isEmpty && pointee.parkedFor != mode)
    }

    /// Whether a pass of the mode would perform one, or find out that it would not. It looks at all that such a pass looks at.
    @inline(never)
    func findsSignalledSource(in mode: ModePointer) -> Bool {
        if pointee.signalled.load(ordering: .sequentiallyConsistent) != nil { return true }
        lock()
        defer { unlock() }
        var link = pointee.pending.first, isParked = false
        while true {
            while let current = link {
                if current.pointee.modes.contains(mode) && current.ofSource.isSignalled { return true }
                link = current.pointee.next
            }
            if isParked || pointee.parkedFor == mode { return false }
            isParked = true
            link = pointee.parked.first
        }
    }

    @inline(never)
    private func performSignalled(in mode: ModePointer, onlyFirst: Bool) -> Bool {
        lock(owner: true)
        drainLocked()
        if pointee.parkedFor != mode {
            pointee.pending.prepend(&pointee.parked, mark: LinkList.pendingMark)
            pointee.parkedFor = mode
        }
        guard let only = pointee.pending.first, only.pointee.next == nil, only.pointee.modes.contains(mode) else {
            return performBatch(in: mode, onlyFirst: onlyFirst)
        }
        // Just one: nothing to collect and to sort.
        let source = only.ofSource
        guard takeSignalLocked(of: source, only) else {
            unlock(owner: true)
            return false
        }
        guard let perform = source.functions.perform else { return performWithoutFunction(source) }
        pointee.counters.sources.count()
        performAlone(source, isSignalled: true) { callOutSource(perform, $0) }
        return true
    }

    /// The lock is held at the call, not at the return.
    @inline(never)
    private func performBatch(in mode: ModePointer, onlyFirst: Bool) -> Bool {
        let start = pointee.calls.count
        // Members beyond the mode's limit stay in the list for the next pass.
        let most = start &+ mode.stepLimit
        var link = pointee.pending.first
        var isLimited = false
        var hasOthers = false
        while let current = link, !isLimited {
            link = current.pointee.next
            let source = current.ofSource
            if !source.isSignalled {
                dropLocked(current)
            } else if !current.pointee.modes.contains(mode) {
                hasOthers = true
            } else if pointee.calls.count == most {
                isLimited = true
            } else {
                source.retain()
                pointee.calls.pushMember(source)
            }
        }
        let end = pointee.calls.count
        pointee.calls.makeRoomForSorting(from: start)
        unlock()

        pointee.calls.closeBatch(from: start)
        var handled = false
        for index in start..<end {
            let source = pointee.calls.member(index)
            if !(handled && onlyFirst) && takeSignal(of: source) {
                if let perform = source.functions.perform {
                    handled = true
                    pointee.calls.markMember(index)
                    pointee.counters.sources.count()
                    timed(source.header, signalled: source.signalCount) { callOutSource(perform, source.pointee.info) }
                } else if source.isWatch {
                    // With the batch's reference.
                    pointee.calls.forgetMember(index)
                    if performSignalledWatch(source) { handled = true }
                    continue
                } else {
                    handled = true
                }
            }
            pointee.calls.forgetMember(index)
            if pointee.lockWait == nil { source.release() } else { releaseServed(source) }
        }
        pointee.calls.truncate(to: start)
        pointee.isClockStale = true
        if hasOthers { parkOthers(than: mode) }
        // No run sleeps before the rest (S-LIM-6): not this one, if its members have to wait or had nothing to report, nor one around it.
        if isLimited { wakeUp() }
        return handled
    }

    /// Parks what was signalled before the first member of the mode that is left: what is parked was signalled before all that is not (S-LIM-6).
    private func parkOthers(than mode: ModePointer) {
        lock(owner: true)
        defer { unlock(owner: true) }
        // Nested runs may have looked for another mode.
        while pointee.parkedFor == mode, let link = pointee.pending.first, !link.pointee.modes.contains(mode) {
            pointee.pending.remove(link)
            pointee.parked.append(link, mark: LinkList.parkedMark)
        }
    }

    /// Clears the flag of a batch member and takes it off the lists. False if it is not to perform: invalid (S-SRC-34), or
    /// performed elsewhere meanwhile (S-SRC-35).
    @inline(always)
    private func takeSignal(of source: SourcePointer) -> Bool {
        lock()
        defer { unlock() }
        return takeSignalLocked(of: source)
    }

    @inline(always)
    func takeSignalLocked(of source: SourcePointer) -> Bool { takeSignalLocked(of: source, source.link(in: self)) }

    @inline(always)
    private func takeSignalLocked(of source: SourcePointer, _ link: SourceLinkPointer?) -> Bool {
        // By now it may have left the loop (S-SRC-33): then the flag alone is cleared.
        let isListedFirst = link == source.firstLink && link!.pointee.list != 0
        // Off the list while it still counts as queued: from the moment it does not, a signaller owns its `next`.
        if isListedFirst { unlist(link!) }
        guard source.takeFlag(unqueueing: isListedFirst) else {
            return takeRefusedSignalLocked(source, link, isListedFirst: isListedFirst)
        }
        if !isListedFirst, let link, link.pointee.list != 0 { dropLocked(link) }
        return true
    }

    /// Takes a link off the lists because its source was not signalled any more. If it is signalled after all, by a signaller
    /// that found the link queued, it goes back to the end. The source is in this loop, which has a reference to it.
    func dropLocked(_ link: SourceLinkPointer) {
        unlist(link)
        giveBackLocked(link)
    }

    func giveBackLocked(_ link: SourceLinkPointer) {
        link.unqueue()
        if link.ofSource.isSignalled && link.tryQueue() { enlist(link) }
    }

    /// Whether the source is valid; if it has a limit, this counts.
    @inline(always)
    private func takesEventLocked(_ source: SourcePointer) -> Bool {
        let state = source.pointee.state.load(ordering: .sequentiallyConsistent)
        if state & (SourceState.invalid | SourceState.limited) == 0 { return true }
        if state & SourceState.invalid != 0 { return false }
        countPerformLocked(source)
        return true
    }

    /// Calls the version 1 source or the watch that an event is for. False if there is none any more, or if client code that ran
    /// since the event drained the descriptor.
    func performPort(_ token: UInt64, _ ready: Readiness, in mode: ModePointer, mayBeDrained: Bool) -> Bool {
        lock(owner: true)
        guard let (source, ready) = mode.pointee.ports.take(token: token, ready: ready, mayBeDrained: mayBeDrained), takesEventLocked(source)
        else {
            unlock(owner: true)
            return false
        }
        if source.isWatch {
            source.retain()
            unlock(owner: true)
            return performWatch(source, ready)
        }
        pointee.counters.ports.count()
        source.clearFlagged()
        guard let perform = source.functions.perform else {
            unlock(owner: true)
            return true
        }
        performAlone(source) { callOutPortSource(perform, $0) }
        return true
    }

    /// Performs a signalled source whose context has no function: a watch, or one that does nothing. The lock is held at the call, not
    /// at the return.
    @inline(never)
    private func performWithoutFunction(_ source: SourcePointer) -> Bool {
        let isWatch = source.isWatch
        if isWatch { source.retain() }
        unlock(owner: true)
        return !isWatch || performSignalledWatch(source)
    }

    /// Calls the handler of a watch, with a reference that the caller gives away. True if it handled something.
    private func performWatch(_ source: SourcePointer, _ ready: Readiness) -> Bool {
        pointee.counters.ports.count()
        var isHandled = false
        timed(source.header) {
            isHandled = call(WatchCall(source: source)) { _ in source.functions.watch!(source.pointee.info, ready.rawValue) }
        }
        releaseServed(source)
        return isHandled
    }

    /// Performs a watch that was signalled. What an earlier run found may be old: the kernel is asked once more (S-SOCK-55). The
    /// caller gives a reference away. True if it reported something, or was signalled by hand.
    private func performSignalledWatch(_ source: SourcePointer) -> Bool {
        let (found, round) = source.takeFound()
        let isShared = source.pointee.moreLinks.load(ordering: .relaxed) != nil
        // What this loop found, another one has reported, unless it is still there.
        let isByHand = !(isShared && takeFoundHere(source))
        guard !found.isEmpty else {
            _ = performWatch(source, [])
            return isByHand
        }
        var ready = found
        if round != self.round & WatchFlags.rounds || isShared {
            ready = found.intersection(readiness(of: source.pointee.port.load(ordering: .relaxed), found, believed: found))
        }
        if ready.isEmpty {
            source.release()
            return false
        }
        return performWatch(source, ready)
    }

    /// Whether the loop found a watch of several loops ready since the last time.
    @inline(never)
    private func takeFoundHere(_ source: SourcePointer) -> Bool {
        lock(owner: true)
        defer { unlock(owner: true) }
        guard let link = source.link(in: self) else { return false }
        defer { link.pointee.isFound = false }
        return link.pointee.isFound
    }

    /// Performs a source that is in the loop, which keeps it meanwhile. The lock is held at the call, not at the return.
    @inline(always)
    func performAlone(_ source: SourcePointer, isSignalled: Bool = false, _ callOut: (UnsafeMutableRawPointer?) -> Void) {
        let record = callLocked(SourceCall(source)) {
            timed(source.header, signalled: isSignalled ? source.signalCount : 0) { callOut(source.pointee.info) }
        }
        unlock(owner: true)
        if record.hasReference { releaseServed(source) }
    }

    /// Drops a reference after the callback. If it is the last one, the client's `release` may take long.
    @inline(never)
    private func releaseServed(_ source: SourcePointer) {
        let waiter = beginLasting()
        source.release()
        waiter?.endCallback()
    }
}

/// A source that performs. The loop keeps it by the membership; if it leaves the loop meanwhile, the record gets a reference.
struct SourceCall: CallRecord {
    /// The source's address; the lowest bit says that the record has a reference.
    private var word: UInt

    static var kind: CallKind { .source }

    @inline(always)
    init(_ source: SourcePointer) { word = UInt(bitPattern: source) }

    var source: SourcePointer { SourcePointer(bitPattern: word & ~1)! }

    @inline(always)
    var hasReference: Bool { word & 1 != 0 }

    mutating func addReference() {
        if hasReference { return }
        source.retain()
        word |= 1
    }
}

/// A watch whose handler runs, with a reference.
struct WatchCall: CallRecord {
    let source: SourcePointer

    static var kind: CallKind { .watch }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// In the child of `fork`: takes up links of its own sources that vanished threads were about to push, or had pushed
    /// elsewhere. The only thread calls it; a signal handler may signal meanwhile.
    func adoptUnfinishedSignals() {
        lock()
        drainLocked()
        pointee.parkedFor = nil
        pointee.inboxes.parkedFor = nil
        forEachModeRecord { mode in
            mode.pointee.sources.forEach { source in
                guard let link = source.link(in: self), link.pointee.list == 0 else { return }
                if link.isQueued {
                    // A handler's signal is on the stack by now. Any other link that is queued and in no list belongs to no thread.
                    drainLocked()
                    if link.pointee.list == 0 { giveBackLocked(link) }
                } else if source.isSignalled && link.tryQueue() {
                    enlist(link)
                }
            }
        }
        unlock()
    }
}

extension RunLoop {
    /// How many handlers of watches with this info are on the calling thread's stack.
    static func watchesOnStack(ofInfo info: UnsafeMutableRawPointer) -> UInt32 {
        guard let loop = RunLoop.ofThread else { return 0 }
        var count: UInt32 = 0
        loop.pointee.calls.contains(WatchCall.self) {
            if $0.pointee.source.pointee.info == info { count += 1 }
            return false
        }
        return count
    }

    /// Calls the body with the info of each watch with that handler whose handler is on the calling thread's stack, once for each time that it is there.
    static func forEachWatchOnStack(of handler: @escaping WatchHandler, _ body: (UnsafeMutableRawPointer) -> Void) {
        guard let loop = RunLoop.ofThread else { return }
        loop.pointee.calls.contains(WatchCall.self) {
            let source = $0.pointee.source
            if sameFunction(source.pointee.callbacks.pointee.functions.watch, handler) { body(source.pointee.info.unsafelyUnwrapped) }
            return false
        }
    }

    /// For the handler of a watch that cannot do its work now: its descriptor is not looked at for a while.
    static func deferServedWatch() {
        guard let loop = RunLoop.ofThread, let frame = loop.pointee.frame, let source = loop.servedWatch else { return }
        loop.lock()
        frame.pointee.mode.pointee.ports.putOff(source, until: Clock.now() + Clock.retryDelay)
        loop.unlock()
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The loop's reference to the source is about to go. The outermost of its performs, which ends last, gets another. The lock is
    /// held.
    func keepIfPerforming(_ source: SourcePointer) {
        var outermost: UnsafeMutablePointer<SourceCall>?
        isCalling(SourceCall.self) {
            if $0.pointee.source == source { outermost = $0 }
            return false
        }
        outermost?.pointee.addReference()
    }

    /// The watch of that info, if its handler is the innermost callback of all and it is valid.
    @inline(always)
    func innermostWatch(ofInfo info: UnsafeMutableRawPointer) -> SourcePointer? {
        guard case .watch = pointee.calls.innermost else { return nil }
        let source = pointee.calls.last(WatchCall.self).source
        return source.pointee.info == info && source.isValid ? source : nil
    }

    /// The watch whose handler is the innermost on the stack.
    var servedWatch: SourcePointer? {
        var source: SourcePointer?
        pointee.calls.contains(WatchCall.self) {
            source = $0.pointee.source
            return true
        }
        return source
    }
}
