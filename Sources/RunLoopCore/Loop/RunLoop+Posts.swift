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
    private func mayHavePosts(for mode: ModePointer) -> Bool {
        pointee.posts.hasNews || !mode.pointee.posts.isEmpty
            || (!pointee.posts.waiting.isEmpty && !pointee.posts.wasWaitingChecked(for: mode, commonModes: commonModeCount))
    }

    private var commonModeCount: UInt32 { pointee.commonModeCount.load(ordering: .relaxed) }

    @inline(never)
    private func performRound(in mode: ModePointer) {
        // Nested rounds begin where this one ends, and do not see what waits from before.
        var position = pointee.posts.cursor
        let end = pointee.posts.end()
        pointee.posts.cursor = end
        let outerFloor = pointee.postFloor
        pointee.postFloor = end.sequence

        performWaiting(in: mode, from: outerFloor)
        fillHoles(in: mode)
        while let slot = PostQueue.advance(&position, to: end) {
            switch slot.content {
            case .post(let post): performOrKeep(post, from: slot, in: mode)
            case .nothing:
                slot.addHole(1)
                pointee.posts.holes.append(slot)
            case .abandoned: break
            }
        }
        pointee.postFloor = outerFloor
        if outerFloor == 0 { pointee.posts.reclaim() }
    }

    @inline(__always)
    private func performOrKeep(_ post: Post, from slot: SlotPointer, in mode: ModePointer) {
        if post.modes.permits(mode) {
            perform(post)
        } else if let only = post.modes.single {
            only.pointee.posts.insert(post, sequence: slot.sequence)
        } else {
            pointee.posts.waiting.insert(post, sequence: slot.sequence)
            pointee.posts.checkedFor = nil
        }
    }

    /// Posts whose slots were not ready when a round passed them.
    private func fillHoles(in mode: ModePointer) {
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
                performOrKeep(post, from: slot, in: mode)
            }
            slot.addHole(-1)
        }
    }

    /// Performs what waited for this mode: its own list and the eligible ones of the loop's, in the order of posting.
    private func performWaiting(in mode: ModePointer, from floor: UInt64) {
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
            let node = takesOwn ? own.removeFirst() : several.removeFirst()
            let post = node.pointee.post
            CLinux.free(node)
            perform(post)
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
        discard(post)
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
