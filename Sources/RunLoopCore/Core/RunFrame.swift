// SPDX-License-Identifier: MIT
/// One run of a loop: what differs between nested runs. It lies on the stack of the function that runs; only the loop's thread
/// uses it.
struct RunFrame {
    /// The run from whose callback this one was started.
    var outer: RunFramePointer?
    let mode: ModePointer
    /// The h of the specification: return after a source was handled.
    let returnsAfterSource: Bool
    /// t <= 0: one pass that does not wait.
    let polls: Bool
    /// The monotonic instant of the deadline; `Clock.never` for none.
    var deadline: Int64 = Clock.never
    /// The wait of the current pass; wake-ups that nested runs take also apply to it (S-WAKE-9).
    var wait = WaitState.ahead
    /// What the run has seen of its mode's becoming a common one.
    var common = CommonState.unseen
    /// This run was asked to stop before a nested one began, which then was the innermost (S-STOP-2, S-STOP-3).
    var stopRequested = false
    /// While this run is the innermost.
    var stopState: UInt32 { stopRequested ? StopState.stopRequested : StopState.running }
    /// The thread is to end: the run is stopped when its first pass has begun, after the Entry observers (`endRuns`).
    var endsAfterPass = false
    /// Step P8 looks at the main dispatch queue: not in a run's first pass nor in the one after a drain (S-GCD-6).
    var mayPeek = false
    /// A wake-up ended the last wait.
    var wasWoken = false
    /// What the run waits for has arrived: the run returns after its pass. Set when a nested run got a message port's reply that this run
    /// waits for.
    var hasReply = false
    /// The foreign run that makes this run, if a foreign loop makes its waits.
    var foreign: ForeignRunPointer?
    /// The callback in which the run began, if that is watched (S-SLOW-4).
    var pausedCall: WatchedCall?
    /// The last reading of the monotonic clock; stale once client code has run.
    var now: Int64 = 0
}

typealias RunFramePointer = UnsafeMutablePointer<RunFrame>

/// Whether a wait has to look at what waits for the common modes, because its mode has come to them (S-WAKE-15).
enum CommonState: UInt8 {
    /// The mode was none of them when the pass began.
    case unseen = 0
    /// A callback on the loop's thread has made it one since: requests alone end the wait.
    case byOwnThread
    /// The pass has looked at what there is, or a look of its wait has.
    case seen
}

/// Why a run ended, with the values of `RLRunResult`.
enum RunResult: Int32 {
    case finished = 1
    case stopped = 2
    case timedOut = 3
    case handledSource = 4
}

/// What a wait ended with, or what a poll found: the one event that a pass serves.
enum Event {
    /// Nothing, a wake-up, a stop, or the deadline: no action.
    case none
    case timers
    case port(token: UInt64, ready: Readiness)
    /// The inbox that has been ready longest.
    case inbox
    case mainQueue
}

/// How the wait of a pass went.
struct Wait {
    var event: Event
    var kind: Kind

    enum Kind {
        /// The main dispatch queue is served without a wait (P8).
        case skipped
        /// A poll (P7): no observers are called.
        case polled
        case waited
    }
}

/// What the first half of a pass, up to its wait, leaves for the second.
struct HalfPass {
    /// P5 performed a source: the wait is a poll.
    var handledSource: Bool
    /// The main dispatch queue is ready and served without a wait (P8).
    var skipsWait: Bool
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The loop's clock; read again only if client code ran since the last reading.
    @inline(always)
    func readClock(_ frame: RunFramePointer) -> Int64 {
        if pointee.isClockStale || frame.pointee.now == 0 {
            pointee.isClockStale = false
            frame.pointee.now = time
        }
        return frame.pointee.now
    }
}
