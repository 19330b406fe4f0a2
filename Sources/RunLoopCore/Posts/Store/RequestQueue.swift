// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A function that a loop is asked to perform, by `RLPerformOnLoop` or `RLPerformInOrder` (section 21). A record from malloc,
/// followed in memory by its places on lists: one for each mode, and one for the queue's own.
struct Request {
    /// First, so that a pointer to it is one to the request.
    var waiting: Waiting
    /// What it can be cancelled by, if it is an ordered one.
    var target: UnsafeRawPointer?
    var links: CancelLinks
    /// Lower ones first.
    var order: Int
    /// The batch that has it, while it is in `running`; 0 before.
    var batch: UInt32
    /// Its turn has come: it cannot be cancelled any more.
    var isPerforming: Bool
    /// Where its sender waits for the end.
    var wait: UnsafeMutablePointer<RequestWait>?
}

typealias RequestPointer = UnsafeMutablePointer<Request>

/// What the sender of a request waits on. The sender frees it; the thread that sets the word touches only its address after that.
struct RequestWait: ~Copyable {
    /// 0 pending, 1 performed, 2 dropped. Release and acquire.
    let outcome: Atomic<UInt32>

    static var performed: UInt32 { 1 }
    static var dropped: UInt32 { 2 }

    /// Lets a waiting sender go on; nil: no sender waits.
    @inline(never)
    static func tell(_ wait: UnsafeMutablePointer<RequestWait>?, _ outcome: UInt32) {
        guard let wait else { return }
        wait.pointee.outcome.store(outcome, ordering: .releasing)
        // The sender may be gone by now, and its memory reused: waking a word that no thread waits on does no harm.
        withUnsafePointer(to: wait.pointee.outcome) { _ = rl_futex_wake($0, 1) }
    }
}

/// The requests of a loop. Any thread adds; the loop's thread takes those that the running mode permits as a batch and performs
/// them. The lock is held for a few instructions, or to take a batch, and no other lock is taken under it.
///
/// A request is on the lists of its modes (`Waiting`), whose kind is the queue's and which the queue's lock guards. The members of a batch stay in
/// `running` until they have been performed, so that a cancellation finds them before their turns, and the end of the thread finds them all,
/// including the one that ended it. A nested run has a batch of its own on top and does not see the outer one's.
struct RequestQueue: ~Copyable {
    let lock: Lock
    /// Requests in `queued`. Changed under `lock`, read without it.
    let count: Atomic<Int>
    /// Guarded by `lock`, as is all that follows. All requests that are in no batch, in order of arrival.
    var queued: WaitingList
    /// The batches under way. The last is the next to perform.
    var running: WaitingList
    /// Requests that are performed in every mode, behind the others of their batch. They keep no mode from being empty.
    var markers: WaitingList
    /// The ordered requests that can be cancelled.
    var index: CancelIndex
    var nextSequence: UInt64
    /// The thread has ended: no request is accepted any more.
    var isClosed: Bool
    var lastBatch: UInt32
    /// Written when the loop is made.
    var kind: WaitingKind
}

typealias RequestQueuePointer = UnsafeMutablePointer<RequestQueue>

extension UnsafeMutablePointer where Pointee == RequestQueue {
    private var queued: UnsafeMutablePointer<WaitingList> { withUnsafeMutablePointer(to: &pointee.queued) { $0 } }
    private var running: UnsafeMutablePointer<WaitingList> { withUnsafeMutablePointer(to: &pointee.running) { $0 } }

    private var markers: UnsafeMutablePointer<WaitingList> { withUnsafeMutablePointer(to: &pointee.markers) { $0 } }

    /// Adds a request to the loop whose queue it is; `isMarker`: to be performed in every mode, in place of its one mode. False if the
    /// queue is closed.
    func add(_ request: RequestPointer, in loop: RunLoopPointer, isMarker: Bool) -> Bool {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        if pointee.isClosed { return false }
        let waiting = request.waiting
        waiting.pointee.sequence = pointee.nextSequence
        pointee.nextSequence += 1
        if isMarker { put(waiting.pointee.places, on: markers) } else { waiting.enlist(pointee.kind, in: loop) }
        put(waiting.pointee.places + waiting.pointee.placeCount - 1, on: queued)
        if pointee.kind == .orderedRequests { pointee.index.insert(request.links, request.key, record: request) }
        pointee.count.wrappingAdd(1, ordering: .relaxed)
        return true
    }

    @inline(never)
    private func put(_ place: WaitingPlacePointer, on list: UnsafeMutablePointer<WaitingList>) {
        place.pointee.list = list
        list.pointee.append(place)
    }

    /// Whether a request is eligible in the mode. Loop's thread.
    func hasEligible(in mode: ModePointer) -> Bool {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        return !mode.pointee.waiting[pointee.kind].pointee.isEmpty
            || (mode.pointee.isCommon.load(ordering: .relaxed)
                && !mode.pointee.loop.pointee.commonWaiting[pointee.kind].pointee.isEmpty)
    }

    /// Makes a batch of what is eligible in the mode. Its number; 0 if there is nothing. Loop's thread.
    func takeBatch(in mode: ModePointer, ofMarkers: Bool = false) -> UInt32 {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        let own = mode.pointee.waiting[pointee.kind]
        let common = mode.pointee.isCommon.load(ordering: .relaxed) ? mode.pointee.loop.pointee.commonWaiting[pointee.kind] : nil
        var chain = WaitingChain()
        let limit = mode.stepLimit
        if ofMarkers {
            chain.append(markers.takeAll(from: 0), nil)
        } else if limit != .max && pointee.kind == .requests {
            // S-LIM-6
            for _ in 0..<limit {
                guard let first = own.first(from: 0, or: common, from: 0) else { break }
                first.unlist()
                chain.append(first)
            }
        } else {
            chain.append(own.takeAll(from: 0), common?.takeAll(from: 0))
        }
        if chain.first == nil { return 0 }
        var count = 0
        var waiting = chain.first
        while let current = waiting {
            count += 1
            waiting = current.pointee.next
        }
        pointee.lastBatch = pointee.lastBatch == .max ? 1 : pointee.lastBatch + 1
        pointee.count.wrappingSubtract(count, ordering: .relaxed)
        let members = makeArray(UInt.self, count: count)
        for index in 0..<count { members[index] = UInt(bitPattern: chain.removeFirst()) }
        if pointee.kind == .orderedRequests {
            sortStably(members, count) { RequestPointer(bitPattern: $0)!.pointee.order < RequestPointer(bitPattern: $1)!.pointee.order }
        }
        for index in 1...count {
            let request = RequestPointer(bitPattern: members[count - index])!
            request.pointee.batch = pointee.lastBatch
            put(request.pointee.waiting.places, on: running)
        }
        CRunLoopLinux.free(members)
        return pointee.lastBatch
    }

    /// The next member of a batch, whose turn has come; nil if none is left. Loop's thread.
    func next(ofBatch batch: UInt32) -> RequestPointer? {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        guard let next = pointee.running.last?.pointee.waiting.request, next.pointee.batch == batch else { return nil }
        next.pointee.isPerforming = true
        pointee.index.remove(next.links)
        return next
    }

    /// Takes out a request that was performed. Everything before it in `running` is finished.
    func removePerformed(_ request: RequestPointer) {
        pointee.lock.lockWord()
        var waiting: WaitingPointer
        repeat {
            waiting = pointee.running.last!.pointee.waiting
            waiting.unlist()
        } while waiting != request.waiting
        pointee.lock.unlockWord()
    }

    /// Takes out the requests that have the key, queued or in a batch whose turn has not come, and drops them. No lock is held.
    func cancel(_ key: CancelKey) {
        var cancelled: WaitingPointer?
        pointee.lock.lockWord()
        pointee.index.forEach(key) { record in
            let request = record.assumingMemoryBound(to: Request.self)
            guard key.isEqual(target: request.pointee.target, request.pointee.waiting.post) else { return }
            if request.pointee.batch == 0 { pointee.count.wrappingSubtract(1, ordering: .relaxed) }
            request.waiting.unlist()
            request.pointee.waiting.next = cancelled
            cancelled = request.waiting
        }
        var waiting = cancelled
        while let current = waiting {
            waiting = current.pointee.next
            pointee.index.remove(current.request.links)
        }
        pointee.lock.unlockWord()
        RequestQueue.drop(cancelled)
    }

    /// Closes the queue and drops what is in it; waiting senders are woken (S-PERF-11). No lock is held.
    func closeQueue() {
        pointee.lock.lockWord()
        pointee.isClosed = true
        // Those of the batches are on no other list, and their places' order is not that of their sequences.
        var running = WaitingChain()
        while let last = pointee.running.last?.pointee.waiting {
            last.unlist()
            running.append(last)
        }
        let waiting = queued.takeAll(from: 0)
        pointee.index.free()
        pointee.count.store(0, ordering: .relaxed)
        pointee.lock.unlockWord()
        RequestQueue.drop(running.first)
        RequestQueue.drop(waiting)
    }

    /// Opens the queue of a new loop.
    func openQueue(_ kind: WaitingKind) {
        pointee.lock.lockWord()
        pointee.isClosed = false
        pointee.kind = kind
        pointee.lock.unlockWord()
    }

    /// In the child of `fork`. Senders that waited were other threads: they do not exist here, and the memory they waited on is
    /// their own.
    func resetInChild() {
        pointee.lock.resetInChild()
        forgetSenders(running)
        forgetSenders(queued)
    }

    #if DEBUG
    /// See `Fork.rehearse`.
    static func rehearse() {
        let queue = makeRecord(RequestQueue.self)
        _ = (queue.running, queue.queued, queue.markers)
        CRunLoopLinux.free(queue)
    }
    #endif

    /// Frees requests whose senders waited, but not those that are performing.
    private func forgetSenders(_ list: UnsafeMutablePointer<WaitingList>) {
        var place = list.pointee.last
        while let current = place {
            place = current.pointee.previous
            let request = current.pointee.waiting.request
            if request.pointee.wait == nil { continue }
            if request.pointee.isPerforming {
                request.pointee.wait = nil
                continue
            }
            if request.pointee.batch == 0 { pointee.count.wrappingSubtract(1, ordering: .relaxed) }
            request.waiting.unlist()
            CRunLoopLinux.free(request)
        }
    }
}

extension RequestQueue {
    /// Releases requests that are not performed.
    @inline(never)
    static func drop(_ chain: WaitingPointer?) {
        var chain = chain
        while let waiting = chain {
            chain = waiting.pointee.next
            waiting.request.finish(RequestWait.dropped)
        }
    }
}

extension UnsafeMutablePointer where Pointee == Waiting {
    /// The request that begins with it.
    var request: RequestPointer { UnsafeMutableRawPointer(self).assumingMemoryBound(to: Request.self) }
}

extension UnsafeMutablePointer where Pointee == Request {
    @inline(never)
    static func make(_ post: Post, target: UnsafeRawPointer?, order: Int, wait: UnsafeMutablePointer<RequestWait>?) -> RequestPointer {
        let places = post.modes.count + 1
        let request = makeRecord(Request.self, tail: places * MemoryLayout<WaitingPlace>.stride)
        request.pointee.target = target
        request.pointee.order = order
        request.pointee.wait = wait
        request.waiting.initialize(
            post, sequence: 0, places: UnsafeMutableRawPointer(request + 1).assumingMemoryBound(to: WaitingPlace.self), count: places)
        return request
    }

    var waiting: WaitingPointer { UnsafeMutableRawPointer(self).assumingMemoryBound(to: Waiting.self) }
    var links: CancelLinksPointer { withUnsafeMutablePointer(to: &pointee.links) { $0 } }

    var key: CancelKey {
        CancelKey(target: pointee.target, perform: pointee.waiting.post.perform, info: pointee.waiting.post.info)
    }

    /// Releases what the request holds, wakes its sender, and frees it.
    func finish(_ outcome: UInt32) {
        let wait = pointee.wait
        let post = pointee.waiting.post
        CRunLoopLinux.free(self)
        post.modes.free()
        if let release = post.release { callOutPerformedRelease(release, post.info) }
        RequestWait.tell(wait, outcome)
    }
}
