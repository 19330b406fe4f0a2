// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A function that the current thread's loop performs after a delay: `RLPerformAfterDelay` (S-PERF-16 to 23). The record is the
/// info of a one-shot timer; it is freed when the timer is invalidated, by any thread: `RLCopyItems` hands the timer out.
///
/// The lock of `loop` guards the links. A record is in the loop's index from its creation until it is performed or cancelled, its
/// timer ends, or the loop is freed, and no record in the index is freed. A timer may outlive the loop: the lock is then that of
/// another loop in the same memory, which has no part of the record.
struct DelayedRequest {
    /// The first field, which begins with the function (`TimerState.request`).
    var post: Post
    var target: UnsafeRawPointer?
    var loop: RunLoopPointer
    var timer: TimerPointer?
    var links: CancelLinks
}

typealias DelayedRequestPointer = UnsafeMutablePointer<DelayedRequest>

extension UnsafeMutablePointer where Pointee == DelayedRequest {
    fileprivate var links: CancelLinksPointer { withUnsafeMutablePointer(to: &pointee.links) { $0 } }

    /// Takes it out of the loop's index, if it is there: it cannot be cancelled any more. No loop's lock is held.
    @inline(never)
    fileprivate func unlist() {
        let loop = pointee.loop
        loop.lock()
        loop.pointee.delayedRequests.remove(links)
        loop.unlock()
    }

    /// The timer's callback.
    fileprivate func fire() {
        unlist()
        callOutPerformed(pointee.post.perform, pointee.post.info)
    }

    /// The timer was invalidated, after its callback or without one.
    fileprivate func finish() {
        unlist()
        let (release, info) = (pointee.post.release, pointee.post.info)
        CRunLoopLinux.free(self)
        if let release { callOutPerformedRelease(release, info) }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// `RLPerformAfterDelay`. The loop is the caller's.
    func performDelayed(_ post: Post, target: UnsafeRawPointer?, delay: Double) {
        let request = makeRecord(DelayedRequest.self)
        request.initialize(to: DelayedRequest(
            post: post, target: target, loop: self, timer: nil, links: CancelLinks()))

        var context = ClientContext()
        context.info = UnsafeMutableRawPointer(request)
        context.release = { UnsafeMutableRawPointer(mutating: $0!).assumingMemoryBound(to: DelayedRequest.self).finish() }
        let timer = TimerPointer.make(
            date: -.infinity, interval: 0, order: 0,
            callout: { _, info in info!.assumingMemoryBound(to: DelayedRequest.self).fire() }, context: context)
        timer.pointee.state.store(timer.pointee.state.load(ordering: .relaxed) | TimerState.request, ordering: .relaxed)
        // Requests with the same delay keep their order whatever is done to the wall clock (S-PERF-18).
        if delay > 0 { timer.setDate(delay, isDelay: true, by: self) }
        request.pointee.timer = timer
        lock()
        pointee.delayedRequests.insert(
            request.links, CancelKey(target: target, perform: post.perform, info: post.info), record: request)
        unlock()
        post.modes.forEach { mode in
            // The name of a mode leads to the mode itself; nil means the common ones.
            if let mode { addTimer(timer, to: .named(mode.pointee.name)) } else { addTimer(timer, to: .common) }
        }
        post.modes.free()
        timer.release()
    }

    /// Cancels the delayed requests to a target; of these, if a function is given, those of the function whose info is the same,
    /// or equal to it. The loop is the caller's.
    func cancelDelayed(
        target: UnsafeRawPointer?, perform: PerformFunction?, info: UnsafeMutableRawPointer?, equal: EqualFunction?
    ) {
        // Timers, each with a reference: comparing and releasing call the client, after which a request may be gone.
        var timers = TimerList()
        let key = CancelKey(target: target, perform: perform, info: info)
        // If the client decides what is equal, all requests to the target have to be looked at.
        let isExact = perform != nil && equal == nil
        lock()
        pointee.delayedRequests.forEach(isExact ? key : CancelKey(target: target, perform: nil, info: nil)) { record in
            let request = record.assumingMemoryBound(to: DelayedRequest.self)
            var post = request.pointee.post
            if !isExact { post.info = info }
            let timer = request.pointee.timer!
            // Only the loop keeps a timer here: one that has left it may be about to be freed.
            if timer.isGuardedNow(by: self), timer.isInLoop, key.isEqual(target: request.pointee.target, post) { timers.append(timer) }
        }
        unlock()
        for index in 0..<timers.count {
            let timer = timers[index]
            var isMatch = true
            if perform != nil, let equal {
                // Another thread's Invalidate leaves the release to this use.
                let use = ContextUses.beginDescription(of: timer.header)
                var other: UnsafeMutableRawPointer?
                isMatch = ifListed(timer) { other = $0.pointee.post.info } && callOutEqual(equal, other, info)
                ContextUses.endDescription(use)
            }
            if isMatch && ifListed(timer, { pointee.delayedRequests.remove($0.links) }) { timer.invalidate() }
            timer.release()
        }
        timers.free()
    }

    /// Calls the body, under the lock, with the request of a timer, if it is in the loop and the index.
    @inline(never)
    private func ifListed(_ timer: TimerPointer, _ body: (DelayedRequestPointer) -> Void) -> Bool {
        lock()
        defer { unlock() }
        // The record of a valid timer is not freed before the timer is made invalid, under this lock.
        guard timer.isGuardedNow(by: self), timer.isValid, let info = timer.details.pointee.info else { return false }
        let request = info.assumingMemoryBound(to: DelayedRequest.self)
        guard request.links.isListed else { return false }
        body(request)
        return true
    }
}

/// Timers with a reference to each. The zero value is empty.
private struct TimerList {
    private var members: UnsafeMutablePointer<TimerPointer>?
    private var capacity = 0
    private(set) var count = 0

    subscript(index: Int) -> TimerPointer { members![index] }

    mutating func append(_ timer: TimerPointer) {
        if count == capacity {
            capacity = max(8, 2 * capacity)
            members = growArray(members, count: capacity)
        }
        timer.retain()
        members![count] = timer
        count += 1
    }

    func free() { CRunLoopLinux.free(members) }
}
