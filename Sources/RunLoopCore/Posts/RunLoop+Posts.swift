// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// Performed functions: `RLPerformFunction` and the rounds A, B and C of the pass (section 7).
///
/// The round takes what was posted before it began. What is for other modes goes to their lists when the round is over, so that
/// no later round has to look at it in vain: whatever was posted before a round began is invisible to nested runs until then
/// (S-BLK-15).
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Queues a function. False if it can never run: the caller then releases it.
    @inline(always)
    func post(_ post: Post) -> Bool {
        guard pointee.posts.append(post) else {
            if registry.pointee.mainLoop.load(ordering: .acquiring) == self {
                Log.once(.performOnEndedMain, "RLPerformFunction", ": the main thread has ended; ignored")
            }
            return false
        }
        return true
    }

    /// Performs the posts that are eligible in the mode (S-BLK-4).
    @inline(always)
    func performPosts(in mode: ModePointer) {
        if mayHavePosts(for: mode) { performRound(in: mode) }
    }

    /// Whether a round might find something for the mode. Posts that wait for other modes do not count.
    @inline(always)
    func mayHavePosts(for mode: ModePointer) -> Bool {
        pointee.posts.hasNews || !mode.pointee.waiting[.posts].pointee.isEmpty
            || (!pointee.commonWaiting[.posts].pointee.isEmpty && mode.pointee.isCommon.load(ordering: .relaxed))
    }

    @inline(never)
    func performRound(in mode: ModePointer) {
        // Nested rounds begin where this one ends, and do not see what waits from before.
        let start = pointee.posts.cursor
        var end = pointee.posts.end()
        var waiting = WaitingChain()
        let isLimited = mode.stepLimit != .max
        var room = mode.stepLimit
        let left = isLimited ? limitRound(&end, &waiting, &room, in: mode) : nil
        let place = beginCall(PostRound(position: start, end: end))
        pointee.posts.cursor = end
        let outerFloor = pointee.postFloor
        let outerEnd = pointee.posts.roundEnd
        pointee.postFloor = PostFloor(end.sequence)
        if let left {
            // What a limit leaves on the lists came after all that the round has.
            pointee.postFloor.mode = mode
            pointee.postFloor.left = left
            if mode.pointee.isCommon.load(ordering: .relaxed) { pointee.postFloor.common = left }
        }
        pointee.posts.roundEnd = end.chunk
        pointee.busyPolling.takenPosts &+= UInt32(truncatingIfNeeded: end.sequence &- start.sequence)

        if isLimited {
            pointee.calls[place].pointee.listed = waiting
        } else {
            takeWaiting(into: pointee.calls[place], in: mode, from: outerFloor)
        }
        if !pointee.posts.holes.isEmpty { fillHoles(into: pointee.calls[place], in: mode, visibleFrom: outerFloor.others) }
        if pointee.calls[place].pointee.listed.first != nil { performListed(of: place, in: mode) }
        while let chunk = pointee.calls[place].pointee.position.chunk {
            let limit = chunk == end.chunk ? end.index : Chunk.slotCount
            var index = pointee.calls[place].pointee.position.index
            while index < limit {
                let slot = chunk.slot(index)
                // Beyond the chunk's end the hint has no effect that matters.
                rl_prefetch(slot + 8)
                index += 1
                switch slot.content {
                case .post(let post):
                    if post.modes.permits(mode) && (!isLimited || mayPerform(&room)) {
                        slot.pointee.perform = doNothing
                        perform(post)
                        pointee.calls[place].pointee.position.index = index
                        discard(post)
                        continue
                    }
                    pointee.calls[place].pointee.kept.append(.make(post, sequence: slot.sequence))
                case .nothing:
                    slot.addHole(1)
                    pointee.posts.holes.append(slot)
                case .abandoned: break
                }
                pointee.calls[place].pointee.position.index = index
            }
            if chunk == end.chunk { break }
            // A chunk before the last one has a successor: `word` moved on after it was set.
            pointee.calls[place].pointee.position = PostQueue.Position(chunk: chunk.pointee.next.load(ordering: .acquiring), index: 0)
        }
        pointee.postFloor = outerFloor
        pointee.posts.roundEnd = outerEnd
        var round = endCall(place)
        enlist(&round.kept)
        pointee.posts.reclaim()
    }

    /// Whether a limited round may perform one more from its slots: a function that has made the mode a common one may have made more eligible than
    /// were counted.
    @inline(never)
    private func mayPerform(_ room: inout Int) -> Bool {
        if room == 0 {
            wakeUp()
            return false
        }
        room -= 1
        return true
    }

    /// Puts the posts of a chain on the lists of their modes.
    private func enlist(_ chain: inout WaitingChain) {
        while chain.first != nil { chain.removeFirst().enlist(.posts, in: self) }
    }

    /// Posts whose slots were not ready when a round passed them. On the lists of other modes they get a place that the rounds around this one do not
    /// hide.
    private func fillHoles(into round: PostRoundPointer, in mode: ModePointer, visibleFrom floor: UInt64) {
        var index = 0
        while index < pointee.posts.holes.count {
            let slot = pointee.posts.holes[index]
            switch slot.content {
            case .nothing:
                index += 1
                continue
            case .abandoned:
                pointee.posts.holes.remove(at: index)
            case .post(let post):
                pointee.posts.holes.remove(at: index)
                let isForMode = post.modes.permits(mode)
                let waiting = WaitingPointer.make(post, sequence: isForMode ? slot.sequence : Swift.max(slot.sequence, floor))
                if isForMode { round.pointee.listed.insert(waiting) } else { round.pointee.kept.append(waiting) }
            }
            slot.addHole(-1)
        }
    }

    /// Performs the posts of the round's list. The post that is being performed stays in it, so that it is found if it ends the thread.
    @inline(never)
    private func performListed(of place: CallPlace<PostRound>, in mode: ModePointer) {
        while let node = pointee.calls[place].pointee.listed.first {
            let isCommon = mode.pointee.isCommon.load(ordering: .relaxed)
            let post = node.pointee.post
            node.pointee.post.perform = doNothing
            perform(post)
            let round = pointee.calls[place]
            _ = round.pointee.listed.removeFirst()
            if !isCommon && mode.pointee.isCommon.load(ordering: .relaxed) { takeCommon(into: round, after: node.pointee.sequence, in: mode) }
            CRunLoopLinux.free(node)
            discard(post)
        }
    }

    /// A post of the round's list has made the mode a common one: what of the round waits for common modes and came after that post has
    /// its turn too (S-BLK-4). What was limited is for the next round.
    @inline(never)
    private func takeCommon(into round: PostRoundPointer, after sequence: UInt64, in mode: ModePointer) {
        if mode.stepLimit != .max { return wakeUp() }
        let rest = round.pointee.listed.first
        round.pointee.listed = WaitingChain()
        round.pointee.listed.append(rest, pointee.commonWaiting[.posts].takeAll(from: sequence + 1, below: round.pointee.end.sequence))
    }

    /// S-LIM-6: takes at most so many posts, first those that wait on lists. The others are for the next round, for which the loop stays
    /// awake, and for nested ones, as if they were posted after this one began. Returns the sequence of the first that is left on a list, and
    /// leaves in `room` how many may come from slots.
    @inline(never)
    private func limitRound(_ end: inout PostQueue.Position, _ waiting: inout WaitingChain, _ room: inout Int, in mode: ModePointer) -> UInt64? {
        var firstLeft: UInt64?
        var left = room
        let own = mode.pointee.waiting[.posts]
        let common = mode.pointee.isCommon.load(ordering: .relaxed) ? pointee.commonWaiting[.posts] : nil
        let floor = pointee.postFloor
        while let first = own.first(from: floor.own(mode), or: common, from: floor.common) {
            if left == 0 {
                firstLeft = first.pointee.sequence
                break
            }
            first.unlist()
            waiting.append(first)
            left -= 1
        }
        room = left
        var position = pointee.posts.cursor
        while left > 0, let slot = PostQueue.advance(&position, to: end) {
            switch slot.content {
            case .post(let post): if post.modes.permits(mode) { left -= 1 }
            // It may be ready when the round comes to it.
            case .nothing: left -= 1
            case .abandoned: break
            }
        }
        if position.sequence < end.sequence {
            end = position
            pointee.posts.expectMore(from: end)
        } else if firstLeft == nil {
            return nil
        }
        wakeUp()
        return firstLeft
    }

    /// Takes what waited for this mode, in the order of posting.
    @inline(always)
    private func takeWaiting(into round: PostRoundPointer, in mode: ModePointer, from floor: PostFloor) {
        let own = mode.pointee.waiting[.posts].takeAll(from: floor.own(mode))
        let isCommon = mode.pointee.isCommon.load(ordering: .relaxed)
        let common = isCommon ? pointee.commonWaiting[.posts].takeAll(from: floor.common) : nil
        round.pointee.listed.append(own, common)
    }

    /// What is in the place of a function that is being performed.
    fileprivate var doNothing: PerformFunction { { _ in } }

    private func perform(_ post: Post) {
        pointee.counters.functions.count()
        timed(nil, function: unsafeBitCast(post.perform, to: UnsafeRawPointer.self), info: post.info) { callOutPerformed(post.perform, post.info) }
    }

    /// Releases what a post holds, with no lock held (S-BLK-17, S-BLK-18).
    func discard(_ post: Post) {
        post.modes.free()
        guard let release = post.release else { return }
        let waiter = beginLasting()
        callOutPerformedRelease(release, post.info)
        waiter?.endCallback()
    }

    /// Whether a visible post is eligible in the mode: it keeps the mode from being empty (S-BLK-10).
    @inline(always)
    func hasPosts(for mode: ModePointer) -> Bool {
        mayHavePosts(for: mode) && findPost(for: mode)
    }

    @inline(never)
    func findPost(for mode: ModePointer) -> Bool {
        let floor = pointee.postFloor
        if let last = mode.pointee.waiting[.posts].pointee.last, last.pointee.waiting.pointee.sequence >= floor.own(mode) { return true }
        if mode.pointee.isCommon.load(ordering: .relaxed), let last = pointee.commonWaiting[.posts].pointee.last,
            last.pointee.waiting.pointee.sequence >= floor.common
        {
            return true
        }
        for index in 0..<pointee.posts.holes.count {
            if case .post(let post) = pointee.posts.holes[index].content, post.modes.permits(mode) { return true }
        }
        // What is for other modes goes to their lists, so that the next look does not meet it again.
        let seen = pointee.posts.seen
        let end = pointee.posts.end()
        var position = pointee.posts.cursor
        while let slot = PostQueue.advance(&position, to: end) {
            switch slot.content {
            case .post(let post):
                if post.modes.permits(mode) {
                    pointee.posts.seen = seen  // A round has something to take.
                    return true
                }
                WaitingPointer.make(post, sequence: slot.sequence).enlist(.posts, in: self)
            case .nothing:
                slot.addHole(1)
                pointee.posts.holes.append(slot)
            case .abandoned: break
            }
            pointee.posts.cursor = position
        }
        pointee.posts.reclaim()
        return false
    }

    /// Drops everything that was not performed; the queue is closed. No lock is held.
    func discardPosts() {
        let end = pointee.posts.end()
        var position = pointee.posts.cursor
        pointee.posts.cursor = end
        while let slot = PostQueue.advance(&position, to: end) {
            if case .post(let post) = slot.content { discard(post) }
        }
        for index in 0..<pointee.posts.holes.count {
            if case .post(let post) = pointee.posts.holes[index].content { discard(post) }
        }
        discard(pointee.commonWaiting[.posts])
        forEachModeRecord { discard($0.pointee.waiting[.posts]) }
        pointee.posts.free()
    }

    private func discard(_ list: UnsafeMutablePointer<WaitingList>) { discard(chain: list.takeAll(from: 0)) }

    fileprivate func discard(chain: WaitingPointer?) {
        var next = chain
        while let waiting = next {
            next = waiting.pointee.next
            let post = waiting.pointee.post
            CRunLoopLinux.free(waiting)
            discard(post)
        }
    }
}

/// One round, and how far it has come.
struct PostRound: CallRecord {
    /// The slot that is performed, or looked at next.
    var position: PostQueue.Position
    let end: PostQueue.Position
    /// What was already waiting; it is performed before the slots.
    var listed = WaitingChain()
    /// What was for other modes, to be put on their lists when the round is over.
    var kept = WaitingChain()

    static var kind: CallKind { .postRound }
}

typealias PostRoundPointer = UnsafeMutablePointer<PostRound>

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The thread ended in a performed function: the rest of the round goes back, to be dropped with the queue (S-BLK-18) or performed by a run that
    /// the end of the thread makes. What the function that ended it holds is released; it keeps no mode from being empty.
    func abandon(_ round: PostRound) {
        var round = round
        var performed: WaitingPointer?
        if let node = round.listed.first, isPerformed(node) { performed = round.listed.removeFirst() }
        enlist(&round.listed)
        enlist(&round.kept)
        while let slot = PostQueue.advance(&round.position, to: round.end) {
            switch slot.content {
            case .post(let post):
                let waiting = WaitingPointer.make(post, sequence: slot.sequence)
                if isPerformed(waiting) { performed = waiting } else { waiting.enlist(.posts, in: self) }
            case .nothing:
                slot.addHole(1)
                pointee.posts.holes.append(slot)
            case .abandoned: break
            }
        }
        performed?.pointee.next = nil
        discard(chain: performed)
    }

    private func isPerformed(_ waiting: WaitingPointer) -> Bool {
        unsafeBitCast(waiting.pointee.post.perform, to: UnsafeRawPointer.self) == unsafeBitCast(doNothing, to: UnsafeRawPointer.self)
    }

    /// In the child of `fork`: abandons slots that a current round has not reached and whose producers do not exist here.
    func abandonClaimsOfRounds() {
        pointee.calls.contains(PostRound.self) { round in
            var position = round.pointee.position
            while let slot = PostQueue.advance(&position, to: round.pointee.end) {
                if !slot.isFilled { slot.abandon() }
            }
            return false
        }
    }
}
