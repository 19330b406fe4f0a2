// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The bits of `Source.state`. One word, so that the flag and the place of the first link change together. What changes it is in this
/// file, but for what is set at creation.
///
///     bit         set by                                                     cleared by
///     signalled   a signal, together with `queued` (`beginSignal`,           the perform (`takeSignal`), Invalidate,
///                 `beginReady`); a loop that finds a watch ready             `fork` in the child
///     marked      a second signal before that, or an Add that finds the      the next first signal, and with `signalled`
///                 link queued: the first signaller wakes the loop
///     queued      a thread that puts the first link on a stack or in a list  the perform, with `signalled`; a thread that
///                                                                            has the link and gives it back (`unqueue`)
///     flagged     a signal of a version 1 source                             the perform, Invalidate
///     invalid     Invalidate                                                 nothing
///     dead        the drop of the last reference                             nothing; the memory goes when `queued` and the
///                                                                            holds are gone
///     limited     `RLSourceSetLimit`                                         the same, for no limit
///     hold        a count of uses of the source without a reference          each of them
enum SourceState {
    /// The signal flag of a version 0 source; of an inbox, that it is ready.
    static var signalled: UInt64 { 1 << 0 }
    /// Signalled again while the first signaller may not have pushed the link yet: it wakes the loop after its push.
    static var marked: UInt64 { 1 << 1 }
    /// The first link is on a stack, in a list of its loop, or held by a thread that will put it there.
    static var queued: UInt64 { 1 << 2 }
    /// The last reference is gone; the memory stays until no link is queued and no hold is left.
    static var dead: UInt64 { 1 << 3 }
    static var invalid: UInt64 { 1 << 4 }
    static var hashed: UInt64 { 1 << 5 }
    static var versionOne: UInt64 { 1 << 6 }
    /// A watch; `versionOne` is set too, unless it signals.
    static var watch: UInt64 { 1 << 7 }
    /// A version 1 source that is made ready by a call and not by a descriptor. Set at creation, with `versionOne`.
    static var inbox: UInt64 { 1 << 8 }
    /// The flag of `RLSourceSignal` on a version 1 source, which means nothing but itself (S-SRC-45).
    static var flagged: UInt64 { 1 << 9 }
    /// A source of `KernelEvent`. Set at creation.
    static var kernelEvent: UInt64 { 1 << 10 }
    /// An inbox that the thread that reads the notifier of files marks, or a watch of a timer that it starts. Fixed before any other thread knows
    /// the source.
    static var notified: UInt64 { 1 << 11 }
    /// It has a `SourceLimit`. In this word so that performing one without costs nothing.
    static var limited: UInt64 { 1 << 12 }
    /// A count: further links that are queued, and code that touches the source without a reference.
    static var hold: UInt64 { 1 << 13 }
    static var holds: UInt64 { 0x7_ffff << 13 }
    /// A count of signals, so that a late signaller tells its own signal from a later one.
    static var generation: UInt64 { 1 << 32 }
    static var generations: UInt64 { 0xffff_ffff << 32 }

    /// All that a signal leaves until it is performed.
    static var signal: UInt64 { signalled | marked | flagged }

    /// Whether the memory of a source in this state can be given back.
    @inline(always)
    static func isUnused(_ state: UInt64) -> Bool {
        state & dead != 0 && state & (queued | holds) == 0
    }
}

// The loops of attempts here are repeated only when another thread changed the state in between, which is progress of that thread.
extension UnsafeMutablePointer where Pointee == Source {
    // MARK: What it is

    var isVersionOne: Bool { pointee.state.load(ordering: .relaxed) & SourceState.versionOne != 0 }
    var isInbox: Bool { pointee.state.load(ordering: .relaxed) & SourceState.inbox != 0 }
    var isWatch: Bool { pointee.state.load(ordering: .relaxed) & SourceState.watch != 0 }
    /// Its modes watch the notifier of files.
    var isNotified: Bool { pointee.state.load(ordering: .relaxed) & SourceState.notified != 0 }

    /// Whether its modes ask the kernel about it.
    var hasDescriptor: Bool {
        let kind = pointee.state.load(ordering: .relaxed)
        return kind & (SourceState.versionOne | SourceState.watch) != 0 && kind & SourceState.inbox == 0
    }

    /// A watch that is a version 0 source.
    var isSignallingWatch: Bool {
        pointee.state.load(ordering: .relaxed) & (SourceState.versionOne | SourceState.watch) == SourceState.watch
    }

    /// Sequentially consistent, as the next: an Add sets the link's loop and then looks here; Invalidate and signallers change the
    /// state and then look at the loop.
    var isValid: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & SourceState.invalid == 0 }
    var isSignalled: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & SourceState.signalled != 0 }
    /// What `RLSourceIsSignalled` returns (S-SRC-38).
    var isFlagged: Bool {
        pointee.state.load(ordering: .relaxed) & (isVersionOne ? SourceState.flagged : SourceState.signalled) != 0
    }

    // MARK: The flag

    /// The first step of a signal: the state before and after it. nil: there is nothing more to do.
    @inline(always)
    func beginSignal() -> (old: UInt64, new: UInt64)? {
        var state = pointee.state.load(ordering: .sequentiallyConsistent)
        var desired: UInt64
        repeat {
            if state & SourceState.invalid != 0 { return nil }
            if state & SourceState.versionOne != 0 {
                desired = state | SourceState.flagged
            } else if state & SourceState.signalled != 0 {
                if state & SourceState.marked != 0 { return nil }
                desired = state | SourceState.marked
            } else {
                desired = signalledState(after: state) | SourceState.queued
            }
        } while !pointee.state.replace(&state, by: desired)
        return desired & (SourceState.marked | SourceState.versionOne) != 0 ? nil : (state, desired)
    }

    /// The first step of making an inbox ready: the state before it; nil if it is invalid. Always an exchange, also where the mark
    /// is there: what was put in before is then seen after the mark is taken.
    func beginReady() -> UInt64? {
        var old = pointee.state.load(ordering: .relaxed)
        repeat {
            if old & SourceState.invalid != 0 { return nil }
        } while !pointee.state.replace(&old, by: old | SourceState.signalled | SourceState.queued)
        return old
    }

    /// Sets the flag of a watch that its loop found ready, and takes the right to put the first link on a list. True if it got that.
    func setFlag(queueing: Bool) -> Bool {
        var state = pointee.state.load(ordering: .sequentiallyConsistent)
        while true {
            var desired = state & (SourceState.signalled | SourceState.invalid) == 0 ? signalledState(after: state) : state
            if queueing { desired |= SourceState.queued }
            if desired == state || pointee.state.replace(&state, by: desired) { return (state ^ desired) & SourceState.queued != 0 }
        }
    }

    @inline(always)
    private func signalledState(after state: UInt64) -> UInt64 {
        pointee.signalTime.store(rl_order_of_time(), ordering: .relaxed)
        return ((state &+ SourceState.generation) & ~SourceState.marked) | SourceState.signalled
    }

    var isLimited: Bool { pointee.state.load(ordering: .relaxed) & SourceState.limited != 0 }

    func setLimited(_ isLimited: Bool) {
        if isLimited {
            pointee.state.bitwiseOr(SourceState.limited, ordering: .sequentiallyConsistent)
        } else {
            pointee.state.bitwiseAnd(~SourceState.limited, ordering: .sequentiallyConsistent)
        }
    }

    /// Takes the flag away, and with `unqueueing` the first link, which the caller has. False if the source is not to perform, or is limited
    /// and the caller has not looked at that.
    @inline(always)
    func takeFlag(unqueueing: Bool, disregarding ignored: UInt64 = 0) -> Bool {
        var state = pointee.state.load(ordering: .relaxed)
        while true {
            let stops = SourceState.invalid | SourceState.limited & ~ignored
            if state & (SourceState.signalled | stops) != SourceState.signalled { return false }
            let desired = state & ~(SourceState.signal | (unqueueing ? SourceState.queued : 0))
            if pointee.state.replace(&state, by: desired) { return true }
        }
    }

    /// Has the signaller that queued the link wake the loop after its push.
    func markSignal() { pointee.state.bitwiseOr(SourceState.marked, ordering: .sequentiallyConsistent) }

    /// A flag that is set just now counts as one set right after.
    func clearFlagged() {
        if pointee.state.load(ordering: .relaxed) & SourceState.flagged == 0 { return }
        pointee.state.bitwiseAnd(~SourceState.flagged, ordering: .acquiringAndReleasing)
    }

    /// In the child of `fork`, which has one thread.
    func forgetSignal() { pointee.state.bitwiseAnd(~SourceState.signal, ordering: .sequentiallyConsistent) }
    func restoreFlag() { pointee.state.bitwiseOr(SourceState.signalled, ordering: .relaxed) }

    /// The first step of an Invalidate, under any lock: the thread that made it makes the others. False: it was made before.
    @inline(never)
    func becomeInvalid() -> Bool {
        var state = pointee.state.load(ordering: .relaxed)
        repeat {
            if state & SourceState.invalid != 0 { return false }
        } while !pointee.state.replace(&state, by: (state | SourceState.invalid) & ~SourceState.signal)
        return true
    }

    // MARK: The first link

    var isFirstQueued: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & SourceState.queued != 0 }

    /// False: it is taken.
    func tryQueueFirst() -> Bool {
        pointee.state.bitwiseOr(SourceState.queued, ordering: .sequentiallyConsistent).oldValue & SourceState.queued == 0
    }

    func unqueueFirst() {
        freeIfUnused(pointee.state.bitwiseAnd(~SourceState.queued, ordering: .sequentiallyConsistent).newValue)
    }

    // MARK: The memory

    /// The last reference is gone.
    func die() { freeIfUnused(pointee.state.bitwiseOr(SourceState.dead, ordering: .acquiringAndReleasing).newValue) }

    /// Keeps the memory, not the object, while code without a reference looks at it.
    func holdMemory() {
        pointee.state.wrappingAdd(SourceState.hold, ordering: .acquiringAndReleasing)
    }

    func releaseMemory() {
        freeIfUnused(pointee.state.wrappingSubtract(SourceState.hold, ordering: .acquiringAndReleasing).newValue)
    }

    /// The same, but memory that would be freed stays: true, and the first link counts as queued.
    func releaseMemoryKeepingUnused() -> Bool {
        var state = pointee.state.load(ordering: .relaxed)
        while true {
            let released = state - SourceState.hold
            let isUnused = SourceState.isUnused(released)
            if pointee.state.replace(&state, by: isUnused ? released | SourceState.queued : released) { return isUnused }
        }
    }

    @inline(always)
    private func freeIfUnused(_ state: UInt64) {
        if SourceState.isUnused(state) { freeMemory() }
    }
}
