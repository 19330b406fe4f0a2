// SPDX-License-Identifier: MIT
import Synchronization

/// Adding, removing and invalidating sources. The unit is one mode; the pseudo-mode and invalidation repeat it. Client
/// functions (`equal`, `hash`, `getPort`, `schedule`, `cancel`) run between the units, never under a lock.
extension UnsafeMutablePointer where Pointee == RunLoop {
    // MARK: Calls of the client interface

    func addSource(_ source: SourcePointer, to name: ModeName) {
        guard source.isValid else { return }
        // Before the question: `hash` may fork, and the child knows other threads' loops no more.
        source.prepareHashCode()
        guard acceptsItems("RLAddSource", .addSourceToEndedMain) else { return }
        switch name {
        case .none: return
        case .named(let name): addToMode(source, makeMode(name))
        case .common:
            var added = false
            var isBesideEqual = true
            // A further turn needs an equal common item that was removed meanwhile.
            while isBesideEqual {
                lock()
                let member = findEqualLocked(source) { $0.pointee.commonSources }
                if member == nil, source.isValid, !isClosing, let link = linkLocked(for: source) {
                    link.pointee.isCommon = true
                    pointee.commonSources.insert(source)
                }
                unlock()
                isBesideEqual = member != nil && member != source
                forEachCommonMode { mode in
                    mode.pointee.exists.store(true, ordering: .releasing)
                    // Beside an equal common item it joins the modes where that one is not (S-MODE-18).
                    if add(source, to: mode, asCommon: !isBesideEqual) { added = true }
                }
                if isBesideEqual && containsSource(source, in: .common) { break }
            }
            if added { wakeForNewSource(source) }
        }
    }

    /// The rest of an Add to one mode.
    func addToMode(_ source: SourcePointer, _ mode: ModePointer) {
        if add(source, to: mode) { wakeForNewSource(source) }
    }

    func removeSource(_ source: SourcePointer, from name: ModeName) {
        source.prepareHashCode()
        switch name {
        case .none: return
        case .named(let name):
            if let mode = mode(name) { remove(source, from: mode) }
        case .common:
            lock()
            guard !isVanished, let member = findEqualLocked(source, in: { $0.pointee.commonSources }) else { return unlock() }
            member.retain()
            pointee.commonSources.remove(member)
            member.link(in: self)!.pointee.isCommon = false
            unlock()
            goOnRemovingCommon(member)
        }
    }

    /// Takes a source that is not a common item any more out of the common modes. The caller gives away a reference. `last`: it was taken out of this
    /// one already, by a removal whose `cancel` ended the thread.
    func goOnRemovingCommon(_ member: SourcePointer, from last: ModePointer? = nil) {
        // What was put into those before it meanwhile stays.
        var isDone = last != nil
        forEachCommonMode { mode in
            if mode == last { isDone = false }
            if isDone { return }
            // An equal one that has become the common item was refused where the member still was, and only there.
            guard mode == last || remove(member, from: mode, asCommon: true) else { return }
            lock()
            let item = findEqualLocked(member) { $0.pointee.commonSources }
            item?.retain()
            unlock()
            guard let item else { return }
            // The Add that has made this one a common item again joins the modes itself.
            if item != member && add(item, to: mode, asCommon: true) { wakeForNewSource(item) }
            item.release()
        }
        lock()
        let left = member.link(in: self).map { leaveLocked($0) } ?? false
        unlock()
        if left { finishLeaving(member) }
        member.release()
    }

    func containsSource(_ source: SourcePointer, in name: ModeName) -> Bool {
        source.prepareHashCode()
        lock()
        defer { unlock() }
        switch name {
        case .none: return false
        case .common: return findEqualLocked(source) { $0.pointee.commonSources } != nil
        case .named(let name):
            guard let mode = mode(name) else { return false }
            return findEqualLocked(source) { _ in mode.pointee.sources } != nil
        }
    }

    // MARK: One mode

    /// Adds the source to one mode and calls `schedule`. False if it or an equal one was there (S-SRC-7).
    ///
    /// `asCommon`: only while it is a common item, as `remove` then removes it only while it is not one. So when one thread adds
    /// to the pseudo-mode and another removes, the later change of the set prevails in every mode.
    @discardableResult
    func add(_ source: SourcePointer, to mode: ModePointer, asCommon: Bool = false) -> Bool {
        source.readPort()
        lock()
        // `getPort` and `equal` may fork too.
        if isClosing || findEqualLocked(source, in: { _ in mode.pointee.sources }) != nil
            || !source.isValid || isClosing
            || (asCommon && source.link(in: self)?.pointee.isCommon != true)
        {
            unlock()
            return false
        }
        guard let link = linkLocked(for: source) else {
            unlock()
            return false
        }
        link.pointee.modes.insert(mode)
        mode.pointee.sources.insert(source)
        if source.isNotified { mode.pointee.ports.joinNotifier(in: mode) }
        if source.isInbox {
            mode.pointee.inboxCount += 1
            takeSignalOfNewMemberLocked(link, in: mode)
        } else {
            if source.hasDescriptor { mode.pointee.ports.insert(source, in: mode) }
            if !source.isVersionOne { takeSignalOfNewMemberLocked(link, in: mode) }
        }
        // Perhaps within its period. The caller makes the loop look again.
        if source.isLimited { _ = mustWaitLocked(source, link, at: time) }
        unlock()
        if source.isVersionOne || source.isWatch { lookAgainIfForeign() }
        // The thread that made the membership calls this, the thread that ends it calls `cancel`, whatever comes in between (S-SRC-18).
        if let schedule = source.functions.schedule { callOutSchedule(schedule, source.pointee.info, handle, mode.pointee.name) }
        return true
    }

    /// Removes the member that is the source or equal to it from one mode and calls `cancel` (S-SRC-8). False if there was none to remove.
    @discardableResult
    func remove(_ source: SourcePointer, from mode: ModePointer, asCommon: Bool = false) -> Bool {
        lock()
        // Neither where an Add has made it a common item again, nor an equal one.
        guard let member = findEqualLocked(source, in: { _ in mode.pointee.sources }), let link = member.link(in: self),
            !(asCommon && (link.pointee.isCommon || source.link(in: self)?.pointee.isCommon == true))
        else {
            unlock()
            return false
        }
        member.retain()
        let left = removeLocked(link, from: mode)
        unlock()
        if left { finishLeaving(member) }
        if member.functions.cancel != nil {
            CancelCall(source: member, loop: self, mode: mode, rest: asCommon ? .removalFromCommon : .removal, removed: source).make()
        }
        member.release()
        return true
    }

    /// Ends one membership. True if the source thereby left the loop: then the caller, without the lock, calls `finishLeaving`.
    func removeLocked(_ link: SourceLinkPointer, from mode: ModePointer) -> Bool {
        let source = link.ofSource
        mode.pointee.sources.remove(source)
        if source.isNotified { mode.pointee.ports.leaveNotifier() }
        if source.isInbox {
            mode.pointee.inboxCount -= 1
        } else if source.hasDescriptor {
            mode.pointee.ports.remove(source, in: mode)
        }
        link.pointee.modes.remove(mode)
        return leaveLocked(link)
    }

    /// Takes the source out of the loop if it is in no mode and not a common item any more.
    func leaveLocked(_ link: SourceLinkPointer) -> Bool {
        guard link.pointee.modes.isEmpty && !link.pointee.isCommon else { return false }
        keepIfPerforming(link.ofSource)
        forgetLimitLocked(link)
        // The link comes off this loop's stack and out of its lists while it is still this loop's: from the moment its `loop` is
        // nil, an Add in another thread may take it for another loop.
        drainAnywhereLocked()
        let isInHand = link.pointee.list != 0
        if isInHand { unlist(link) }
        link.pointee.loop.store(nil, ordering: .sequentiallyConsistent)
        // A signaller that saw the loop before that may have pushed the link since the first look.
        drainAnywhereLocked()
        // An Add that finds the link queued leaves it to the thread that queued it, which is this one. The caller has a
        // reference: the memory stays.
        if isInHand { SourceLink.forward(link, freedBy: nil) }
        return true
    }

    /// The references that source and loop had on each other. No lock is held.
    func finishLeaving(_ source: SourcePointer) {
        source.release()
        release()
    }

    /// The source's link to this loop, made if need be; loop and source then have a reference to each other. The caller has seen the source
    /// valid under the lock. nil if it is not any more: its Invalidate may have looked before the link was there, and may have given a number
    /// back, which must not be registered then. A later Invalidate finds the link, and waits for the lock (S-SRC-9).
    @inline(never)
    private func linkLocked(for source: SourcePointer) -> SourceLinkPointer? {
        if let link = source.link(in: self) { return link }
        source.retain()
        retain()
        var link: SourceLinkPointer? = source.claimLink(for: self)
        if !source.isValid {
            _ = leaveLocked(link!)
            // Not the last references: the caller has one to each.
            finishLeaving(source)
            link = nil
        }
        return link
    }

    /// A signal that came before the source was in this loop (S-SRC-27): the link goes to the end of the pending ones. If it is queued already, the
    /// thread that queued it sees the loop and pushes it; a mark makes a signaller wake the loop after its push, because the wake-up of the Add may
    /// come before that. A thread that makes an inbox ready makes the loop look in any case.
    private func takeSignalOfNewMemberLocked(_ link: SourceLinkPointer, in mode: ModePointer) {
        // A parked link was not in the mode that was looked at; now it may be. The next look goes through all that are parked, which keeps
        // their order; a look at another mode does so in any case.
        if link.pointee.list == LinkList.parkedMark && pointee.parkedFor == mode { pointee.parkedFor = nil }
        if link.pointee.list == LinkList.parkedReadyMark && pointee.inboxes.parkedFor == mode { pointee.inboxes.parkedFor = nil }
        guard link.pointee.list == 0, link.ofSource.isSignalled else { return }
        if link.tryQueue() {
            // Behind what was signalled in the loop before (S-LIM-6).
            drainAnywhereLocked()
            enlist(link)
        } else if !link.isInbox {
            link.ofSource.markSignal()
        }
    }

    /// A source that another thread adds wakes the loop, so that a signalled one performs at once (S-WAKE-15).
    private func wakeForNewSource(_ source: SourcePointer) {
        if !source.isVersionOne && mayBeAsleep { wakeUp() }
    }

    /// It is being freed, or its thread does not exist in this process.
    private var isClosing: Bool { pointee.closing.load(ordering: .relaxed) }

    // MARK: Equality

    /// The member of a set that is the source or equal to it. The lock is held at the call and at the return, but not
    /// while the client's `equal` runs.
    private func findEqualLocked(_ source: SourcePointer, in set: (RunLoopPointer) -> SourceSet) -> SourcePointer? {
        if set(self).contains(source) { return source }
        var skip = 0
        while let candidate = set(self).candidate(for: source, skip: skip) {
            guard source.functions.equal != nil else {
                if candidate.pointee.info == source.pointee.info { return candidate }
                skip += 1
                continue
            }
            candidate.retain()
            let changes = set(self).changes
            unlock()
            let isEqual = source.isEqual(candidate)
            lock()
            // The reference that is dropped here is not the last one if the candidate is still a member. In the child of a fork by `equal` the
            // loop is an empty one.
            let isMember = !isVanished && set(self).contains(candidate)
            if !isMember {
                unlock()
                candidate.release()
                lock()
            } else {
                candidate.releaseNotLast()
            }
            if isEqual && isMember { return candidate }
            if isVanished { return nil }
            // A changed table is searched anew; each turn needs a change by another thread or a further candidate.
            if set(self).changes != changes {
                if set(self).contains(source) { return source }
                skip = 0
            } else {
                skip += 1
            }
        }
        return nil
    }
}
