// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// What a loop does with its call-outs besides calling them: bits of `RunLoop.insight`.
enum Insight: UInt32 {
    /// It measures them (`Accounting`).
    case accounting = 1
    /// It is watched for those that take long (`CalloutWatch`).
    case watching = 2
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Calls out, and measures, watches and traces it if that is asked for; where it is not, each call-out costs two loads and a branch. nil:
    /// the call-out is of no item. The item is kept by who calls. For a timer the instant at which it was due, for a source when it was
    /// signalled, by the processor's counter, for a function the function and its info. Loop's thread.
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
            callOut()
            endMeasured(item, begin)
            if Trace.isWanted { endTraced(traced, item.map { UnsafeMutableRawPointer($0) } ?? info) }
            watch?.end()
        }
    }

    /// Begins or ends one of them. The lock is held.
    func attend(_ what: Insight, _ isOn: Bool) {
        if isOn {
            pointee.insight.bitwiseOr(what.rawValue, ordering: .relaxed)
        } else {
            pointee.insight.bitwiseAnd(~what.rawValue, ordering: .relaxed)
        }
    }
}
