// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// A clock that the program moves, for loops in place of the system's and for tasks that sleep by it.
///
/// A test gives it to a loop, and what is due in an hour happens as soon as the test has moved the clock by an hour, each thing at the
/// very instant it was set for:
///
///     let clock = TestClock()
///     RunLoop.with(clock: clock) {
///         let report = HourlyReport(on: .current)     // adds timers
///         clock.advance(by: .seconds(3 * 3600))       // returns when they have fired
///         #expect(report.count == 3)
///     }
///
/// Timers, deadlines of runs and delayed requests of a loop with the clock go by it; descriptors, signals and what waits
/// without the loop do not (S-CLK-3). An instant of `ContinuousClock` that a timer is made with on the loop's thread means as long from
/// now on this clock; one given on another thread means that date. Instants of this clock are exact everywhere.
///
/// What gives or takes instants of `ContinuousClock` does not know how far the program has moved this clock meanwhile: a limit that is used for
/// several waits counts from each of them, and ``Timer/fireDate``, set to what was read before a move, means as long from the setting on.
///
/// - Threads: all members may be used from any thread.
/// - Foundation, CF: no counterpart.
// Sendable: a constant reference to an object of the C library, whose functions may be called from any thread, and what is behind locks.
public final class TestClock: Clock, @unchecked Sendable {
    /// A date that the clock may show, to the microsecond.
    public struct Instant: InstantProtocol, TimerDate, Hashable, Sendable {
        /// Since the beginning of 2001.
        private let microseconds: Int64

        private init(microseconds: Int64) { self.microseconds = microseconds }
        init(seconds: RLAbsoluteTime) { microseconds = Int64((seconds * 1e6).rounded()) }
        var seconds: RLAbsoluteTime { Double(microseconds) / 1e6 }

        /// The instant that is later by a duration, to the nearest microsecond; at most the last one that an instant can be, and at least
        /// the first.
        public func advanced(by duration: Duration) -> Instant {
            let (added, rest) = duration.attoseconds.quotientAndRemainder(dividingBy: 1_000_000_000_000)
            let rounding: Int128 = rest >= 500_000_000_000 ? 1 : rest <= -500_000_000_000 ? -1 : 0
            return Instant(microseconds: Int64(clamping: Int128(microseconds) + added + rounding))
        }

        /// How much later another instant is.
        // A duration has room for the difference of any two, which a number of microseconds has not.
        public func duration(to other: Instant) -> Duration { .microseconds(other.microseconds) - .microseconds(microseconds) }

        /// Whether one instant is earlier than another.
        public static func < (one: Instant, other: Instant) -> Bool { one.microseconds < other.microseconds }

        /// What a timer is made of; a repeating one takes a tenth of a millisecond in place of zero or less (S-NSTM-4).
        public static func plan(fire date: Instant, interval: Duration, repeats: Bool) -> Timer.Plan {
            Timer.Plan(seconds: date.seconds, intervalSeconds: interval.inSeconds, repeats: repeats)
        }
    }

    /// The clock of the C library. This object owns one reference to it.
    let reference: RLClockRef
    /// What tasks that sleep outside of its loops need.
    let outside = Locked(Outside())

    /// Makes a clock that shows the present time, in whole microseconds, and stands still (S-CLK-1).
    public init() { reference = RLClockCreateManual() }

    deinit { RLRelease(RLTypeRef(reference)) }

    /// The clock as the C functions take it, an `RLClockRef`; valid as long as this object lives.
    public func getRLClock() -> OpaquePointer { reference }

    /// The clock's time; on the thread of a loop that has not reached it yet, the loop's time.
    public var now: Instant {
        Instant(seconds: isCurrentLoops ? RLAbsoluteTimeGetCurrent() : RLClockGetTime(reference))
    }

    /// A microsecond: instants are rounded to the nearest one.
    public var minimumResolution: Duration { .microseconds(1) }

    /// Whether the calling thread's loop goes by the clock.
    private var isCurrentLoops: Bool { RLGetClock(RLGetCurrentIfMade()) == reference }

    // MARK: Moving it

    /// Moves the clock forward, and returns when its loops have done what was due on the way (S-CLK-5 to 7).
    ///
    /// The calling thread's loop, if it uses the clock and is not running, is run in its default mode. The call waits for
    /// loops of other threads; a callback of theirs that waits for the calling thread waits for ever. In a callback of a loop with
    /// the clock that loop follows when the callback has returned. Tasks that slept are resumed. Of these, the ones on the
    /// executors of such loops have gone on when the call returns, if they sleep by this class's own methods; `Task.sleep`
    /// with a clock resumes elsewhere first.
    ///
    /// - Parameter duration: zero and less: nothing is moved, and what is already due is done.
    /// - Threads: any. CF: no counterpart.
    public func advance(by duration: Duration) {
        RLClockAdvance(reference, duration.clamped.inSeconds)
        wakeSleepers()
    }

    /// Moves the clock to the next instant at which one of its loops has something to do (S-CLK-8).
    ///
    /// - Returns: false if there is none.
    @discardableResult
    public func advanceToNext() -> Bool {
        defer { wakeSleepers() }
        return RLClockAdvanceToNext(reference)
    }

    /// Makes the clock move by itself whenever all loops that run with it sleep and none has a descriptor that is ready (S-CLK-9).
    public func setAutomatic(_ isAutomatic: Bool) { RLClockSetAutomatic(reference, isAutomatic) }

    /// Sets the date that the clock shows, forward or back, as an administrator sets the system's (S-CLK-10).
    ///
    /// Timers that are set keep the time that is left, except those by the wall clock. Tasks that sleep until a date follow it, so
    /// that one whose date has come wakes up; on a loop's executor that is when its loop next runs.
    ///
    /// - Parameter date: what ``now`` shows from now on. A date before 1970 counts as 1970.
    /// - Threads: any. CF: no counterpart.
    public func setDate(_ date: Instant) {
        RLClockSetWallTime(reference, date.seconds)
        wakeSleepers()
    }

    /// Simulates a suspension of the machine: the date moves on, the time that is left for timers does not pass (S-CLK-10).
    ///
    /// Timers by the boot and wall clocks come nearer, and so do the ends of sleeps.
    ///
    /// - Parameter duration: of the suspension; zero and less do nothing, nor does a suspension that begins after the year 2129 or
    ///   makes it more than 126 years in all.
    /// - Threads: any. CF: no counterpart.
    public func suspend(for duration: Duration) {
        RLClockSuspend(reference, duration.clamped.inSeconds)
        wakeSleepers()
    }

    /// Gives the calling thread's loop the clock.
    fileprivate func give(to loop: RunLoop) -> Bool {
        guard RLSetClock(loop.reference, reference) else { return false }
        // Only the object knows that tasks which sleep elsewhere are to wake up here.
        loop.outliveThread()
        serveSleepers(on: loop)
        return true
    }
}

extension RunLoop {
    /// Sets the clock that this loop uses; nil is the system's.
    ///
    /// - Parameter clock: the clock, which the loop retains.
    /// - Returns: false, with nothing changed, for another thread's loop, while the loop runs, and while it has timers (S-CLK-2).
    /// - Threads: the loop's.
    @available(*, noasync, message: "a loop takes a clock while it does not run")
    @discardableResult
    public func setClock(_ clock: TestClock?) -> Bool {
        clock.map { $0.give(to: self) } ?? RLSetClock(reference, nil)
    }

    /// Calls a closure on a separate thread, whose loop uses a clock, and waits for it.
    ///
    /// What the closure leaves in the loop disappears with the thread, so one test does not affect the next. The closure is not on
    /// the caller's actor: `MainActor.assumeIsolated` ends the program there, and in code of an actor so do inner closures that functions
    /// of the standard library call, such as `map`. Write `{ @Sendable in … }` there, or call this in a `nonisolated` function.
    ///
    /// - Parameters:
    ///   - clock: the loop's clock, which the closure may move.
    ///   - body: called once; `RunLoop.current` is the loop.
    /// - Returns: what the closure returned.
    /// - Throws: what the closure threw.
    /// - Threads: any; the calling thread is blocked meanwhile.
    @available(*, noasync, message: "it blocks the calling thread")
    public static func with<Value, Failure: Error>(clock: TestClock, _ body: () throws(Failure) -> Value) throws(Failure) -> Value {
        let outcome = Outcome<Value, Failure>()
        func call() {
            do throws(Failure) { outcome.value = .success(try body()) } catch { outcome.value = .failure(error) }
        }
        withoutActuallyEscaping(call) { call in
            outcome.call = call
            let thread = RunLoopThread(name: "test clock") { _ in
                _ = clock.give(to: LoopRegistry.current())
                outcome.call?()
            }
            do { try thread.start() } catch { fatalError("RunLoopKit: no thread for RunLoop.with(clock:)") }
            thread.join()
            // Others may know the thread's object, which keeps its body.
            outcome.call = nil
        }
        guard let value = outcome.value else { fatalError("RunLoopKit: the closure of RunLoop.with(clock:) ended its thread") }
        return try value.get()
    }

    /// The dates of a repeating timer of this loop by a clock that the loop uses, as a sequence; otherwise as
    /// ``ticks(every:tolerance:forMode:)``.
    ///
    /// - Parameters:
    ///   - interval: between two dates; the first is one interval from the clock's time.
    ///   - clock: the loop's.
    ///   - tolerance: see ``Timer/tolerance``.
    ///   - mode: where the timer is added.
    /// - Returns: a sequence for one consumer.
    /// - Threads: any.
    public func ticks(
        every interval: Duration, clock: TestClock, tolerance: Duration = .zero, forMode mode: Mode = .common
    ) -> LoopSequence<TestClock.Instant> {
        let elements = LoopElements<TestClock.Instant>(keepsLastOnly: true)
        let timer = Timer(fire: clock.now.advanced(by: interval), interval: interval, repeats: true) { timer in
            let date = TestClock.Instant(seconds: timer.fireSeconds)
            elements.give(date)
        }
        timer.tolerance = tolerance
        let sequence = elements.sequence(of: self) { timer.invalidate() }
        add(timer, forMode: mode)
        return sequence
    }
}

// Sendable: the caller waits for the thread, so it is used by one thread at a time.
private final class Outcome<Value, Failure: Error>: @unchecked Sendable {
    /// As long as the caller waits.
    var call: (() -> Void)?
    var value: Result<Value, Failure>?
}
