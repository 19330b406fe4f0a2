// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The User filter: events of the program's own, by `RLKernelEventSourceTrigger`.
extension KernelFilter {
    static var user: KernelFilter {
        KernelFilter(number: .user, open: { _ in true }, take: .init { $0.takeFlags(&$1) })
    }
}

extension UnsafeMutablePointer where Pointee == KernelEvent {
    /// The bits that were triggered and not reported yet.
    func takeFlags(_ happened: inout RLKernelEvent) -> Bool {
        let flags = pointee.userFlags.load(ordering: .sequentiallyConsistent)
        if flags & Note.trigger.rawValue == 0 { return false }
        happened.fflags = pointee.userFlags.exchange(0, ordering: .sequentiallyConsistent) & Note.userMask.rawValue
        happened.data = pointee.data.load(ordering: .sequentiallyConsistent)
        return true
    }

    /// `RLKernelEventSourceTrigger`. Async-signal-safe.
    func trigger(_ fflags: UInt32, _ data: Int64) {
        guard pointee.filter.pointee.number == .user else { return }
        let triggers = fflags & Note.trigger.rawValue
        // The data first: a thread that sees the bits sees them.
        if triggers != 0 { pointee.data.store(data, ordering: .sequentiallyConsistent) }
        let given = fflags & Note.userMask.rawValue
        var old = pointee.userFlags.load(ordering: .relaxed)
        var new: UInt32
        repeat {
            let bits = old & Note.userMask.rawValue
            switch fflags & Note.copy.rawValue {
            case Note.and.rawValue: new = bits & given
            case Note.or.rawValue: new = bits | given
            case Note.copy.rawValue: new = given
            default: new = bits
            }
            new |= triggers | (old & Note.trigger.rawValue)
            // Retried only when another thread, or a handler, changed the word in between.
        } while !pointee.userFlags.replace(&old, by: new)
        if triggers != 0 && mayReport { pointee.source?.markReady() }
    }
}
