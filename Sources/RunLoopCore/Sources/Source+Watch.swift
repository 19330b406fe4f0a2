// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// Making a watch, and making the loops it is in notice more interest. See `Watch`.
extension UnsafeMutablePointer where Pointee == Source {
    /// Creates a watch with one reference. Of the functions, `retain`, `release` and `copyDescription` manage the info, and `schedule`
    /// and `cancel` report Add and Remove; the others are not used. `interest` is nil if the owner, which is the info, keeps what is of
    /// interest.
    static func makeWatch(
        descriptor: Int32, order: Int, info: UnsafeMutableRawPointer?, functions: SourceFunctions, interest: Readiness?,
        owned: Bool = false, options: UInt32 = 0,
        handler: @escaping WatchHandler
    ) -> SourcePointer {
        var functions = functions
        functions.watch = handler
        let source = make(
            order: order, info: info, functions: functions, isVersionOne: options & WatchFlags.signals == 0,
            tail: interest == nil ? 0 : MemoryLayout<Atomic<UInt32>>.stride)
        source.pointee.port.store(descriptor, ordering: .relaxed)
        source.pointee.state.bitwiseOr(SourceState.watch, ordering: .relaxed)
        let word = interest == nil ? 0 : WatchFlags.hasWord
        source.watchFlags.pointee.store(options | word | (owned ? WatchFlags.owned : 0), ordering: .relaxed)
        if let interest { source.wordOfWatch.pointee.store(interest.rawValue, ordering: .relaxed) }
        return source
    }

    func enableInterest(_ more: Readiness) {
        let old = wordOfWatch.pointee.bitwiseOr(more.rawValue, ordering: .sequentiallyConsistent).oldValue
        if more.rawValue & ~old != 0 { interestGrew() }
    }

    /// Registers the number with the kernel once more, wherever it is watched, because it may name another file now.
    func registerAnew() {
        forEachModeOfLoops { $0.pointee.ports.registerAnew(self, in: $0) }
    }

    /// Informs the modes that hold the watch. An Add claims the link and then reads the interest, this looks at the link after the interest has
    /// changed, both sequentially consistent. A loop that removes bits from a registration reads the interest under its lock, and this takes
    /// that lock after the interest has changed: one of the two arms the registration.
    func interestGrew() {
        forEachModeOfLoops { $0.pointee.ports.interestGrew(of: self, in: $0) }
    }

    /// Calls the body with each mode that holds the watch, under the lock of its loop; true: the loop has to look again.
    private func forEachModeOfLoops(_ body: (ModePointer) -> Bool) {
        forEachLink { link in
            // The loop may be gone by now; its memory and lock are not, and the second look shows it.
            guard let loop = link.pointee.loop.load(ordering: .sequentiallyConsistent), !loop.isVanished else { return }
            loop.lock()
            guard link.pointee.loop.load(ordering: .relaxed) == loop else { return loop.unlock() }
            var unseen = false
            for index in 0..<link.pointee.modes.count {
                let mode = link.pointee.modes[index]
                if body(mode) { unseen = true }
            }
            loop.unlock()
            if unseen { loop.lookAgainIfForeign() }
        }
    }
}
