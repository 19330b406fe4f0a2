// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What a loop does at a call-out besides the call itself: bits of `RunLoop.insight`.
enum Insight: UInt32 {
    /// It measures the call-outs (`Accounting`).
    case accounting = 1
    /// It is watched for call-outs that take long (`CalloutWatch`).
    case watching = 2
    /// Its thread waits for a lock and runs it (`lockWait`).
    case lockWait = 4
    /// Its thread is to end: runs end after a pass (`endRuns`).
    case ending = 8
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Calls out, and measures, watches and traces the call-out if that is requested; if not, each call-out costs two loads and a branch. `item`
    /// is nil for a call-out of no item. The caller keeps the item alive. For a timer, pass the instant at which it was due; for a source when
    /// it was signalled, by the processor's counter; for a function the function and its info. Loop's thread.
    @inline(always)
    func timed(
        _ item: ObjectPointer?, due: Int64 = 0, signalled: @autoclosure () -> UInt64 = 0,
        function: @autoclosure () -> UnsafeRawPointer? = nil, info: @autoclosure () -> UnsafeMutableRawPointer? = nil, _ callOut: () -> Void
    ) {
        if !isAttended { return callOut() }
        attended(item, due, signalled(), function(), info(), callOut)
    }

    @inline(always)
    var isAttended: Bool { pointee.insight.load(ordering: .relaxed) | rl_tracing() != 0 }

    // Few lines, because each place that calls out has its own copy of them.
    @inline(never)
    private func attended(
        _ item: ObjectPointer?, _ due: Int64, _ signalled: UInt64, _ function: UnsafeRawPointer?,
        _ info: UnsafeMutableRawPointer?, _ callOut: () -> Void
    ) {
        withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { stack in
            let watch = beginWatched(UnsafeRawPointer(stack.baseAddress.unsafelyUnwrapped), item, function)
            let traced = beginTraced(item, function, info, due)
            let begin = beginMeasured(due, signalled)
            let waiter = beginLasting(item)
            callOut()
            waiter?.endCallback()
            endMeasured(item, begin)
            if Trace.isWanted { endTraced(traced, item.map { UnsafeMutableRawPointer($0) } ?? info) }
            watch?.end()
        }
    }

    /// What begins may keep a thread that waits for a lock from looking for it until `endCallback` of the result. Not so the wait's own mark,
    /// after which the thread looks: if it passed the word on, each thread that an unlock wakes would wake the next one. Loop's thread.
    @inline(always)
    func beginLasting(_ item: ObjectPointer? = nil) -> LoopWaiterPointer? {
        guard let waiter = pointee.lockWait, item == nil || waiter.pointee.mark != item else { return nil }
        return waiter.beginCallback() ? waiter : nil
    }

    /// Sets or clears one of the bits. The lock is held, or the bit is `ending`, behind which there is nothing.
    func attend(_ what: Insight, _ isOn: Bool) {
        if isOn {
            pointee.insight.bitwiseOr(what.rawValue, ordering: .relaxed)
        } else {
            pointee.insight.bitwiseAnd(~what.rawValue, ordering: .relaxed)
        }
    }
}
