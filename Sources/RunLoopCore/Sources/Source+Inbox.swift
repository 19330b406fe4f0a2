// SPDX-License-Identifier: MIT
import Synchronization

/// Inboxes: version 1 sources that a call makes ready, from any thread and without a descriptor.
///
/// `makeInbox` makes one, `markReady` says that there is something in it. Its `watch` then runs on the thread of a loop it is
/// in, at P13 and in the mode that runs, one inbox per pass, in the order in which they became ready, and alternating with due
/// timers and with descriptors (S-PASS-8, S-PASS-10). It counts as a handled source if it says so; the inbox keeps its modes from being
/// empty. What is in the inbox is its owner's business. `watch` takes one thing; if there is more it calls `markReady` before it calls the
/// client, and so performs again after the others that are ready.
///
/// The mark is kept while the inbox is in no loop, or while its loops run other modes. Marks before the perform count once, and
/// the mark is removed before `watch` is called: what was put in before a mark is seen by the perform that the mark causes or
/// by an earlier one. So nothing is lost if every thread marks after putting something in, or, where the owner has a lock, if the
/// thread that finds the inbox empty marks under that lock. An inbox in several loops performs in one of them for each mark.
///
/// Nothing here takes a lock, allocates, or calls the kernel while the loop is awake: async-signal-safe. A sleeping loop is made
/// to look again; the ready inbox then ends its wait, which is not a wake-up.
extension UnsafeMutablePointer where Pointee == Source {
    /// An inbox with one reference, in no loop and not ready. Of the functions, `schedule`, `cancel`, `getPort` and `perform` are not called.
    static func makeInbox(order: Int, info: UnsafeMutableRawPointer?, functions: SourceFunctions) -> SourcePointer {
        make(order: order, info: info, functions: functions, isVersionOne: true, isInbox: true)
    }

    /// Makes the inbox ready and makes its loops notice. Any thread that has a reference to it.
    func markReady() {
        if setReady() { wakeSleepingLoops() }
    }

    /// Makes the inbox ready without rousing sleeping loops: `wakeSleepingLoops`, or `lookAgainIfAsleep` on the loop of each link, has
    /// to follow. False if that is not needed, because the thread that made it ready or brought its link to a loop does so.
    func setReady() -> Bool {
        guard let old = beginReady() else { return false }
        let delivers = old & SourceState.queued == 0
        if delivers { firstLink.deliver() }
        // It may have been ready in no loop until an Add found the link in this thread's hands.
        if old & SourceState.signalled != 0 { return delivers }
        var link = pointee.moreLinks.load(ordering: .sequentiallyConsistent)
        while let current = link {
            if current.pointee.loop.load(ordering: .sequentiallyConsistent) != nil && current.tryQueue() { current.deliver() }
            link = current.further.pointee.nextOfSource.load(ordering: .acquiring)
        }
        return true
    }

    /// Makes the loops that the inbox is in look again, for a change that they look at only before they sleep. As `markReady` otherwise.
    @inline(always)
    func makeLoopsLookAgain() {
        forEachLink { $0.pointee.loop.load(ordering: .sequentiallyConsistent)?.lookAgain() }
    }

    /// Makes the sleeping loops that the inbox is in look again.
    func wakeSleepingLoops() {
        forEachLink { $0.pointee.loop.load(ordering: .sequentiallyConsistent)?.lookAgainIfAsleep() }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Whether an inbox of the mode is ready; the first of them is then first in the list. Caller holds the lock.
    func hasReadyInboxLocked(in mode: ModePointer) -> Bool {
        drainLocked()
        if pointee.inboxes.parkedFor != mode {
            pointee.inboxes.ready.prepend(&pointee.inboxes.parked, mark: LinkList.readyMark)
            pointee.inboxes.parkedFor = mode
        }
        while let link = pointee.inboxes.ready.first {
            if !link.ofSource.isSignalled {
                // Another loop was first. A link that is marked again just now goes to the end and is looked at there.
                dropLocked(link)
            } else if link.pointee.modes.contains(mode) {
                // In its period it is no reason for a pass (S-LIM-3).
                if link.ofSource.isLimited && mustWaitLocked(link.ofSource, link, at: time) { continue }
                return true
            } else {
                pointee.inboxes.ready.remove(link)
                pointee.inboxes.parked.append(link, mark: LinkList.parkedReadyMark)
            }
        }
        return false
    }

    /// Performs the inbox of the mode that has been ready longest. False if there is none any more, or nothing in it.
    func performInbox(in mode: ModePointer) -> Bool {
        lock()
        while hasReadyInboxLocked(in: mode) {
            let source = pointee.inboxes.ready.first!.ofSource
            // If not, another loop took it in between.
            guard takeSignalLocked(of: source) else { continue }
            let handler = source.functions.watch!
            pointee.counters.ports.count()
            var isHandled = false
            performAlone(source) { isHandled = handler($0, 0) }
            return isHandled
        }
        unlock()
        return false
    }
}
