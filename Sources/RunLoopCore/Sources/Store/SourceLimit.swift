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
    func count(at now: Int64) -> PeriodEnd? {
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
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Whether a limited source has to wait: whoever is about to perform it, or has an event for it, asks this before anything is taken from it. If so,
    /// it waits in this loop: signalled or ready, out of the lists; its descriptor out of the sets. A source that is neither is
    /// asked again when it is. The loop's lock is held.
    @inline(never)
    func mustWaitLocked(_ source: SourcePointer, _ link: SourceLinkPointer?, at now: Int64) -> Bool {
        guard let end = source.waits(at: now) else { return false }
        guard let link else { return true }
        if link.pointee.list != 0 && link.pointee.list != LinkList.heldMark {
            unlist(link)
            link.pointee.list = LinkList.heldMark
        }
        if source.hasDescriptor { withdrawLocked(link) }
        if link.pointee.list != 0 || link.pointee.isWithdrawn { waitLocked(link, until: end) }
        return true
    }

    /// A limited source performs. A descriptor rests in the sets as soon as its source has used up its limit: what was taken from a counter cannot be
    /// given back.
    @inline(never)
    func countPerformLocked(_ source: SourcePointer) {
        guard let end = source.count(at: time), source.hasDescriptor, let link = source.link(in: self) else { return }
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
