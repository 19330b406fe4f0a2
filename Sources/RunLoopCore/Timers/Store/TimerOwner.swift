// SPDX-License-Identifier: MIT
import Synchronization

/// Which loop or thread owns the fields of a timer, in one word (`Timer.owner`):
///
///     none     no owner: the timer is in no loop
///     a claim  a thread's, for a few instructions; the timer is in no loop
///     a loop   that loop's: its lock guards them
///
///     none → claim     a thread takes the fields           (lockTimer)
///     claim → none     it gives them back                  (unlockTimer)
///     none → loop      an Add, under the loop's lock       (enter)
///     loop → none      the timer is not in it any more and goes to another one, under the loop's lock, or the loop has vanished
///
/// In the child of `fork` an earlier claim belongs to a thread that does not exist there; so a claim identifies the process too, and
/// one of another process counts as none.
struct TimerOwner: RawRepresentable, AtomicRepresentable, Equatable {
    let rawValue: UInt

    static var none: TimerOwner { TimerOwner(rawValue: 0) }
    /// No loop has such an address: they are multiples of 64.
    static var claim: TimerOwner { TimerOwner(rawValue: UInt(process.pointee.forkGeneration.load(ordering: .relaxed)) << 6 | 8) }

    private var isClaim: Bool { rawValue & 63 == 8 }
    /// Whether a thread of this process has the fields.
    var isHeld: Bool { isClaim && self == TimerOwner.claim }
    /// The address of the loop; nil if the word names none.
    var address: UnsafeMutableRawPointer? {
        @inline(always) get { isClaim ? nil : UnsafeMutableRawPointer(bitPattern: rawValue) }
    }
}
