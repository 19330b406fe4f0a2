// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The perform family: requests of other threads, ordered requests, and delayed ones (section 21).
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Requests by `RLPerformOnLoop`.
    var requests: RequestQueuePointer { withUnsafeMutablePointer(to: &pointee.requests) { $0 } }
    /// Requests by `RLPerformInOrder`.
    var orderedRequests: RequestQueuePointer { withUnsafeMutablePointer(to: &pointee.orderedRequests) { $0 } }

    /// `RLPerformOnLoop`. False if the function is not performed; what it holds was released then. A caller that waits has found its loop.
    func performRequest(_ post: Post, waits: Bool) -> Bool {
        if waits && isCurrent {
            // S-PERF-4: inline, whatever mode runs.
            post.modes.free()
            post.performAndRelease()
            return true
        }
        let wait = waits ? makeRecord(RequestWait.self) : nil
        defer { CRunLoopLinux.free(wait) }
        guard add(post, to: requests, target: nil, order: 0, wait: wait) else { return false }
        guard let wait else { return true }
        while true {
            let outcome = wait.pointee.outcome.load(ordering: .acquiring)
            if outcome != 0 { return outcome == RequestWait.performed }
            wait.pointee.outcome.futexWait(while: 0)
        }
    }

    /// Performs a request in the next pass of whatever mode runs, or releases it.
    func performMarker(_ post: Post) {
        _ = add(post, to: requests, target: nil, order: 0, wait: nil, isMarker: true)
    }

    /// `RLPerformInOrder`.
    func performOrdered(_ post: Post, target: UnsafeRawPointer?, order: Int) {
        _ = add(post, to: orderedRequests, target: target, order: order, wait: nil)
    }

    /// Cancels the ordered requests to a target; of these, if a function is given, those of the function and the info. Any
    /// thread.
    func cancelOrdered(target: UnsafeRawPointer?, perform: PerformFunction?, info: UnsafeMutableRawPointer?) {
        orderedRequests.cancel(CancelKey(target: target, perform: perform, info: info))
    }

    @inline(never)
    private func add(
        _ post: Post, to queue: RequestQueuePointer, target: UnsafeRawPointer?, order: Int,
        wait: UnsafeMutablePointer<RequestWait>?, isMarker: Bool = false
    ) -> Bool {
        let request = RequestPointer.make(post, target: target, order: order, wait: wait)
        guard queue.add(request, in: self, isMarker: isMarker) else {
            request.pointee.wait = nil
            request.finish(RequestWait.dropped)
            return false
        }
        wakeUp()
        return true
    }

    /// Performs what is eligible in the mode, in order. True if there was anything. Loop's thread.
    @inline(always)
    func performRequests(of queue: RequestQueuePointer, in mode: ModePointer) -> Bool {
        guard queue.pointee.count.load(ordering: .relaxed) != 0 else { return false }
        return performBatch(of: queue, in: mode)
    }

    @inline(never)
    func performBatch(of queue: RequestQueuePointer, in mode: ModePointer) -> Bool {
        let hasPerformed = perform(batch: queue.takeBatch(in: mode), of: queue)
        // Not with the batch: a run in one of its requests is stopped too.
        return perform(batch: queue.takeBatch(in: mode, ofMarkers: true), of: queue) || hasPerformed
    }

    @inline(never)
    private func perform(batch: UInt32, of queue: RequestQueuePointer) -> Bool {
        guard batch != 0 else { return false }
        while let request = queue.next(ofBatch: batch) {
            let post = request.pointee.waiting.post
            pointee.counters.requests.count()
            timed(nil, function: unsafeBitCast(post.perform, to: UnsafeRawPointer.self), info: post.info) {
                call(RequestCall(wait: nil)) { _ in callOutPerformed(post.perform, post.info) }
            }
            queue.removePerformed(request)
            let wait = request.pointee.wait
            CRunLoopLinux.free(request)
            post.modes.free()
            if let release = post.release {
                let waiter = beginLasting()
                call(RequestCall(wait: wait)) { _ in callOutPerformedRelease(release, post.info) }
                waiter?.endCallback()
            }
            RequestWait.tell(wait, RequestWait.performed)
        }
        return true
    }

    /// Whether a request keeps the mode from being empty (S-PERF-14). Loop's thread.
    @inline(always)
    func hasRequests(for mode: ModePointer) -> Bool {
        (requests.pointee.count.load(ordering: .relaxed) != 0 && requests.hasEligible(in: mode))
            || (orderedRequests.pointee.count.load(ordering: .relaxed) != 0 && orderedRequests.hasEligible(in: mode))
    }
}

/// A request that is being performed: if it ends the thread, the closing of its queue finishes it. Or one that is released after
/// that, whose sender, if it waits, has to be woken then.
struct RequestCall: CallRecord {
    let wait: UnsafeMutablePointer<RequestWait>?

    static var kind: CallKind { .request }
}

extension RunLoop {
    /// A function for a new thread, which calls it and ends (S-PERF-15).
    private struct Background {
        var perform: PerformFunction
        var release: PerformFunction?
        var info: UnsafeMutableRawPointer?
    }

    /// False if no thread can be created.
    static func performOnNewThread(_ perform: PerformFunction, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?) -> Bool {
        let background = makeRecord(Background.self)
        background.initialize(to: Background(perform: perform, release: release, info: info))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
        var thread = pthread_t()
        let status = pthread_create(&thread, &attributes, { argument in
            let record = argument!.assumingMemoryBound(to: Background.self)
            let background = record.pointee
            CRunLoopLinux.free(record)
            Post(perform: background.perform, release: background.release, info: background.info, modes: PostModes(mode: nil)).performAndRelease()
            return nil
        }, background)
        pthread_attr_destroy(&attributes)
        if status != 0 { CRunLoopLinux.free(background) }
        return status == 0
    }
}
