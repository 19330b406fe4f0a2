import CLinux
import CRunLoop
import Synchronization

/// Performed functions: `RLPerformFunction` and the rounds A, B and C of the pass (section 7).
///
/// The round takes what was posted before it began. What is for another mode goes to that mode's list, or, if it is for
/// several or for the pseudo-mode, to the loop's list, so that no later round has to look at it in vain. Whatever was posted
/// before a round began is invisible to nested runs until the round is over (S-BLK-15).
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Queues a function. False if it can never run: the caller then releases it.
    @inline(__always)
    func post(_ post: Post) -> Bool {
        guard pointee.posts.append(post) else {
            if process.pointee.mainLoop.load(ordering: .acquiring) == self {
                Log.once(.performOnEndedMain, "RLPerformFunction", ": the main thread has ended; ignored")
            }
            return false
        }
        return true
    }

    /// Performs the posts that are eligible in the mode (S-BLK-4).
    @inline(__always)
    func performPosts(in mode: ModePointer) {
        if mayHavePosts(for: mode) { performRound(in: mode) }
    }

    /// Whether a round might find something for the mode. Posts that wait for other modes do not count.
    @inline(__always)
    func mayHavePosts(for mode: ModePointer) -> Bool {
        pointee.posts.hasNews || !mode.pointee.posts.isEmpty
            || (!pointee.posts.waiting.isEmpty && !pointee.posts.wasWaitingChecked(for: mode, commonModes: commonModeCount))
    }

    private var commonModeCount: UInt32 { pointee.commonModeCount.load(ordering: .acquiring) }

    @inline(never)
    private func performRound(in mode: ModePointer) {
        // Nested rounds begin where this one ends, and do not see what waits from before.
        let round = beginRound()
        round.pointee.position = pointee.posts.cursor
        let end = pointee.posts.end()
        round.pointee.end = end
        pointee.posts.cursor = end
        let outerFloor = pointee.postFloor
        pointee.postFloor = end.sequence
        pointee.takenPosts &+= UInt32(truncatingIfNeeded: end.sequence &- round.pointee.position.sequence)

        takeWaiting(into: round, in: mode, from: outerFloor)
        if !pointee.posts.holes.isEmpty { fillHoles(into: round, in: mode) }
        if !round.pointee.listed.isEmpty { performListed(of: round) }
        while let chunk = round.pointee.position.chunk {
            let limit = chunk == end.chunk ? end.index : Chunk.slotCount
            var index = round.pointee.position.index
            while index < limit {
                let slot = chunk.slot(index)
                // Beyond the chunk's end it hints at nothing.
                rl_prefetch(slot + 8)
                index += 1
                switch slot.content {
                case .post(let post):
                    if post.modes.permits(mode) {
                        perform(post)
                        round.pointee.position.index = index
                        discard(post)
                        continue
                    }
                    keep(post, sequence: slot.sequence)
                case .nothing:
                    slot.addHole(1)
                    pointee.posts.holes.append(slot)
                case .abandoned: break
                }
                round.pointee.position.index = index
            }
            if chunk == end.chunk { break }
            // A chunk before the last one has a successor: `word` moved on after it was set.
            round.pointee.position = PostQueue.Position(chunk: chunk.pointee.next.load(ordering: .acquiring), index: 0)
        }
        pointee.postRound = round.pointee.outer
        pointee.postFloor = outerFloor
        if outerFloor == 0 { pointee.posts.reclaim() }
    }

    /// Keeps a post that is not for the mode of the round.
    private func keep(_ post: Post, sequence: UInt64) {
        if let only = post.modes.single {
            only.pointee.posts.insert(post, sequence: sequence)
        } else {
            pointee.posts.waiting.insert(post, sequence: sequence)
            pointee.posts.checkedFor = nil
        }
    }

    /// Posts whose slots were not ready when a round passed them.
    private func fillHoles(into round: PostRoundPointer, in mode: ModePointer) {
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
                if post.modes.permits(mode) {
                    round.pointee.listed.insert(post, sequence: slot.sequence)
                } else {
                    keep(post, sequence: slot.sequence)
                }
            }
            slot.addHole(-1)
        }
    }

    /// Performs the posts of the round's list. The one that is performed stays in it, so that it is found if it ends the thread.
    private func performListed(of round: PostRoundPointer) {
        while let node = round.pointee.listed.first {
            perform(node.pointee.post)
            _ = round.pointee.listed.removeFirst()
            let post = node.pointee.post
            CLinux.free(node)
            discard(post)
        }
    }

    /// Takes what waited for this mode: its own list and the eligible ones of the loop's, in the order of posting.
    private func takeWaiting(into round: PostRoundPointer, in mode: ModePointer, from floor: UInt64) {
        if mode.pointee.posts.isEmpty && pointee.posts.waiting.isEmpty { return }
        var own = PostList()
        var several = PostList()
        move(&mode.pointee.posts, to: &own) { $0.pointee.sequence >= floor }
        let commonModes = commonModeCount
        move(&pointee.posts.waiting, to: &several) { $0.pointee.sequence >= floor && $0.pointee.post.modes.permits(mode) }
        if floor == 0 {
            pointee.posts.checkedFor = mode
            pointee.posts.checkedCommonModes = commonModes
        }
        while !own.isEmpty || !several.isEmpty {
            let takesOwn = several.isEmpty || (!own.isEmpty && own.first!.pointee.sequence < several.first!.pointee.sequence)
            round.pointee.listed.append(takesOwn ? own.removeFirst() : several.removeFirst())
        }
    }

    private func move(_ from: inout PostList, to: inout PostList, where matches: (UnsafeMutablePointer<PostList.Node>) -> Bool) {
        var kept = PostList()
        while !from.isEmpty {
            let node = from.removeFirst()
            if matches(node) { to.append(node) } else { kept.append(node) }
        }
        from = kept
    }

    private func perform(_ post: Post) {
        pointee.calledOut = true
        callOutPerformed(post.perform, post.info)
    }

    /// Releases what a post holds, with no lock held (S-BLK-17, S-BLK-18).
    func discard(_ post: Post) {
        post.modes.free()
        if let release = post.release { callOutPerformedRelease(release, post.info) }
    }

    /// Whether a visible post is eligible in the mode: it keeps the mode from being empty (S-BLK-10).
    @inline(__always)
    func hasPosts(for mode: ModePointer) -> Bool {
        mayHavePosts(for: mode) && findPost(for: mode)
    }

    @inline(never)
    private func findPost(for mode: ModePointer) -> Bool {
        let floor = pointee.postFloor
        var node = mode.pointee.posts.first
        while let current = node {
            if current.pointee.sequence >= floor { return true }
            node = current.pointee.next
        }
        node = pointee.posts.waiting.first
        while let current = node {
            if current.pointee.sequence >= floor && current.pointee.post.modes.permits(mode) { return true }
            node = current.pointee.next
        }
        for index in 0..<pointee.posts.holes.count {
            if case .post(let post) = pointee.posts.holes[index].content, post.modes.permits(mode) { return true }
        }
        let seen = pointee.posts.seen
        var position = pointee.posts.cursor
        let end = pointee.posts.end()
        pointee.posts.seen = seen  // Only a round takes what it has seen.
        while let slot = PostQueue.advance(&position, to: end) {
            if case .post(let post) = slot.content, post.modes.permits(mode) { return true }
        }
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
        discard(&pointee.posts.waiting)
        forEachModeRecord { discard(&$0.pointee.posts) }
        pointee.posts.free()
    }

    private func discard(_ list: inout PostList) {
        while !list.isEmpty {
            let node = list.removeFirst()
            let post = node.pointee.post
            CLinux.free(node)
            discard(post)
        }
    }
}

/// One round: how far it is. Rounds are not frames of the stack, because a performed function may end its thread; the records of
/// nested ones are kept and used again. Loop's thread only.
struct PostRound {
    /// The slot that is performed, or looked at next.
    var position: PostQueue.Position
    var end: PostQueue.Position
    /// What waited from before; it is performed before the slots.
    var listed: PostList
    var outer: PostRoundPointer?
    /// The record for a round nested in this one, which may not be under way.
    var inner: PostRoundPointer?
}

typealias PostRoundPointer = UnsafeMutablePointer<PostRound>

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Makes the record of a new innermost round the loop's `postRound`.
    @inline(__always)
    private func beginRound() -> PostRoundPointer {
        let outer = pointee.postRound
        let round = (outer == nil ? pointee.firstPostRound : outer!.pointee.inner) ?? makeRound(in: outer)
        pointee.postRound = round
        return round
    }

    @inline(never)
    private func makeRound(in outer: PostRoundPointer?) -> PostRoundPointer {
        let round = makeRecord(PostRound.self)
        round.pointee.outer = outer
        if let outer { outer.pointee.inner = round } else { pointee.firstPostRound = round }
        return round
    }

    /// The thread ended in a performed function: what is left of the rounds under way goes back, to be dropped when the queue is
    /// (S-BLK-18). The function that ended it is dropped like the others.
    func abandonRounds() {
        pointee.postFloor = 0
        guard let innermost = pointee.postRound else { return }
        pointee.postRound = nil
        var next = pointee.firstPostRound
        while let round = next {
            next = round == innermost ? nil : round.pointee.inner
            while !round.pointee.listed.isEmpty { pointee.posts.waiting.append(round.pointee.listed.removeFirst()) }
            while let slot = PostQueue.advance(&round.pointee.position, to: round.pointee.end) {
                switch slot.content {
                case .post(let post): pointee.posts.waiting.insert(post, sequence: slot.sequence)
                case .nothing:
                    slot.addHole(1)
                    pointee.posts.holes.append(slot)
                case .abandoned: break
                }
            }
        }
    }

    /// In the child of `fork`: slots that a round under way has not come to, and whose producers do not exist here.
    func abandonClaimsOfRounds() {
        var next = pointee.postRound
        while let round = next {
            next = round.pointee.outer
            var position = round.pointee.position
            while let slot = PostQueue.advance(&position, to: round.pointee.end) {
                if !slot.isFilled { slot.abandon() }
            }
        }
    }

    func freeRounds() {
        while let round = pointee.firstPostRound {
            pointee.firstPostRound = round.pointee.inner
            CLinux.free(round)
        }
    }
}
