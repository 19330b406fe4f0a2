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
    /// The number of that clock, 0 for the system's.
    var clock: UInt32
    /// Whether the log has reported that the source has to wait.
    var isTold: Bool

    private var end: PeriodEnd { PeriodEnd(instant: began + period, isTold: isTold) }

    /// A loop may be behind the one that began the period by the same clock. One with another clock may be before the beginning: its period begins
    /// when it performs.
    private func isUnderWay(at now: Int64, by clock: UInt32) -> Bool { now < began + period && (now >= began || clock == self.clock) }

    /// Until when the source has to wait; nil: it may perform.
    fileprivate func waits(at now: Int64, by clock: UInt32) -> PeriodEnd? {
        used >= count && isUnderWay(at: now, by: clock) ? end : nil
    }

    /// The source performs. The end of the period if it may not do so again before.
    fileprivate mutating func use(at now: Int64, by clock: UInt32) -> PeriodEnd? {
        if !isUnderWay(at: now, by: clock) {
            began = now
            used = 0
            self.clock = clock
        }
        used += 1
        return used >= count ? end : nil
    }
}

/// Until when a source has to wait, and whether the log has reported that it has to.
struct PeriodEnd {
    let instant: Int64
    let isTold: Bool
}

typealias SourceLimitPointer = UnsafeMutablePointer<SourceLimit>

extension UnsafeMutablePointer where Pointee == Source {
    /// nil if there is none. The registry's lock is held.
    var limit: SourceLimitPointer? {
        SourceLimitPointer(bitPattern: Names.shared.pointee.limits.find(UInt(bitPattern: self), isKeyed: true))
    }

    /// The count and the period; 0 if there is no limit.
    func readLimit() -> (count: Int, period: Int64) {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        return limit.map { ($0.pointee.count, $0.pointee.period) } ?? (0, 0)
    }

    /// Takes the flag of a source that may have a limit, and with `unqueueing` the first link, if the source may perform at that time, and counts that: one
    /// section, so that of several loops each performs within the limit. The end is that of the period, if the source has to wait for it now,
    /// or next time.
    func takeCountedFlag(unqueueing: Bool, at now: Int64, by clock: UInt32) -> (isTaken: Bool, end: PeriodEnd?) {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        let limit = limit
        if let end = limit?.pointee.waits(at: now, by: clock) { return (false, end) }
        // Without a limit, too: it may have been removed since, by a thread that found nothing waiting.
        guard takeFlag(unqueueing: unqueueing, disregarding: SourceState.limited) else { return (false, nil) }
        return (true, limit?.pointee.use(at: now, by: clock))
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    var clockNumber: UInt32 { manualClock?.pointee.number ?? 0 }

    /// Whether a limited source has to wait: whoever is about to perform it, or has an event for it, asks this before anything is taken from it. If so,
    /// it is held. A source that is neither signalled nor ready is asked again when it is. The loop's lock is held.
    @inline(never)
    func mustWaitLocked(_ source: SourcePointer, _ link: SourceLinkPointer?, at now: Int64) -> Bool {
        process.pointee.registryLock.lockWord()
        let end = source.limit?.pointee.waits(at: now, by: clockNumber)
        process.pointee.registryLock.unlockWord()
        guard let end else { return false }
        holdLocked(source, link, until: end)
        return true
    }

    /// A limited source waits in this loop: signalled or ready, out of the lists; its descriptor out of the sets.
    func holdLocked(_ source: SourcePointer, _ link: SourceLinkPointer?, until end: PeriodEnd) {
        guard let link else { return }
        if link.pointee.list != 0 && link.pointee.list != LinkList.heldMark {
            unlist(link)
            link.pointee.list = LinkList.heldMark
        }
        if source.hasDescriptor { withdrawLocked(link) }
        if link.pointee.list != 0 || link.pointee.isWithdrawn { waitLocked(link, until: end) }
    }

    /// A limited source performs what an event is for.
    @inline(never)
    func countPerformLocked(_ source: SourcePointer) {
        let now = time
        process.pointee.registryLock.lockWord()
        let end = source.limit?.pointee.use(at: now, by: clockNumber)
        process.pointee.registryLock.unlockWord()
        restLocked(source, until: end)
    }

    /// A descriptor rests in the sets as soon as its source has used up its limit: what was taken from a counter cannot be given back.
    func restLocked(_ source: SourcePointer, until end: PeriodEnd?) {
        guard let end, source.hasDescriptor, let link = source.link(in: self) else { return }
        withdrawLocked(link)
        waitLocked(link, until: end)
    }

    private func withdrawLocked(_ link: SourceLinkPointer) {
        link.pointee.isWithdrawn = true
        // Of a mode that the source has come into since, too.
        link.pointee.modes.forEach { $0.pointee.ports.rest(link.ofSource) }
    }

    private func waitLocked(_ link: SourceLinkPointer, until end: PeriodEnd) {
        pointee.waits.set(link, end: end.instant)
        if !end.isTold { pointee.waits.expectTelling(link) }
    }
}
