// SPDX-License-Identifier: MIT
import Synchronization

/// A run whose waits another loop makes: GLib's, libuv's, or a plain epoll loop.
///
/// Its passes are those of every run, cut in two at the wait: `prepare` makes the steps before it, `dispatch` those after it.
/// In between the loop sleeps in `set`, as far as others can tell: the wake word says so, and a thread that wakes the loop makes the set
/// ready. The set holds the mode's own set, the wake eventfd, and a timerfd for the next timer, so it is readable when
/// a dispatch would find something to do. It is also made readable whenever a prepare is due.
///
/// Loop's thread only, except for the references and `isValid`. The loop holds a reference from the first prepare on.
struct ForeignRun: ~Copyable, Listed {
    let header: ObjectHeader
    let isValidFlag: Atomic<Bool>

    /// Retained.
    var loop: RunLoopPointer
    var mode: ModePointer
    /// The frame that is in the loop's list while a run is under way.
    var frame: RunFramePointer
    var phase: Phase
    /// Client code is being called by prepare or dispatch.
    var isBusy: Bool
    var isFirstPass: Bool
    /// What the steps before the wait left for those after it, in phase `waiting`.
    var half: HalfPass
    /// `RunFrame.common` of a wait that is nested in a callback.
    var common: CommonState
    /// The loop holds a reference.
    var isHeld: Bool
    /// How many functions that call the client hold one.
    var uses: UInt32

    /// The descriptor of the foreign loop, and the timerfd in it; -1: there was no room for one. The child handler of `fork` replaces them.
    var set: EpollSet
    var timer: Int32
    /// The serial of the mode's set that is in `set`; 0: none.
    var watchedSerial: UInt32
    /// The mark of `timer`.
    var timerMark: UInt32
    /// As `RunLoop.seenLosses`, for `set`.
    var seenLosses: UInt32
    /// The instant for which the timerfd is armed; `Clock.never` if it is not.
    var armedFor: Int64
    /// Guarded by the registry's lock, so that a fork finds the list consistent.
    var next: ForeignRunPointer?
    var previous: ForeignRunPointer?

    enum Phase: UInt8 {
        /// No run: it has not begun, the last one has returned its result, or there is nothing in the mode.
        case idle = 0
        /// Between two passes, or before the first.
        case between
        /// A stop came in Entry: there is no pass (S-STOP-4).
        case stoppedInEntry
        /// At the wait of a pass.
        case waiting
    }

    static var modeToken: UInt64 { 1 }
    static var timerToken: UInt64 { 2 }
}

typealias ForeignRunPointer = UnsafeMutablePointer<ForeignRun>
