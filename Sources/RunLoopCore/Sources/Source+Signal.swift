// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Signalling, without a lock and async-signal-safe (S-WAKE-12).
///
/// A signal sets the source's flag and, if the link is not queued already, pushes it on the stack of the loop it is in. The loop
/// takes the whole stack once per pass. Four races are resolved here:
/// - Two signallers. Between the first one's flag and its push the second finds the flag set, does nothing, and its wake-up
///   may be spent on an empty stack. So it marks the state, and the first one, seeing the mark after its push, wakes the loop.
/// - A signaller and an Add. Flag and loop are both sequentially consistent; the later of the two sees the other and pushes. An
///   Add that finds the link queued marks the state like a second signaller.
/// - A signaller and a Remove. After its push the signaller looks at the link's loop again. If it changed, the link may lie on
///   the stack of a loop that is not its own any more: `redistribute` takes that whole stack and pushes each link where it
///   belongs now. Remove looks through the stack after it has cleared the loop, so one of the two finds the link.
/// - A Remove and an Add to another loop. Remove takes the link off stack and lists before it clears the loop. A link that it
///   took off is still queued, in its hands; it brings it to the loop that the link belongs to by then (`leaveLocked`).
///
/// `Tests/Spin/link.pml` is a model of this.
extension UnsafeMutablePointer where Pointee == Source {
    func signal() {
        guard let (state, desired) = beginSignal() else { return }
        if state & SourceState.queued == 0 { firstLink.deliver() }
        var link = pointee.moreLinks.load(ordering: .sequentiallyConsistent)
        while let current = link {
            if current.pointee.loop.load(ordering: .sequentiallyConsistent) != nil && current.tryQueue() { current.deliver() }
            link = current.further.pointee.nextOfSource.load(ordering: .acquiring)
        }

        // Another signaller came before this push: it either marked this signal, or, after this was performed through another
        // link, made a later one and found the link queued. Its wake-up may have come before there was anything to find.
        let now = pointee.state.load(ordering: .sequentiallyConsistent)
        let isLater = (now ^ desired) & SourceState.generations != 0
        if now & SourceState.signalled != 0 && (isLater || now & SourceState.marked != 0) { wakeLoops() }
    }

    private func wakeLoops() {
        forEachLink { $0.pointee.loop.load(ordering: .sequentiallyConsistent)?.wakeUp() }
    }
}

extension UnsafeMutablePointer where Pointee == SourceLink {
    /// Puts the link on the stack of its loop. The caller has queued it and has a reference to the source.
    func deliver() {
        while true {
            guard let loop = pointee.loop.load(ordering: .sequentiallyConsistent) else {
                // In no loop. Give the link back; an Add that came in between has seen it queued and left it to this thread.
                unqueue()
                if pointee.loop.load(ordering: .sequentiallyConsistent) == nil || !tryQueue() { return }
                continue  // Each iteration needs another Add or Remove in between.
            }
            loop.push(self)
            if pointee.loop.load(ordering: .sequentiallyConsistent) != loop { loop.redistribute() }
            return
        }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    @inline(always)
    func push(_ link: SourceLinkPointer) {
        var head = pointee.signalled.load(ordering: .relaxed)
        while true {
            link.pointee.next = head
            let (exchanged, original) = pointee.signalled.weakCompareExchange(
                expected: head, desired: link, successOrdering: .sequentiallyConsistent, failureOrdering: .relaxed)
            if exchanged { return }
            head = original  // Another signaller pushed, or the loop took the stack.
        }
    }

    /// Takes the stack, oldest first.
    @inline(always)
    func takeSignalled() -> SourceLinkPointer? {
        guard pointee.signalled.load(ordering: .sequentiallyConsistent) != nil else { return nil }
        var link = pointee.signalled.exchange(nil, ordering: .sequentiallyConsistent)
        var reversed: SourceLinkPointer?
        while let current = link {
            link = current.pointee.next
            current.pointee.next = reversed
            reversed = current
        }
        return reversed
    }

    /// Takes everything off the stack and puts each link where it belongs now. For a signaller that may have pushed a link
    /// on the stack of a loop that it had just left. No lock, nothing freed: async-signal-safe.
    func redistribute() {
        SourceLink.forward(takeSignalled(), freedBy: self)
    }
}

extension SourceLink {
    /// Brings queued links, which are on no stack and in no list, to the loops they belong to, and wakes those loops, since
    /// the wake-ups that were meant for them may have been spent; or gives the links back if there is nothing to bring.
    ///
    /// A queued link keeps the source's memory; a hold keeps it after the push, when the link is not this thread's any more.
    /// Memory that is not needed any more is freed, or left to that loop.
    static func forward(_ list: SourceLinkPointer?, freedBy freeing: RunLoopPointer?) {
        var work = list
        while let link = work {
            work = link.pointee.next
            let source = link.ofSource
            source.holdMemory()
            if let loop = link.place(), link.pointee.loop.load(ordering: .sequentiallyConsistent) != loop,
                let taken = loop.takeSignalled()
            {
                // It moved again, and its new loop cannot know of this push: take back what is there and place that anew.
                var last = taken
                while let next = last.pointee.next { last = next }
                last.pointee.next = work
                work = taken
            }
            source.releaseMemory(freedBy: freeing)
        }
    }
}

extension UnsafeMutablePointer where Pointee == SourceLink {
    /// Pushes the link on its loop's stack, or gives it back if it is in no loop or not signalled. The caller holds the
    /// source's memory. Returns the loop.
    fileprivate func place() -> RunLoopPointer? {
        let source = ofSource
        while true {
            let loop = pointee.loop.load(ordering: .sequentiallyConsistent)
            let state = source.pointee.state.load(ordering: .sequentiallyConsistent)
            if let loop, state & SourceState.signalled != 0 {
                let isInbox = isInbox
                loop.push(self)
                if isInbox { loop.lookAgainIfAsleep() } else { loop.wakeUp() }
                return loop
            }
            unqueue()
            let stateNow = source.pointee.state.load(ordering: .sequentiallyConsistent)
            guard stateNow & (SourceState.signalled | SourceState.dead) == SourceState.signalled,
                pointee.loop.load(ordering: .sequentiallyConsistent) != nil, tryQueue()
            else { return nil }
            // Signalled and added since: each iteration needs another such pair.
        }
    }
}

extension UnsafeMutablePointer where Pointee == Source {
    /// Ends a hold. Where that would free the memory and there is another loop, the first link goes on that loop's stack instead,
    /// and that loop frees it: for signal handlers, which free nothing.
    fileprivate func releaseMemory(freedBy loop: RunLoopPointer?) {
        guard let loop else { return releaseMemory() }
        if releaseMemoryKeepingUnused() { loop.push(firstLink) }
    }
}
