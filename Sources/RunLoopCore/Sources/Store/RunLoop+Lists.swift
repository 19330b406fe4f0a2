// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The lists of a loop that hold the links of sources that were signalled or are ready. Caller holds the lock.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Puts a queued link at the end of the list of its kind. Caller holds the lock.
    @inline(always)
    func enlist(_ link: SourceLinkPointer) {
        if link.isInbox {
            pointee.inboxes.ready.append(link, mark: LinkList.readyMark)
        } else {
            pointee.pending.append(link, mark: LinkList.pendingMark)
        }
    }

    /// Takes a link out of its list; one that waits for the end of its source's period waits no more.
    @inline(always)
    func unlist(_ link: SourceLinkPointer) {
        switch link.pointee.list {
        case LinkList.pendingMark: pointee.pending.remove(link)
        case LinkList.parkedMark: pointee.parked.remove(link)
        case LinkList.heldMark:
            link.pointee.list = 0
            if !link.pointee.isWithdrawn { pointee.waits.remove(link) }
        case LinkList.readyMark: pointee.inboxes.ready.remove(link)
        default: pointee.inboxes.parked.remove(link)
        }
    }

    /// Signals a watch of the loop's that was found ready (S-SOCK-52). Wakes no loop: the loop's thread calls it, before a pass.
    /// The lock is held.
    func signalLocked(_ source: SourcePointer) {
        // Another loop of the source's, or a client, may have signalled it: this loop performs it nevertheless if it is first.
        let link = source.link(in: self)
        if let link, link.isFirst, link.pointee.list == 0 {
            if source.setFlag(queueing: true) { enlist(link) }
        } else {
            _ = source.setFlag(queueing: false)
            if let link, link.pointee.list == 0, link.tryQueue() { enlist(link) }
        }
    }

    /// Numbers the runs of all loops, as far as so few bits can: a source may have been found ready in another loop.
    var round: UInt32 { pointee.runs &+ UInt32(truncatingIfNeeded: UInt(bitPattern: self) >> 6) &* 0x9e37_79b1 }
}
