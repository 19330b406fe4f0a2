// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Functions that wait to be performed in a mode: what a description shows about them.
struct QueuedFunctions {
    /// The number of functions shown at most.
    private static var room: Int { 32 }
    /// The number of functions counted at most.
    private static var limit: Int { 4096 }

    private var posts = makeArray(Post.self, count: room)
    private(set) var count = 0

    var hasAll: Bool { count < QueuedFunctions.limit }
    var shownCount: Int { Swift.min(count, QueuedFunctions.room) }

    subscript(index: Int) -> Post { posts[index] }

    /// False if the limit is reached.
    mutating func append(_ post: Post) -> Bool {
        if count < QueuedFunctions.room { (posts + count).initialize(to: post) }
        count += 1
        return hasAll
    }

    /// The entries of a list that were added at `floor` or later.
    mutating func append(_ list: UnsafeMutablePointer<WaitingList>, from floor: UInt64) {
        var place = list.pointee.last
        while let current = place, current.pointee.waiting.pointee.sequence >= floor, append(current.pointee.waiting.pointee.post) {
            place = current.pointee.previous
        }
    }

    func free() { CRunLoopLinux.free(posts) }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The requests that wait for a mode and, on the loop's own thread, the posts.
    func queuedFunctions(in mode: ModePointer, isOwn: Bool) -> QueuedFunctions {
        var functions = QueuedFunctions()
        if isOwn { appendPosts(in: mode, to: &functions) }
        appendRequests(of: requests, in: mode, to: &functions)
        appendRequests(of: orderedRequests, in: mode, to: &functions)
        return functions
    }

    @inline(never)
    private func appendRequests(of queue: RequestQueuePointer, in mode: ModePointer, to functions: inout QueuedFunctions) {
        queue.pointee.lock.lockWord()
        functions.append(mode.pointee.waiting[queue.pointee.kind], from: 0)
        if mode.pointee.isCommon.load(ordering: .relaxed) { functions.append(pointee.commonWaiting[queue.pointee.kind], from: 0) }
        queue.pointee.lock.unlockWord()
    }

    /// Appends what `hasPosts` finds, without taking it off the queue. Loop's thread.
    private func appendPosts(in mode: ModePointer, to functions: inout QueuedFunctions) {
        functions.append(mode.pointee.waiting[.posts], from: pointee.postFloor.own(mode))
        if mode.pointee.isCommon.load(ordering: .relaxed) {
            functions.append(pointee.commonWaiting[.posts], from: pointee.postFloor.common)
        }
        for index in 0..<pointee.posts.holes.count {
            if case .post(let post) = pointee.posts.holes[index].content, post.modes.permits(mode) { _ = functions.append(post) }
        }
        let seen = pointee.posts.seen
        let end = pointee.posts.end()
        pointee.posts.seen = seen
        var position = pointee.posts.cursor
        var looks = 0
        while functions.hasAll, looks < 65536, let slot = PostQueue.advance(&position, to: end) {
            looks += 1
            if case .post(let post) = slot.content, post.modes.permits(mode) { _ = functions.append(post) }
        }
    }
}
