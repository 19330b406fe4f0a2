// SPDX-License-Identifier: MIT
import Synchronization

/// The source's side of membership: its links, and invalidation.
extension UnsafeMutablePointer where Pointee == Source {
    /// Ties a free link, or a new one, to a loop whose lock the caller holds.
    func claimLink(for loop: RunLoopPointer) -> SourceLinkPointer {
        func claim(_ link: SourceLinkPointer) -> Bool {
            // The thread that queued it may have vanished in a fork, and would never see the loop.
            if RunLoopPointer.anyVanished && link.isQueued { return false }
            return link.pointee.loop.compareExchange(expected: nil, desired: loop, ordering: .sequentiallyConsistent).exchanged
        }
        if claim(firstLink) { return firstLink }
        if let free = furtherLink(where: claim) { return free }
        let made = UnsafeMutableRawPointer(makeRecord(FurtherLink.self)).assumingMemoryBound(to: SourceLink.self)
        made.pointee.traits = isInbox ? [.inbox, .further] : .further
        made.further.pointee.source = self
        made.pointee.loop.store(loop, ordering: .sequentiallyConsistent)
        var head = pointee.moreLinks.load(ordering: .relaxed)
        while true {
            made.further.pointee.nextOfSource.store(head, ordering: .relaxed)
            let (exchanged, original) = pointee.moreLinks.compareExchange(
                expected: head, desired: made, ordering: .sequentiallyConsistent)
            if exchanged { return made }
            head = original
        }
    }

    /// Drops a reference that is known not to be the last.
    func releaseNotLast() {
        header.pointee.references.wrappingSubtract(1, ordering: .releasing)
    }

    /// Asks a version 1 source for its port when it is about to be added and in no loop (S-SRC-39).
    func readPort() {
        guard isVersionOne, !isWatch, !isInbox,
            firstLink.pointee.loop.load(ordering: .acquiring)?.isVanished ?? true || pointee.port.load(ordering: .relaxed) < 0
        else {
            return
        }
        let port = functions.getPort.map { callOutGetPort($0, pointee.info) } ?? -1
        pointee.port.store(port, ordering: .relaxed)
    }

    /// `RLSourceInvalidate`: invalid at once, no signal, and out of every mode of every loop.
    func invalidate() {
        if !becomeInvalid() { return }
        retain()
        leaveAllLoops(isReferenced: true)
        functions.invalidated?(pointee.info)
        release()
    }

    /// Removes an invalid source from wherever it is, with a `cancel` for each membership (S-SRC-9, S-SRC-10); with `wakingLoops`
    /// those loops get a wake-up (S-SOCK-9). With `isReferenced` a reference is dropped if a `cancel` ends the thread.
    func leaveAllLoops(wakingLoops: Bool = false, isReferenced: Bool = false) {
        forEachLink { leaveLoop(of: $0, wakingLoop: wakingLoops, isReferenced) }
    }

    // Not inlined, for the many callers of `invalidate`.
    @inline(never)
    private func leaveLoop(of link: SourceLinkPointer, wakingLoop: Bool, _ isReferenced: Bool) {
        while let loop = link.pointee.loop.load(ordering: .sequentiallyConsistent), !loop.isVanished {
            // The loop may be gone by now; its memory and lock are not, and the second look shows it.
            loop.lock()
            guard link.pointee.loop.load(ordering: .relaxed) == loop else {
                loop.unlock()
                continue
            }
            if link.pointee.isCommon {
                link.pointee.isCommon = false
                loop.pointee.commonSources.remove(self)
            }
            guard let mode = link.pointee.modes.last else {
                let left = loop.leaveLocked(link)
                loop.unlock()
                if left { loop.finishLeaving(self) }
                return
            }
            // `cancel` needs the loop; the source's reference to it may go with this membership.
            loop.retain()
            let left = loop.removeLocked(link, from: mode)
            loop.unlock()
            if left { loop.finishLeaving(self) }
            if functions.cancel != nil {
                CancelCall(source: self, loop: loop, mode: mode, rest: isReferenced ? .ownInvalidation : .invalidation).make()
            }
            if left && wakingLoop { loop.wakeUp() }
            loop.release()
        }
    }
}

/// A call of `cancel`, and what the caller has to do after it, which is done even if `cancel` ends the thread (S-LOOP-19), on a thread
/// that may have no loop.
struct CancelCall {
    let source: SourcePointer
    let loop: RunLoopPointer
    let mode: ModePointer
    let rest: Rest
    /// The source whose removal from the common modes goes on, to which this one is equal; else nil.
    var removed: SourcePointer?

    enum Rest {
        /// A reference to the source is dropped.
        case removal
        /// The same, and the removal from the common modes goes on.
        case removalFromCommon
        /// A reference to the loop is dropped, and the source leaves what else it is in.
        case invalidation
        /// The same, and a reference to the source is dropped.
        case ownInvalidation
    }

    func make() {
        var call = self
        withUnsafeMutablePointer(to: &call) { call in
            callOutGuarded({ $0!.cast(to: CancelCall.self).callOut() }, call, { $0!.cast(to: CancelCall.self).goOn() }, call)
        }
    }
}

extension UnsafeMutablePointer where Pointee == CancelCall {
    fileprivate func callOut() {
        let source = pointee.source
        callOutCancel(source.functions.cancel!, source.pointee.info, pointee.loop.handle, pointee.mode.pointee.name)
    }

    fileprivate func goOn() {
        let (source, loop) = (pointee.source, pointee.loop)
        switch pointee.rest {
        case .removal: source.release()
        case .removalFromCommon:
            source.release()
            loop.goOnRemovingCommon(pointee.removed.unsafelyUnwrapped, from: pointee.mode)
        case .invalidation, .ownInvalidation:
            loop.release()
            let isReferenced = pointee.rest == .ownInvalidation
            source.leaveAllLoops(isReferenced: isReferenced)
            if isReferenced { source.release() }
        }
    }
}
