// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Call-outs in a trace. Loop's thread.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Records the beginning of a call-out. Returns the argument for `endTraced`. An item's function is the client's.
    @inline(never)
    func beginTraced(_ item: ObjectPointer?, _ function: UnsafeRawPointer?, _ info: UnsafeMutableRawPointer?, _ due: Int64) -> CallOutKind {
        if !Trace.isWanted { return .function }
        let (kind, called) = CallOutKind.of(item, function)
        // In tenths of a microsecond, at most seven minutes.
        let lateness = due == 0 ? 0 : Swift.min(Swift.max(time - due, 0) / 100, Int64(UInt32.max))
        record(
            .callOutBegin, kind.rawValue, extra: UInt32(truncatingIfNeeded: lateness),
            item: item.map { UInt(bitPattern: $0) } ?? UInt(bitPattern: info), info: UInt(bitPattern: called))
        return kind
    }

    @inline(never)
    func endTraced(_ kind: CallOutKind, _ subject: UnsafeMutableRawPointer?) {
        record(.callOutEnd, kind.rawValue, item: UInt(bitPattern: subject))
    }
}
