import CLinux
import Synchronization

/// A function that a loop is asked to perform, by `RLPerformOnLoop` or `RLPerformInOrder` (section 21). A record from malloc.
struct Request {
    var post: Post
    /// What it can be cancelled by.
    var target: UnsafeRawPointer?
    /// Lower ones first.
    var order: Int
    /// The batch that has it, while it is in `running`.
    var batch: UInt32
    /// Its turn has come: it is not cancelled any more.
    var isPerforming: Bool
    /// Where its sender waits for the end.
    var wait: UnsafeMutablePointer<RequestWait>?
    var next: RequestPointer?
}

typealias RequestPointer = UnsafeMutablePointer<Request>

/// What the sender of a request waits on. The sender frees it; whoever sets the word touches only its address after that.
struct RequestWait: ~Copyable {
    /// 0 pending, 1 performed, 2 dropped. Release and acquire.
    let outcome: Atomic<UInt32>

    static var performed: UInt32 { 1 }
    static var dropped: UInt32 { 2 }
}

/// Requests in the order in which they are performed. The zero value is empty.
struct RequestList {
    private(set) var first: RequestPointer?
    private var last: RequestPointer?

    /// Puts a request behind those of its own order and lower ones.
    mutating func insert(_ request: RequestPointer) {
        guard let last, last.pointee.order > request.pointee.order else { return append(request) }
        var place: RequestPointer?
        var next = first
        while let current = next, current.pointee.order <= request.pointee.order {
            place = current
            next = current.pointee.next
        }
        request.pointee.next = next
        if let place { place.pointee.next = request } else { first = request }
    }

    mutating func append(_ request: RequestPointer) {
        request.pointee.next = nil
        if let last { last.pointee.next = request } else { first = request }
        last = request
    }

    /// Puts all of `other` before what is here.
    mutating func prepend(_ other: inout RequestList) {
        guard let otherLast = other.last else { return }
        otherLast.pointee.next = first
        if first == nil { last = otherLast }
        first = other.first
        other = RequestList()
    }

    mutating func removeFirst() -> RequestPointer {
        let request = first!
        first = request.pointee.next
        if first == nil { last = nil }
        return request
    }

    /// Moves those for which the body is true to the end of `other`.
    mutating func move(to other: inout RequestList, where matches: (RequestPointer) -> Bool) {
        var kept = RequestList()
        while first != nil {
            let request = removeFirst()
            if matches(request) { other.append(request) } else { kept.append(request) }
        }
        self = kept
    }
}

/// The requests of a loop. Any thread adds; the loop's thread takes those that the running mode permits as a batch and performs
/// them. The lock is held for a few instructions, and no other is taken under it.
///
/// The members of a batch stay in `running` until they were performed, so that a cancellation finds them before their turns, and
/// the end of the thread finds them all, also that which ended it. A nested run has a batch of its own in front and does not see
/// the outer one's.
struct RequestQueue: ~Copyable {
    let lock: Lock
    /// Requests in `queued`. Changed under `lock`, read without it.
    let count: Atomic<Int>
    /// Counts additions. Changed under `lock`, read without it.
    let version: Atomic<UInt32>
    /// Guarded by `lock`, as the next three.
    var queued: RequestList
    var running: RequestList
    /// The thread has ended: nothing is taken in any more.
    var isClosed: Bool
    var lastBatch: UInt32
    /// The version, mode and number of common modes at which nothing was eligible. Loop's thread only.
    var checkedVersion: UInt32
    var checkedFor: ModePointer?
    var checkedCommonModes: UInt32
}

typealias RequestQueuePointer = UnsafeMutablePointer<RequestQueue>

extension UnsafeMutablePointer where Pointee == RequestQueue {
    /// Adds a request. False if the queue is closed.
    func add(_ request: RequestPointer) -> Bool {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        if pointee.isClosed { return false }
        pointee.queued.insert(request)
        pointee.count.wrappingAdd(1, ordering: .relaxed)
        pointee.version.wrappingAdd(1, ordering: .releasing)
        return true
    }

    /// Whether anything is queued that was not found out to be for other modes. No lock.
    @inline(__always)
    func mayHaveRequests(for mode: ModePointer, commonModes: UInt32) -> Bool {
        pointee.count.load(ordering: .relaxed) != 0
            && !(pointee.checkedVersion == pointee.version.load(ordering: .acquiring) && pointee.checkedFor == mode
                && pointee.checkedCommonModes == commonModes)
    }

    /// Whether a request is eligible in the mode. Loop's thread.
    func hasEligible(in mode: ModePointer) -> Bool {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        var request = pointee.queued.first
        while let current = request {
            if current.pointee.post.modes.permits(mode) { return true }
            request = current.pointee.next
        }
        return false
    }

    /// Makes a batch of what is eligible in the mode. Its number; 0 if there is nothing. Loop's thread.
    func takeBatch(in mode: ModePointer, commonModes: UInt32) -> UInt32 {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        var batch = RequestList()
        pointee.queued.move(to: &batch) { $0.pointee.post.modes.permits(mode) }
        pointee.checkedVersion = pointee.version.load(ordering: .relaxed)
        pointee.checkedFor = mode
        pointee.checkedCommonModes = commonModes
        guard batch.first != nil else { return 0 }
        pointee.lastBatch = pointee.lastBatch == .max ? 1 : pointee.lastBatch + 1
        var request = batch.first
        while let current = request {
            current.pointee.batch = pointee.lastBatch
            pointee.count.wrappingSubtract(1, ordering: .relaxed)
            request = current.pointee.next
        }
        pointee.running.prepend(&batch)
        return pointee.lastBatch
    }

    /// The next member of a batch, whose turn has come; nil if none is left. Loop's thread.
    func next(ofBatch batch: UInt32) -> RequestPointer? {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        guard let first = pointee.running.first, first.pointee.batch == batch else { return nil }
        first.pointee.isPerforming = true
        return first
    }

    /// Takes out a request that was performed. Whatever stood before it in `running` is done with.
    func removePerformed(_ request: RequestPointer) {
        pointee.lock.lockWord()
        while pointee.running.removeFirst() != request {}
        pointee.lock.unlockWord()
    }

    /// Takes out the requests that match, queued or in a batch whose turn has not come.
    func take(where matches: (RequestPointer) -> Bool) -> RequestList {
        var removed = RequestList()
        pointee.lock.lockWord()
        pointee.running.move(to: &removed) { !$0.pointee.isPerforming && matches($0) }
        pointee.queued.move(to: &removed) { request in
            let isMatch = matches(request)
            if isMatch { pointee.count.wrappingSubtract(1, ordering: .relaxed) }
            return isMatch
        }
        pointee.lock.unlockWord()
        return removed
    }

    /// Closes the queue and drops what is in it; waiting senders are told (S-PERF-11). No lock is held.
    func closeQueue() {
        pointee.lock.lockWord()
        pointee.isClosed = true
        var request = pointee.running.first
        while let current = request {
            current.pointee.isPerforming = false
            request = current.pointee.next
        }
        pointee.lock.unlockWord()
        RequestQueue.drop(take { _ in true })
    }

    /// A new loop's.
    func openQueue() {
        pointee.lock.lockWord()
        pointee.isClosed = false
        pointee.checkedFor = nil
        pointee.lock.unlockWord()
    }

    /// In the child of `fork`. Senders that waited were other threads: they are not there, and what they waited with is their
    /// own.
    func resetInChild() {
        pointee.lock.resetInChild()
        var abandoned = RequestList()
        pointee.running.move(to: &abandoned) { $0.pointee.wait != nil && !$0.pointee.isPerforming }
        var request = pointee.running.first
        while let current = request {
            current.pointee.wait = nil
            request = current.pointee.next
        }
        pointee.queued.move(to: &abandoned) { request in
            let isAbandoned = request.pointee.wait != nil
            if isAbandoned { pointee.count.wrappingSubtract(1, ordering: .relaxed) }
            return isAbandoned
        }
        while abandoned.first != nil { CLinux.free(abandoned.removeFirst()) }
    }
}

extension RequestQueue {
    /// Releases requests that are not performed.
    static func drop(_ list: RequestList) {
        var list = list
        while list.first != nil { list.removeFirst().finish(RequestWait.dropped) }
    }
}

extension UnsafeMutablePointer where Pointee == Request {
    /// Releases what the request holds, tells its sender, and frees it.
    func finish(_ outcome: UInt32) {
        let wait = pointee.wait
        let post = pointee.post
        CLinux.free(self)
        post.modes.free()
        if let release = post.release { callOutPerformedRelease(release, post.info) }
        guard let wait else { return }
        wait.pointee.outcome.store(outcome, ordering: .releasing)
        // The sender may be gone by now, and its memory something else: waking a word that nobody waits on does no harm.
        withUnsafePointer(to: wait.pointee.outcome) { rl_futex_wake($0, 1) }
    }
}
