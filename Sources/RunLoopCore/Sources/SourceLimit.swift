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

    fileprivate var end: PeriodEnd { PeriodEnd(instant: began + period, isTold: isTold) }
}

/// Until when a source has to wait, and whether the log has reported that it has to.
private struct PeriodEnd {
    let instant: Int64
    let isTold: Bool
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
            let waits = link.pointee.loop.load(ordering: .relaxed) == loop && loop.releaseLocked(link)
            loop.unlock()
            if waits { loop.wakeUp() }
        }
    }

    /// The count and the period; 0 if there is no limit.
    func readLimit() -> (count: Int, period: Int64) {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        return limit.map { ($0.pointee.count, $0.pointee.period) } ?? (0, 0)
    }

    /// Until when the source has to wait; nil: it may perform.
    fileprivate func waits(at now: Int64) -> PeriodEnd? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let limit, limit.pointee.used >= limit.pointee.count else { return nil }
        // A loop with another clock may be before the beginning: its period begins when it performs.
        let end = limit.pointee.end
        return now >= limit.pointee.began && now < end.instant ? end : nil
    }

    /// The source performs. The end of the period if it may not do so again before.
    fileprivate func count(at now: Int64) -> PeriodEnd? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let limit else { return nil }
        if now < limit.pointee.began || now - limit.pointee.began >= limit.pointee.period {
            limit.pointee.began = now
            limit.pointee.used = 0
        }
        limit.pointee.used += 1
        return limit.pointee.used >= limit.pointee.count ? limit.pointee.end : nil
    }

    /// The limit, if it was reached and the log has not reported that: the caller does so.
    fileprivate func takeTelling() -> SourceLimit? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let limit, !limit.pointee.isTold, limit.pointee.used >= limit.pointee.count else { return nil }
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

/// What waits for the end of its period, in `RunLoop.waits`. The loop's lock is held in all of these, but for `tellHeld`.
///
/// A signalled source, or an inbox that is ready, keeps its flag, and its link is held: in none of the lists that a pass looks at. A descriptor
/// rests in the sets of its modes (`PortSet.rest`) as soon as its source has used up its limit: what was taken from a counter cannot be given
/// back. Each look of a wait releases what may go on, and sleeps no longer than until the next may; it is no end of the wait. Only a signalled
/// source of the mode ends it.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// What `takeSignalLocked` does where it could not take the flag at once: there is none, or the source has a limit. The first link is off its
    /// list if `isListedFirst`. False if the source is not to perform: it is held if it has to wait.
    @inline(never)
    func takeRefusedSignalLocked(_ source: SourcePointer, _ link: SourceLinkPointer?, isListedFirst: Bool) -> Bool {
        if let link, source.isLimited, isListedFirst || link.pointee.list != 0, source.isSignalled, let end = source.waits(at: time) {
            if !isListedFirst { unlist(link) }
            holdLocked(link, until: end)
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

    /// Holds the link of a ready inbox with a limit if that has to wait. True if it does.
    @inline(never)
    func holdReadyLocked(_ link: SourceLinkPointer) -> Bool {
        guard let end = link.ofSource.waits(at: time) else { return false }
        pointee.inboxes.ready.remove(link)
        holdLocked(link, until: end)
        return true
    }

    private func holdLocked(_ link: SourceLinkPointer, until end: PeriodEnd) {
        link.pointee.list = LinkList.heldMark
        waitLocked(link, until: end)
    }

    /// A limited source performs.
    @inline(never)
    func countPerformLocked(_ source: SourcePointer) {
        if let end = source.count(at: time), source.hasDescriptor, let link = source.link(in: self) { withdrawLocked(link, until: end) }
    }

    /// A limited source has come into a mode, perhaps within its period: a descriptor then waits as if the source had been there all the time. The
    /// caller makes the loop look again.
    @inline(never)
    func withdrawNewMemberLocked(_ link: SourceLinkPointer) {
        if link.ofSource.hasDescriptor, let end = link.ofSource.waits(at: time) { withdrawLocked(link, until: end) }
    }

    @inline(never)
    private func withdrawLocked(_ link: SourceLinkPointer, until end: PeriodEnd) {
        link.pointee.isWithdrawn = true
        // Of a mode that the source has come into since, too.
        link.pointee.modes.forEach { $0.pointee.ports.rest(link.ofSource) }
        waitLocked(link, until: end)
    }

    @inline(never)
    private func waitLocked(_ link: SourceLinkPointer, until end: PeriodEnd) {
        pointee.waits.set(link, end: end.instant)
        if !end.isTold { pointee.waits.expectTelling(link) }
    }

    /// Releases what may go on. A signalled source of the mode wakes the loop.
    @inline(never)
    func releaseHeldLocked(in mode: ModePointer, now: Int64) {
        var isSignalled = false
        while let wait = pointee.waits.first, wait.pointee.end <= now {
            let link = wait.pointee.link
            // Another loop may have begun the next period.
            if let end = link.ofSource.waits(at: now) {
                pointee.waits.set(link, end: end.instant)
                continue
            }
            releaseLocked(link)
            if !link.isInbox && link.pointee.list != 0 && link.pointee.modes.contains(mode) { isSignalled = true }
        }
        if isSignalled { wakeUp() }
    }

    /// Ends the waiting of a source: the next pass looks at it. False if it does not wait. Any thread.
    @inline(never) @discardableResult
    fileprivate func releaseLocked(_ link: SourceLinkPointer) -> Bool {
        let (isHeld, isWithdrawn) = (link.pointee.list == LinkList.heldMark, link.pointee.isWithdrawn)
        pointee.waits.remove(link)
        if isHeld {
            link.pointee.list = 0
            // Another loop may have performed it.
            if link.ofSource.isSignalled { enlist(link) } else { giveBackLocked(link) }
        }
        if isWithdrawn {
            link.pointee.isWithdrawn = false
            link.pointee.modes.forEach { $0.pointee.ports.resume(link.ofSource, in: $0) }
        }
        return isHeld || isWithdrawn
    }

    /// When a wait in the mode has to look at what is held. A clock of the program goes on to that instant, so it is one at which a source of the mode
    /// may go on; by the system's clock it may be that of a source of another mode, which is released by the look.
    @inline(never)
    func heldEndLocked(in mode: ModePointer) -> Int64 {
        if manualClock == nil { return pointee.waits.first?.pointee.end ?? Clock.never }
        return pointee.waits.firstEnd(in: mode, before: Clock.never)
    }

    /// Logs which sources have to wait. Calls the client: the loop's thread, no lock held.
    @inline(never)
    func tellHeld() {
        while true {
            lock()
            var told: (source: SourcePointer, limit: SourceLimit)?
            while told == nil, let source = pointee.waits.takeUntold()?.ofSource {
                guard let limit = source.takeTelling() else { continue }
                source.retain()
                told = (source, limit)
            }
            unlock()
            guard let told else { return }
            told.source.tell(told.limit)
            told.source.release()
        }
    }

    /// The source leaves the loop; for the kernel it has left already.
    func forgetLimitLocked(_ link: SourceLinkPointer) {
        if pointee.waits.isIdle { return }
        link.pointee.isWithdrawn = false
        pointee.waits.forget(link)
    }
}
