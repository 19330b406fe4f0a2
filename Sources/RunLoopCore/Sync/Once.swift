// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// `RLOnce`: whether its function was called.
///
/// `state` is 0: not yet, `done`, or `running` with `sleepers` and, above these bits, the number of forks that the process had come
/// through when it was begun: if that number differs now, the thread that began it is not in this process. `running` has a bit of its own
/// beside these, so that with `sleepers` it is never `done`.
struct Once: ~Copyable {
    /// Acquire to find `done`, release to leave it.
    let state: Atomic<UInt32>

    static var running: UInt32 { 0b101 }
    static var sleepers: UInt32 { 2 }
    static var done: UInt32 { 3 }

    static var begun: UInt32 { process.pointee.forkGeneration.load(ordering: .relaxed) << 3 | running }
}

extension UnsafeMutablePointer where Pointee == Once {
    func call(_ function: PerformFunction, _ info: UnsafeMutableRawPointer?) {
        let begun = Once.begun
        while true {
            let state = pointee.state.load(ordering: .acquiring)
            if state == Once.done { return }
            if state & ~Once.sleepers == begun {
                sleep(begun)
            } else if pointee.state.weakCompareExchange(expected: state, desired: begun, ordering: .acquiring).exchanged {
                break
            }
        }
        var call = OnceCall(once: self, outer: rl_thread_onces_get())
        withUnsafeMutablePointer(to: &call) { call in
            rl_thread_onces_set(call)
            callOutGuarded(function, info, { UnsafeMutableRawPointer($0!).cast(to: OnceCall.self).end(0) }, call)
            call.end(Once.done)
        }
    }

    private func sleep(_ begun: UInt32) {
        let state = begun | Once.sleepers
        _ = pointee.state.weakCompareExchange(expected: begun, desired: state, ordering: .relaxed)
        let errno = rl_errno()
        pointee.state.futexWait(while: state)
        rl_set_errno(errno)
    }

    fileprivate func end(_ state: UInt32) {
        guard pointee.state.exchange(state, ordering: .releasing) & Once.sleepers != 0 else { return }
        let errno = rl_errno()
        pointee.state.futexWakeAll()
        rl_set_errno(errno)
    }
}

/// The function of a once that a thread is in, in the frame of the call.
struct OnceCall {
    let once: UnsafeMutablePointer<Once>
    let outer: UnsafeMutableRawPointer?

    /// In the child of `fork`, where the forking thread goes on with those that it is in.
    static func renewInChild() {
        var next = rl_thread_onces_get()
        while let call = next?.cast(to: OnceCall.self) {
            // The threads that slept do not exist here.
            call.pointee.once.pointee.state.store(Once.begun, ordering: .relaxed)
            next = call.pointee.outer
        }
    }
}

extension UnsafeMutablePointer where Pointee == OnceCall {
    fileprivate func end(_ state: UInt32) {
        rl_thread_onces_set(pointee.outer)
        pointee.once.end(state)
    }
}
