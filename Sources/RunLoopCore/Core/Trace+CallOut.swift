// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// Call-outs in a trace. Loop's thread.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Records the beginning of a call-out; what the end is to be given. An item's function is what the client gave for it.
    @inline(never)
    func beginTraced(_ item: ObjectPointer?, _ function: UnsafeRawPointer?, _ info: UnsafeMutableRawPointer?, _ due: Int64) -> TracedCallOut {
        if !Trace.isWanted { return .function }
        var kind = function == nil ? TracedCallOut.mainQueue : .function
        var address = UInt(bitPattern: function)
        if let item { (kind, address) = item.tracedFunction }
        // In tenths of a microsecond, with seven minutes for all that is later.
        let lateness = due == 0 ? 0 : Swift.min(Swift.max(time - due, 0) / 100, Int64(UInt32.max))
        record(
            .callOutBegin, kind.rawValue, extra: UInt32(truncatingIfNeeded: lateness),
            item: item.map { UInt(bitPattern: $0) } ?? UInt(bitPattern: info), info: address)
        return kind
    }

    @inline(never)
    func endTraced(_ kind: TracedCallOut, _ subject: UnsafeMutableRawPointer?) {
        record(.callOutEnd, kind.rawValue, item: UInt(bitPattern: subject))
    }
}

extension ObjectPointer {
    fileprivate var tracedFunction: (TracedCallOut, UInt) {
        let item = UnsafeMutableRawPointer(self)
        switch pointee.type.load(ordering: .relaxed) {
        case ObjectType.timer.rawValue:
            return (.timer, unsafeBitCast(item.assumingMemoryBound(to: Timer.self).details.pointee.callout, to: UInt.self))
        case ObjectType.observer.rawValue:
            return (.observer, unsafeBitCast(item.assumingMemoryBound(to: Observer.self).pointee.callout, to: UInt.self))
        default:
            let source = item.assumingMemoryBound(to: Source.self)
            if source.isWatch { return (.watch, 0) }
            return (source.isVersionOne ? .portSource : .source, unsafeBitCast(source.functions.perform, to: UInt.self))
        }
    }
}
