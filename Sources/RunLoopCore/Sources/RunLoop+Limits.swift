// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

extension UnsafeMutablePointer where Pointee == Source {
    /// `RLSourceSetLimit`; a count of 0 means none. What is waiting comes under the new limit.
    func setLimit(_ count: Int, _ period: Int64) {
        var word: UInt = 0
        if count > 0 {
            let limit = makeRecord(SourceLimit.self)
            limit.initialize(to: SourceLimit(source: UInt(bitPattern: self), count: count, period: period, began: .min / 2, used: 0, clock: 0, isTold: false))
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
            let waits = link.pointee.loop.load(ordering: .relaxed) == loop && loop.releaseLocked(link, at: loop.time)
            loop.unlock()
            if waits { loop.wakeUp() }
        }
    }

    /// The limit, if it was reached and the log has not reported that: the caller does so.
    fileprivate func takeTelling() -> SourceLimit? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        guard let limit, !limit.pointee.isTold, limit.pointee.used >= limit.pointee.count else { return nil }
        limit.pointee.isTold = true
        return limit.pointee
    }

    /// The line that says so.
    fileprivate func describe(_ limit: SourceLimit) -> TextBuffer {
        var text = TextBuffer()
        text.append("RunLoop: source ")
        text.append(address: UnsafeRawPointer(self))
        if let name = header.copyName() {
            text.append(" ")
            text.appendName(name)
            CRunLoopLinux.free(name)
        }
        text.append(" has performed ")
        text.append(limit.count, " time")
        text.append(" in ", Double(limit.period) / 1e9)
        text.append(" s, its limit; it waits for the next period")
        return text
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
        let (isTaken, end) = source.takeCountedFlag(unqueueing: isListedFirst, at: time, by: clockNumber)
        if isTaken {
            if !isListedFirst, let link, link.pointee.list != 0 { dropLocked(link) }
            restLocked(source, until: end)
        } else if let end, source.isSignalled {
            // Signalled again since the batch was made, it may be on the stack: from the lists it can be held.
            if isListedFirst { enlist(link!) } else { drainLocked() }
            holdLocked(source, link, until: end)
        } else if isListedFirst {
            giveBackLocked(link!)
        } else if let link, link.pointee.list == LinkList.pendingMark, !source.isSignalled {
            // Another loop has performed it.
            dropLocked(link)
        }
        return isTaken
    }

    /// Releases what may go on. True if a signalled source of the mode is among it, which ends the wait that looks. A wait further out that is
    /// still ahead finds nothing held any more, so a signalled source of its mode ends it now.
    @inline(never) @discardableResult
    func releaseHeldLocked(in mode: ModePointer, now: Int64) -> Bool {
        var isSignalled = false
        while let wait = pointee.waits.first, wait.pointee.end <= now {
            let link = wait.pointee.link
            releaseLocked(link, at: now)
            if link.isInbox || link.pointee.list == 0 || link.pointee.list == LinkList.heldMark { continue }
            endWaits { link.pointee.modes.contains($0) }
            if link.pointee.modes.contains(mode) { isSignalled = true }
        }
        return isSignalled
    }

    /// Ends the waiting of a source, unless it has to wait on: another loop may have begun the next period, or used up a new limit. The next pass
    /// looks at it. False if it did not wait. Any thread.
    @inline(never) @discardableResult
    fileprivate func releaseLocked(_ link: SourceLinkPointer, at now: Int64) -> Bool {
        let (isHeld, isWithdrawn) = (link.pointee.list == LinkList.heldMark, link.pointee.isWithdrawn)
        if mustWaitLocked(link.ofSource, link, at: now) { return isHeld || isWithdrawn }
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
            // The handler may end the thread.
            var text = told.source.describe(told.limit)
            callOutGuarded({ Log.line($0!.cast(to: TextBuffer.self).pointee) }, &text, { $0!.cast(to: Source.self).release() }, told.source)
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
