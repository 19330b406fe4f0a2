// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// How often a source may perform (S-LIM-1), beside the source: one without a limit costs a look at a bit of its state. Guarded by the
/// registry's lock, as names are: a source may perform in several loops.
struct SourceLimit {
    /// The source's address. The first word: limits are found by it.
    var source: UInt
    var count: Int
    /// In nanoseconds.
    var period: Int64
    /// When the period began, by the clock of the loop that performed, and how often the source has performed in it.
    var began: Int64
    var used: Int
    /// Whether the log has reported that the source has to wait.
    var isTold: Bool
}

typealias SourceLimitPointer = UnsafeMutablePointer<SourceLimit>

extension UnsafeMutablePointer where Pointee == Source {
    /// nil if there is none. The registry's lock is held.
    private var limit: SourceLimitPointer? {
        SourceLimitPointer(bitPattern: Names.shared.pointee.limits.find(UInt(bitPattern: self), isKeyed: true))
    }

    /// `RLSourceSetLimit`; a count of 0 means none. What is waiting comes under the new limit.
    func setLimit(_ count: Int, _ period: Int64) {
        var word: UInt = 0
        if count > 0 {
            let limit = makeRecord(SourceLimit.self)
            limit.initialize(to: SourceLimit(source: UInt(bitPattern: self), count: count, period: period, began: .min / 2, used: 0, isTold: false))
            word = UInt(bitPattern: limit)
        }
        process.pointee.registryLock.lockWord()
        let old = Names.shared.pointee.limits.remove(UInt(bitPattern: self), isKeyed: true)
        setLimited(word != 0)
        if word == 0 {
            header.pointee.marks.bitwiseAnd(~ObjectMarks.limited, ordering: .relaxed)
        } else {
            Names.shared.pointee.limits.insert(word, isKeyed: true)
            header.pointee.marks.bitwiseOr(ObjectMarks.limited, ordering: .relaxed)
        }
        process.pointee.registryLock.unlockWord()
        CRunLoopLinux.free(UnsafeMutableRawPointer(bitPattern: old))
        if old == 0 { return }
        forEachLink { link in
            guard let loop = link.pointee.loop.load(ordering: .sequentiallyConsistent), !loop.isVanished else { return }
            loop.lock()
            // It may be another loop's by now, which has looked at the new limit.
            let isHeld = link.pointee.loop.load(ordering: .relaxed) == loop && loop.pointee.heldUntil != 0
            if isHeld {
                loop.releaseLocked(link)
                loop.pointee.heldUntil = .min
            }
            loop.unlock()
            if isHeld { loop.wakeUp() }
        }
    }

    /// The count and the period; 0 if there is no limit.
    func readLimit() -> (count: Int, period: Int64) {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        return limit.map { ($0.pointee.count, $0.pointee.period) } ?? (0, 0)
    }

    /// The instant until which the source has to wait; nil: it may perform.
    fileprivate func waits(at now: Int64) -> Int64? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let limit, limit.pointee.used >= limit.pointee.count else { return nil }
        // A loop with another clock may be before the beginning: its period begins when it performs.
        let end = limit.pointee.began + limit.pointee.period
        return now >= limit.pointee.began && now < end ? end : nil
    }

    /// The source performs. The end of the period if it may not do so again before.
    fileprivate func count(at now: Int64) -> Int64? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let limit else { return nil }
        if now < limit.pointee.began || now - limit.pointee.began >= limit.pointee.period {
            limit.pointee.began = now
            limit.pointee.used = 0
        }
        limit.pointee.used += 1
        return limit.pointee.used >= limit.pointee.count ? limit.pointee.began + limit.pointee.period : nil
    }

    /// The limit, if the log has not reported it: the caller does so.
    fileprivate func takeTelling() -> SourceLimit? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let limit, !limit.pointee.isTold else { return nil }
        limit.pointee.isTold = true
        return limit.pointee
    }

    /// No lock is held.
    fileprivate func tell(_ told: SourceLimit) {
        var text = TextBuffer()
        text.append("RunLoop: source ")
        text.append(address: UnsafeRawPointer(self))
        if let name = header.copyName() {
            text.append(" ")
            text.appendName(name)
            CRunLoopLinux.free(name)
        }
        text.append(" has performed ")
        text.append(told.count, " time")
        text.append(" in ", Double(told.period) / 1e9)
        text.append(" s, its limit; it waits for the next period")
        Log.line(&text)
        text.free()
    }
}

/// What waits for the end of its period. The loop's lock is held in all of these.
///
/// A signalled source, or an inbox that is ready, keeps its flag, and its link is in the list `held` instead of those that a pass looks at. A
/// descriptor rests in the sets of its modes (`PortSet.rest`) as soon as its source has used up its limit: what was taken from a counter cannot be
/// given back. `heldUntil` is the first instant, by the loop's clock, at which something may go on; each look of a wait takes it into account.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// What `takeSignalLocked` does where it could not take the flag at once: there is none, or the source has a limit. The first link is off its
    /// list if `isListedFirst`. False if the source is not to perform: it is in `held` if it has to wait.
    @inline(never)
    func takeRefusedSignalLocked(_ source: SourcePointer, _ link: SourceLinkPointer?, isListedFirst: Bool) -> Bool {
        if let link, source.isLimited, isListedFirst || link.pointee.list != 0, source.isSignalled, let end = source.waits(at: time) {
            if !isListedFirst { unlist(link) }
            pointee.held.append(link, mark: LinkList.heldMark)
            noteEnd(end)
            return false
        }
        // Without a limit, too: it may have been removed since, by a thread that found nothing waiting.
        guard source.takeFlag(unqueueing: isListedFirst, disregarding: SourceState.limited) else {
            if isListedFirst { giveBackLocked(link!) }
            return false
        }
        if !isListedFirst, let link, link.pointee.list != 0 { dropLocked(link) }
        countPerformLocked(source)
        return true
    }

    /// A limited source performs.
    @inline(never)
    func countPerformLocked(_ source: SourcePointer) {
        if let end = source.count(at: time), source.hasDescriptor, let link = source.link(in: self) { withdrawLocked(link, until: end) }
    }

    /// A limited source has come into a mode, perhaps within its period: a descriptor then waits as if the source had been there all the time. True
    /// if it does; a loop that waits already does not know until when.
    @inline(never)
    func withdrawNewMemberLocked(_ link: SourceLinkPointer) -> Bool {
        guard link.ofSource.hasDescriptor, let end = link.ofSource.waits(at: time) else { return false }
        withdrawLocked(link, until: end)
        return true
    }

    @inline(never)
    private func withdrawLocked(_ link: SourceLinkPointer, until end: Int64) {
        if !link.pointee.isWithdrawn { pointee.withdrawn.insert(UInt(bitPattern: link), isKeyed: false) }
        link.pointee.isWithdrawn = true
        // Of a mode that the source has come into since, too.
        link.pointee.modes.forEach { $0.pointee.ports.rest(link.ofSource) }
        noteEnd(end)
    }

    private func noteEnd(_ end: Int64) {
        pointee.hasNewlyHeld = true
        if pointee.heldUntil == 0 || end < pointee.heldUntil { pointee.heldUntil = end }
    }

    /// Releases what may go on. True if a signalled source of the mode is among it.
    @inline(never)
    func releaseHeldLocked(in mode: ModePointer, now: Int64) -> Bool {
        // By a clock of the program a period may be over before: another loop may have begun the next one, by its own clock.
        if now < pointee.heldUntil && manualClock == nil { return false }
        pointee.heldUntil = 0
        var isSignalled = false
        var next = pointee.held.first
        while let link = next {
            next = link.pointee.next
            if let end = link.ofSource.waits(at: now) {
                noteEnd(end)
                continue
            }
            releaseLocked(link)
            if !link.pointee.traits.contains(.inbox) && link.pointee.modes.contains(mode) { isSignalled = true }
        }
        // A set of the links that stay: removing while going through it would move them.
        var all = pointee.withdrawn
        pointee.withdrawn = WordSet()
        all.forEach { word in
            let link = SourceLinkPointer(bitPattern: word)!
            let source = link.ofSource
            if let end = source.waits(at: now) {
                noteEnd(end)
                return pointee.withdrawn.insert(word, isKeyed: false)
            }
            giveBackDescriptorLocked(link)
        }
        all.removeAll()
        return isSignalled
    }

    /// Ends the waiting of a source, if it waits: the next pass looks at it. Any thread.
    @inline(never)
    fileprivate func releaseLocked(_ link: SourceLinkPointer) {
        if link.pointee.list == LinkList.heldMark {
            pointee.held.remove(link)
            enlist(link)
        }
        if link.pointee.isWithdrawn {
            _ = pointee.withdrawn.remove(UInt(bitPattern: link), isKeyed: false)
            giveBackDescriptorLocked(link)
        }
    }

    @inline(never)
    private func giveBackDescriptorLocked(_ link: SourceLinkPointer) {
        link.pointee.isWithdrawn = false
        link.pointee.modes.forEach { $0.pointee.ports.resume(link.ofSource, in: $0) }
    }

    /// Before a look: the same, which ends the wait if a signalled source of the mode is among it, and the next instant at which something may go
    /// on; the look takes that as the end of the wait.
    @inline(never)
    func releaseHeld(in mode: ModePointer) -> Int64 {
        lock()
        let isSignalled = releaseHeldLocked(in: mode, now: time)
        let next = manualClock == nil ? (pointee.heldUntil == 0 ? Clock.never : pointee.heldUntil) : heldEndLocked(in: mode)
        unlock()
        if isSignalled { wakeUp() }
        return next
    }

    /// Logs which sources have to wait. Before a wait and not in it, because it calls the client.
    @inline(never)
    func tellHeld() {
        while true {
            lock()
            let told = pointee.hasNewlyHeld ? takeUntoldLocked() : nil
            unlock()
            guard let told else { return }
            told.source.tell(told.limit)
            told.source.release()
        }
    }

    /// The first instant at which a source of the mode may go on; `heldUntil` may be that of another mode, or of a source that is no longer there.
    @inline(never)
    func heldEndLocked(in mode: ModePointer) -> Int64 {
        var end = Clock.never
        func meet(_ link: SourceLinkPointer) {
            if link.pointee.modes.contains(mode) { end = Swift.min(end, link.ofSource.waits(at: time) ?? time) }
        }
        pointee.withdrawn.forEach { meet(SourceLinkPointer(bitPattern: $0)!) }
        var next = pointee.held.first
        while let link = next {
            meet(link)
            next = link.pointee.next
        }
        return end
    }

    /// A waiting source that the log has not reported, with a reference; the others have their turns next.
    private func takeUntoldLocked() -> (source: SourcePointer, limit: SourceLimit)? {
        var found: (source: SourcePointer, limit: SourceLimit)?
        func look(_ source: SourcePointer) {
            if found == nil, let limit = source.takeTelling() { found = (source, limit) }
        }
        pointee.withdrawn.forEach { look(SourceLinkPointer(bitPattern: $0)!.ofSource) }
        var next = pointee.held.first
        while let link = next {
            look(link.ofSource)
            next = link.pointee.next
        }
        found?.source.retain()
        if found == nil { pointee.hasNewlyHeld = false }
        return found
    }

    /// The source leaves the loop, or one of its modes; for the kernel it has left already.
    func forgetWithdrawnLocked(_ link: SourceLinkPointer) {
        guard link.pointee.isWithdrawn else { return }
        link.pointee.isWithdrawn = false
        _ = pointee.withdrawn.remove(UInt(bitPattern: link), isKeyed: false)
    }
}
