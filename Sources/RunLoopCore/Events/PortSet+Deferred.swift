// SPDX-License-Identifier: MIT
// Deferred descriptors: those whose handler cannot do its work now, for example because the process has no free descriptor.
import Synchronization

extension PortSet {
    /// Reports nothing to a watch, nor to others of its kind on its number, until the given instant: a socket that cannot accept keeps no
    /// descriptor object waiting. For a handler that cannot do its work now.
    mutating func putOff(_ source: SourcePointer, until: Int64) {
        guard let (slot, _) = slot(of: source) else { return }
        slot.pointee.marks.formUnion(.deferred(source.watchFlags.pointee.load(ordering: .relaxed)))
        if deferredUntil == 0 { deferredUntil = until }
    }

    /// Looks at the deferred descriptors if their time has come. Returns when to look at them next.
    @inline(always)
    mutating func nextDeferred() -> Int64 {
        deferredUntil == 0 ? Clock.never : lookAtDeferred(Clock.now())
    }

    @inline(never)
    private mutating func lookAtDeferred(_ now: Int64) -> Int64 {
        if now < deferredUntil { return deferredUntil }
        deferredUntil = 0
        // The file that haunts the set, if it is still ready, is met again.
        isHaunted = false
        resumeNotifier()
        var index = -1
        while slots.advance(&index) {
            let slot = slots[index]
            guard !slot.pointee.marks.isDisjoint(with: .deferred) else { continue }
            slot.pointee.marks.subtract(.deferred)
            // It lost its place in the queue while nothing was of interest.
            if slot.pointee.state == .alwaysReady { _ = enqueueAlwaysReady(index) }
            if slot.pointee.state == .registered { slot.pointee.arm(index, in: epoll) }
            // A member that came meanwhile had nothing of interest.
            if slot.pointee.state == .idle && !slot.pointee.wanted.isEmpty { slot.pointee.startWaiting(&waiting) }
        }
        _ = retry()
        return Clock.never
    }
}
