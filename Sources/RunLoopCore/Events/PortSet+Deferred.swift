// SPDX-License-Identifier: MIT
// Descriptors that are put off: those whose handler cannot do its work now, for want of descriptors for instance.

extension PortSet {
    /// Looks no more at the number of a watch until then. For a handler that cannot do its work now.
    mutating func putOff(_ source: SourcePointer, until: Int64) {
        guard let (slot, _) = slot(of: source) else { return }
        slot.pointee.marks.insert(.deferred)
        if deferredUntil == 0 { deferredUntil = until }
    }

    /// When to look at what was put off; that is done now if it is time.
    @inline(always)
    mutating func nextDeferred() -> Int64 {
        deferredUntil == 0 ? Clock.never : lookAtDeferred(Clock.now())
    }

    @inline(never)
    private mutating func lookAtDeferred(_ now: Int64) -> Int64 {
        if now < deferredUntil { return deferredUntil }
        deferredUntil = 0
        forEachSlot { slot, index in
            guard slot.pointee.marks.contains(.deferred) else { return }
            slot.pointee.marks.remove(.deferred)
            if slot.pointee.state == .registered { slot.pointee.arm(index, slot.pointee.wanted, in: epoll) }
        }
        return Clock.never
    }
}
