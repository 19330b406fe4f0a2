// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A function that the current thread's loop performs after a delay: `RLPerformAfterDelay` (S-PERF-16 to 23). The record is the
/// info of a one-shot timer, whose only reference is its loop's; it is freed when the timer is invalidated. Only the loop's
/// thread touches it, or the thread that frees the loop.
struct DelayedRequest {
    /// The first field, which begins with the function (`TimerState.request`).
    var post: Post
    var target: UnsafeRawPointer?
    var loop: RunLoopPointer
    var timer: TimerPointer?
    /// In the loop's index until it is performed or cancelled.
    var isListed: Bool
    var links: CancelLinks
}

typealias DelayedRequestPointer = UnsafeMutablePointer<DelayedRequest>

extension UnsafeMutablePointer where Pointee == DelayedRequest {
    fileprivate var links: CancelLinksPointer { withUnsafeMutablePointer(to: &pointee.links) { $0 } }

    /// Takes it out of the loop's index: it cannot be cancelled any more.
    fileprivate func unlist() {
        guard pointee.isListed else { return }
        pointee.isListed = false
        pointee.loop.pointee.delayedRequests.remove(links)
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
            post: post, target: target, loop: self, timer: nil, isListed: true, links: CancelLinks()))
        pointee.delayedRequests.insert(
            request.links, CancelKey(target: target, perform: post.perform, info: post.info), record: request)

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
        pointee.delayedRequests.forEach(isExact ? key : CancelKey(target: target, perform: nil, info: nil)) { record in
            let request = record.assumingMemoryBound(to: DelayedRequest.self)
            var post = request.pointee.post
            if !isExact { post.info = info }
            if key.isEqual(target: request.pointee.target, post) { timers.append(request.pointee.timer!) }
        }
        for index in 0..<timers.count {
            let timer = timers[index]
            if timer.isValid, let request = timer.delayedRequest, request.pointee.isListed {
                let isMatch = perform == nil || equal == nil || callOutEqual(equal!, request.pointee.post.info, info)
                if isMatch && timer.isValid && request.pointee.isListed {
                    request.unlist()
                    timer.invalidate()
                }
            }
            timer.release()
        }
        timers.free()
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    /// The request that the timer belongs to. The timer is valid and belongs to one.
    fileprivate var delayedRequest: DelayedRequestPointer? {
        details.pointee.info?.assumingMemoryBound(to: DelayedRequest.self)
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
