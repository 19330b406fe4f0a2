// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Making a watch, and making the loops it is in notice more interest. See `Watch`.
extension UnsafeMutablePointer where Pointee == Source {
    /// Creates a watch with one reference. Of the functions, `retain`, `release` and `copyDescription` manage the info, and `schedule`
    /// and `cancel` report Add and Remove; the others are not used. `interest` is nil if the owner, which is the info, keeps what is of
    /// interest. `fileSerial`: a number that no other file has that may have this descriptor number, for a watch that leaves its modes and comes back
    /// often, whose number only the library can close, and whose interest, not nil, never changes.
    static func makeWatch(
        descriptor: Int32, order: Int, info: UnsafeMutableRawPointer?, functions: SourceFunctions, interest: Readiness?,
        owned: Bool = false, options: UInt32 = 0, fileSerial: UInt32 = 0,
        handler: @escaping WatchHandler
    ) -> SourcePointer {
        var functions = functions
        functions.watch = handler
        let source = make(
            order: order, info: info, functions: functions, isVersionOne: options & WatchFlags.signals == 0,
            tail: interest == nil ? 0 : MemoryLayout<Atomic<UInt32>>.stride * (fileSerial == 0 ? 1 : 2))
        source.pointee.port.store(descriptor, ordering: .relaxed)
        source.pointee.state.bitwiseOr(SourceState.watch, ordering: .relaxed)
        let word = interest == nil ? 0 : WatchFlags.hasWord
        let keeps = fileSerial == 0 ? 0 : WatchFlags.keeps
        source.watchFlags.pointee.store(options | word | keeps | (owned ? WatchFlags.owned : 0), ordering: .relaxed)
        if let interest { source.wordOfWatch.pointee.store(interest.rawValue, ordering: .relaxed) }
        if fileSerial != 0 { source.wordOfWatch[1].store(fileSerial, ordering: .relaxed) }
        return source
    }

    func enableInterest(_ more: Readiness) {
        let old = wordOfWatch.pointee.bitwiseOr(more.rawValue, ordering: .sequentiallyConsistent).oldValue
        if Watch.isNews(from: old, to: old | more.rawValue) { interestGrew() }
    }

    /// Registers the number with the kernel once more, wherever it is watched, because it may name another file now.
    func registerAnew() {
        forEachLoop { link in
            var unseen = false
            for index in 0..<link.pointee.modes.count {
                let mode = link.pointee.modes[index]
                if mode.pointee.ports.registerAnew(self, in: mode) { unseen = true }
            }
            return unseen
        }
    }

    /// Informs the modes that hold the watch. An Add claims the link and then reads the interest, this looks at the link after the interest has
    /// changed, both sequentially consistent. A loop that removes bits from a registration reads the interest under its lock, and this takes
    /// that lock after the interest has changed: one of the two arms the registration.
    ///
    /// It is not called for bits that are in `Watch.armed`, as where a report puts back what it has taken. That is right because the bits lie in
    /// the word of the interest itself, so that all changes of both have one order:
    /// - The bits are set here alone, under the lock of the only loop that has the watch, after all its modes with the watch have armed their
    ///   registrations, level-triggered, for them.
    /// - Each step that makes a registration, or replaces it by one that may report less or is edge-triggered, and each that leaves a number
    ///   without one because nothing is of interest, is made under the loop's lock by `PortSlot.takeWanted`, which first clears the bits
    ///   and then reads the interest. A growth that found the bits set came before the clearing, so its interest is read there and gets armed;
    ///   one that came later finds them cleared, and takes the lock. A number that waits for room, or for a set, keeps the bits: it has this
    ///   step before it. Where a member comes to a number that is registered, the new registration requests all that the one before did, and
    ///   what interests that member, whose bits alone are cleared.
    /// - Two loops do not exclude each other by their locks: one could set the bits when the other has read the interest. So the Add to the
    ///   second marks the word (`Watch.isShared`) before it reads the interest, and from then on no bits are set. So does who
    ///   makes a source of an owner whose former one is still being invalidated, before anybody else has the new one. A watch that leaves its
    ///   loop and joins another brings its bits there, where the registration of its number clears them.
    /// - In the child of a fork the sets of the one loop are closed and their numbers wait; that loop's lock was held at the fork. A watch of a
    ///   vanished loop keeps the bits; an Add to the loop that is left needs a further link, which marks it as shared.
    func interestGrew() {
        forEachLoop { link in
            var unseen = false
            var armed: Readiness = [.read, .write]
            for index in 0..<link.pointee.modes.count {
                let mode = link.pointee.modes[index]
                if mode.pointee.ports.interestGrew(of: self, in: mode, armed: &armed) { unseen = true }
            }
            if link.pointee.modes.count > 0 { noteArmed(armed) }
            return unseen
        }
    }

    /// Calls the body with the link to each loop that has the watch, under the loop's lock; true: the loop has to look again.
    @inline(__always)
    private func forEachLoop(_ body: (SourceLinkPointer) -> Bool) {
        forEachLink { link in
            // The loop may be gone by now; its memory and lock are not, and the second look shows it.
            guard let loop = link.pointee.loop.load(ordering: .sequentiallyConsistent), !loop.isVanished else { return }
            loop.lock()
            guard link.pointee.loop.load(ordering: .relaxed) == loop else { return loop.unlock() }
            let unseen = body(link)
            loop.unlock()
            if unseen { loop.lookAgainIfForeign() }
        }
    }
}
