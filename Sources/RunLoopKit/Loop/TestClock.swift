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
/// - Threads: all members may be used from any thread.
/// - Foundation, CF: no counterpart.
// Sendable: a constant reference to an object of the C library, whose functions may be called from any thread, and what is behind locks.
public final class TestClock: Clock, @unchecked Sendable {
    /// A date that the clock may show, to the microsecond.
    public struct Instant: InstantProtocol, TimerDate, Hashable, Sendable {
        /// Since the beginning of 2001.
        fileprivate let microseconds: Int64

        fileprivate init(microseconds: Int64) { self.microseconds = microseconds }
        fileprivate init(seconds: RLAbsoluteTime) { microseconds = Int64((seconds * 1e6).rounded()) }
        fileprivate var seconds: RLAbsoluteTime { Double(microseconds) / 1e6 }

        /// The instant so much later, to the nearest microsecond.
        public func advanced(by duration: Duration) -> Instant {
            let (seconds, attoseconds) = duration.clamped.components
            let fraction = (attoseconds + (attoseconds < 0 ? -500_000_000_000 : 500_000_000_000)) / 1_000_000_000_000
            return Instant(microseconds: microseconds + seconds * 1_000_000 + fraction)
        }

        /// How much later another instant is.
        public func duration(to other: Instant) -> Duration { .microseconds(other.microseconds - microseconds) }

        /// Whether one instant is earlier than another.
        public static func < (one: Instant, other: Instant) -> Bool { one.microseconds < other.microseconds }

        /// What a timer is made of; a repeating one takes a tenth of a millisecond in place of zero or less (S-NSTM-4).
        public static func plan(fire date: Instant, interval: Duration, repeats: Bool) -> Timer.Plan {
            Timer.Plan(seconds: date.seconds, intervalSeconds: interval.inSeconds, repeats: repeats)
        }
    }

    /// The clock of the C library. This object owns one reference to it.
    private let reference: RLClockRef
    private struct State {
        /// A loop that was given the clock, for tasks that sleep outside of loops.
        weak var loop: RunLoop?
        /// Tasks that sleep while no loop has the clock, by instant.
        var sleepers: [(deadline: Instant, sleeper: Sleeper)] = []
    }
    private let state = Locked(State())

    /// Makes a clock that shows the present time, in whole microseconds, and stands still (S-CLK-1).
    public init() { reference = RLClockCreateManual() }

    deinit { RLRelease(RLTypeRef(reference)) }

    /// The clock as the C functions take it, an `RLClockRef`; valid as long as this object is.
    public func getRLClock() -> OpaquePointer { reference }

    /// The clock's time; on the thread of a loop that is on its way there, the loop's.
    public var now: Instant {
        Instant(seconds: isCurrentLoops ? RLAbsoluteTimeGetCurrent() : RLClockGetTime(reference))
    }

    /// A microsecond: instants are read to the nearest.
    public var minimumResolution: Duration { .microseconds(1) }

    /// Whether the calling thread's loop goes by the clock.
    private var isCurrentLoops: Bool { RLGetClock(RLGetCurrentIfMade()) == reference }

    // MARK: Moving it

    /// Moves the clock forward, and returns when its loops have done what was due on the way (S-CLK-5 to 7).
    ///
    /// The calling thread's loop, if it goes by the clock and does not run, is run in its default mode. Loops of other threads
    /// are waited for; a callback of theirs that waits for the calling thread waits for ever. In a callback of a loop with
    /// the clock that loop follows when the callback has returned. Tasks that slept are resumed. Of these, the ones on the
    /// executors of such loops have gone on when the call returns, if they sleep by this class's own methods; `Task.sleep`
    /// with a clock resumes elsewhere first.
    ///
    /// - Parameter duration: zero and less: nothing is moved, and what is due already is done.
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

    /// Lets the clock go on by itself whenever all loops that run with it sleep and none has a descriptor that is ready (S-CLK-9).
    public func setAutomatic(_ isAutomatic: Bool) { RLClockSetAutomatic(reference, isAutomatic) }

    // MARK: Sleeping by it

    /// Suspends the task until the clock has come to an instant.
    ///
    /// The sleep is a timer of the calling thread's loop, if that goes by the clock, as on the loop's executor; else of a loop
    /// that was given it; where no loop has it, moving the clock ends the sleep.
    ///
    /// - Parameters:
    ///   - deadline: one that has come does not suspend for longer than a pass.
    ///   - tolerance: see ``Timer/tolerance``.
    /// - Throws: `CancellationError` when the task is cancelled; ``RunLoop/ThreadEndedError`` if the loop's thread ends before.
    // On the caller's executor: what a sleep's end resumes is queued there before the loop's time goes on.
    nonisolated(nonsending) public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        let sleeper = Sleeper()
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                if sleeper.begin(continuation) { schedule(sleeper, deadline, tolerance) }
            }
        } onCancel: {
            sleeper.end(throwing: CancellationError())
        }
    }

    /// The same for so long from now.
    ///
    /// - Parameters:
    ///   - duration: zero and less do not suspend for longer than a pass.
    ///   - tolerance: see ``Timer/tolerance``.
    /// - Throws: as ``sleep(until:tolerance:)`` does.
    nonisolated(nonsending) public func sleep(for duration: Duration, tolerance: Duration? = nil) async throws {
        try await sleep(until: now.advanced(by: duration), tolerance: tolerance)
    }

    private func schedule(_ sleeper: Sleeper, _ deadline: Instant, _ tolerance: Duration?) {
        let current = RLGetCurrentIfMade()
        let own = RLGetClock(current) == reference ? RunLoop.wrapping(current!) : nil
        guard let loop = own ?? state.withLock({ $0.loop }), RLGetClock(loop.reference) == reference else {
            state.withLock { state in
                let index = state.sleepers.firstIndex { deadline < $0.deadline } ?? state.sleepers.endIndex
                state.sleepers.insert((deadline, sleeper), at: index)
            }
            // The clock may have been moved meanwhile.
            return wakeSleepers()
        }
        let timer = Timer(fire: deadline, interval: Duration.zero, repeats: false) { _ in sleeper.end(throwing: nil) }
        if let tolerance { timer.tolerance = tolerance }
        let executor = loop.executor
        let handler = executor.atEnd { sleeper.end(throwing: RunLoop.ThreadEndedError()) }
        sleeper.stop = {
            executor.forget(handler: handler)
            timer.invalidate()
        }
        loop.add(timer, forMode: .common)
    }

    private func wakeSleepers() {
        let now = Instant(seconds: RLClockGetTime(reference))
        let due = state.withLock { state in
            let count = state.sleepers.firstIndex { now < $0.deadline } ?? state.sleepers.endIndex
            let due = state.sleepers[..<count]
            state.sleepers.removeFirst(count)
            return due
        }
        for entry in due { entry.sleeper.end(throwing: nil) }
    }

    /// Gives the calling thread's loop the clock.
    fileprivate func give(to loop: RunLoop) -> Bool {
        guard RLSetClock(loop.reference, reference) else { return false }
        state.withLock { $0.loop = loop }
        return true
    }
}

/// A task that sleeps by a test clock. It is resumed once: by its time, by a cancellation, or by the end of the loop's thread.
// Sendable: everything is behind the lock.
private final class Sleeper: @unchecked Sendable {
    private struct State {
        var continuation: CheckedContinuation<Void, any Error>?
        var isOver = false
        var stop: (@Sendable () -> Void)?
    }
    private let state = Locked(State())

    /// False if it is over already; then the continuation is resumed.
    func begin(_ continuation: CheckedContinuation<Void, any Error>) -> Bool {
        let isOver = state.withLock { state in
            if !state.isOver { state.continuation = continuation }
            return state.isOver
        }
        if isOver { continuation.resume(throwing: CancellationError()) }
        return !isOver
    }

    /// What takes its timer away. Where the sleep is over already that is done at once.
    var stop: (@Sendable () -> Void)? {
        get { nil }
        set {
            let isOver = state.withLock { state in
                if !state.isOver { state.stop = newValue }
                return state.isOver
            }
            if isOver { newValue?() }
        }
    }

    func end(throwing error: (any Error)?) {
        let (continuation, stop) = state.withLock { state in
            defer { (state.continuation, state.stop, state.isOver) = (nil, nil, true) }
            return (state.continuation, state.stop)
        }
        stop?()
        if let error { continuation?.resume(throwing: error) } else { continuation?.resume() }
    }
}

extension RunLoop {
    /// Gives this loop a clock to go by, or with nil the system's.
    ///
    /// - Parameter clock: the loop keeps it.
    /// - Returns: false, with nothing changed, for another thread's loop, while the loop runs, and while it has timers (S-CLK-2).
    /// - Threads: the loop's.
    @available(*, noasync, message: "a loop takes a clock while it does not run")
    @discardableResult
    public func setClock(_ clock: TestClock?) -> Bool {
        clock.map { $0.give(to: self) } ?? RLSetClock(reference, nil)
    }

    /// Calls a closure on a thread of its own, whose loop goes by a clock, and waits for it.
    ///
    /// What the closure leaves in the loop goes with the thread, so one test leaves nothing to the next.
    ///
    /// - Parameters:
    ///   - clock: the loop's clock, which the closure may move.
    ///   - body: is called once; `RunLoop.current` is the loop.
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
            // The caller waits for the thread, so the closure is used by one thread at a time.
            nonisolated(unsafe) let call = call
            let thread = RunLoopThread(name: "test clock") { _ in
                _ = clock.give(to: LoopRegistry.current())
                call()
            }
            do { try thread.start() } catch { fatalError("RunLoopKit: no thread for RunLoop.with(clock:)") }
            thread.join()
        }
        guard let value = outcome.value else { fatalError("RunLoopKit: the closure of RunLoop.with(clock:) ended its thread") }
        return try value.get()
    }

    /// The dates of a repeating timer of this loop by a clock that the loop goes by, as a sequence; otherwise as
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
    ) -> AsyncStream<TestClock.Instant> {
        let (stream, continuation) = AsyncStream.makeStream(of: TestClock.Instant.self, bufferingPolicy: .bufferingNewest(1))
        let timer = Timer(fire: clock.now.advanced(by: interval), interval: interval, repeats: true) { timer in
            continuation.yield(TestClock.Instant(seconds: timer.fireSeconds))
        }
        timer.tolerance = tolerance
        stop(continuation) { timer.invalidate() }
        add(timer, forMode: mode)
        return stream
    }
}

/// Sendable: written by the thread that the reader waits for.
private final class Outcome<Value, Failure: Error>: @unchecked Sendable {
    var value: Result<Value, Failure>?
}
