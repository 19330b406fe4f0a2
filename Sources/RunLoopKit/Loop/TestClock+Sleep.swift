// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// Tasks that sleep by a clock.
//
// On the thread of a loop with the clock a sleep is a timer of that loop and no more. Elsewhere it stands in the clock's list, and
// whoever moves the clock by this class ends it when its instant has come. Each loop with the clock has a timer for it besides, so that
// the loop comes to that instant (S-CLK-5) and an automatic clock goes there (S-CLK-9): one loop's would not do, because that loop may
// not run while others do.

extension TestClock {
    /// A loop that was given the clock. An object, because the compiler copies a weak property of a structure wrongly.
    final class KnownLoop: Sendable {
        weak let loop: RunLoop?
        init(_ loop: RunLoop) { self.loop = loop }
    }

    struct Outside {
        var loops: [KnownLoop] = []
        /// The tasks that sleep outside of loops with the clock.
        var sleepers = SleeperQueue()
    }

    /// Suspends the task until the clock has come to an instant.
    ///
    /// The sleep is a timer of the calling thread's loop, if that goes by the clock, as on the loop's executor. Elsewhere any loop
    /// that was given the clock wakes the task, and so does moving the clock.
    ///
    /// `Task.sleep`, and code that is generic over clocks, leave the caller's actor before they sleep, and may miss instants on the way
    /// of a large move. For them, let the task prefer the executor of the actor's loop:
    /// `withTaskExecutorPreference(loop.executor) { try await Task.sleep(for: .seconds(1), clock: clock) }`.
    ///
    /// - Parameters:
    ///   - deadline: one that has come does not suspend for longer than a pass.
    ///   - tolerance: see ``Timer/tolerance``.
    /// - Throws: `CancellationError` when the task is cancelled; ``RunLoop/ThreadEndedError`` if the thread of the calling thread's
    ///   loop ends before.
    // On the caller's executor: what a sleep's end resumes is queued there before the loop's time goes on.
    nonisolated(nonsending) public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try await suspend(Sleeper(deadline, tolerance, by: reference), isolation: #isolation)
    }

    // The closures below keep the isolation because they use it; in the function above they would be the global executor's. A continuation
    // resumes its task there first, or on the executor that the task prefers, and goes to the actor from there. So on a loop with the
    // clock the task prefers that loop for the length of the sleep.
    private func suspend(_ sleeper: Sleeper, isolation: isolated (any Actor)?) async throws {
        let executor = currentLoop?.executor
        try await withTaskCancellationHandler {
            try await withTaskExecutorPreference(executor, isolation: isolation) {
                try await withCheckedThrowingContinuation(isolation: isolation) { continuation in
                    if sleeper.begin(LoopContinuation(anywhere: continuation)) { schedule(sleeper) }
                }
            }
        } onCancel: {
            sleeper.end(throwing: CancellationError())
        }
    }

    /// The calling thread's loop, if it goes by the clock.
    private var currentLoop: RunLoop? {
        guard let current = RLGetCurrentIfMade(), RLGetClock(current) == reference else { return nil }
        return RunLoop.wrapping(current)
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

    private func schedule(_ sleeper: Sleeper) {
        if let loop = currentLoop {
            sleeper.setTimer(on: loop, of: nil) { sleeper.end(throwing: RunLoop.ThreadEndedError()) }
            return
        }
        let number = outside.withLock { $0.sleepers.insert(sleeper) }
        sleeper.whenOver { [weak self] in
            let sleeper = self?.outside.withLock { $0.sleepers.remove(number) }
            _ = sleeper
        }
        // In this order: a loop that is given the clock, and a move of it, find the task in the list, or are found here.
        for known in outside.withLock({ $0.loops }) { setTimer(for: sleeper, on: known) }
        if Instant(seconds: RLClockGetTime(reference)) >= sleeper.deadline { sleeper.end(throwing: nil) }
    }

    /// Has a loop with the clock come to the end of a sleep.
    private func setTimer(for sleeper: Sleeper, on known: KnownLoop) {
        guard let loop = known.loop, serves(loop), sleeper.takeTimer(on: known) else { return }
        let timer = sleeper.setTimer(on: loop, of: known) { sleeper.leaveTimer(on: known) }
        // It has given the clock back meanwhile: with the timer in it, it could not. It is a new known loop when it takes the clock again.
        if RLGetClock(loop.reference) != reference { timer.invalidate() }
    }

    /// Whether a loop has the clock now, and its thread lives.
    private func serves(_ loop: RunLoop) -> Bool {
        RLGetClock(loop.reference) == reference && loop.knownExecutor.load()?.hasEnded != true
    }

    /// A loop has got the clock. Loop's thread.
    func serveSleepers(on loop: RunLoop) {
        let known = KnownLoop(loop)
        // Not under the lock: what is loaded from a weak reference may become the last one.
        let old = outside.withLock { $0.loops }.filter { $0.loop.map { $0 == loop || !serves($0) } ?? true }
        let dropped = Set(old.map { ObjectIdentifier($0) })
        let sleepers = outside.withLock { outside in
            outside.loops.removeAll { dropped.contains(ObjectIdentifier($0)) }
            outside.loops.append(known)
            return outside.sleepers.all
        }
        for entry in sleepers.sorted(by: { $0.key < $1.key }) { setTimer(for: entry.value, on: known) }
        withExtendedLifetime(old) {}
    }

    /// The clock was moved.
    func wakeSleepers() {
        let now = Instant(seconds: RLClockGetTime(reference))
        for sleeper in outside.withLock({ $0.sleepers.takeDue(at: now) }) { sleeper.end(throwing: nil) }
    }
}

/// A task that sleeps by a test clock. It is resumed once: by its time, by a cancellation, or by the end of the loop's thread.
// Sendable: what is not constant is behind the lock.
final class Sleeper: @unchecked Sendable {
    private struct State {
        var continuation: LoopContinuation<Void, any Error>?
        var isOver = false
        /// The loops that have a timer for it, or are about to get one; of a task that sleeps outside of loops.
        var loops: [TestClock.KnownLoop] = []
        /// What is done at the end, and the loop whose timer it is about.
        var endings: [(loop: TestClock.KnownLoop?, call: @Sendable () -> Void)] = []
    }
    private let state = Locked(State())
    let deadline: TestClock.Instant
    private let tolerance: Duration?
    /// The clock's, compared and not used.
    private let clock: OpaquePointer

    init(_ deadline: TestClock.Instant, _ tolerance: Duration?, by clock: OpaquePointer) {
        self.deadline = deadline
        self.tolerance = tolerance
        self.clock = clock
    }

    /// False if it is over already; then the continuation is resumed.
    func begin(_ continuation: LoopContinuation<Void, any Error>) -> Bool {
        let isOver = state.withLock { state in
            if !state.isOver { state.continuation = continuation }
            return state.isOver
        }
        if isOver { continuation.resume(throwing: CancellationError()) }
        return !isOver
    }

    /// Has something done at the end of the sleep; now, if that is over already.
    func whenOver(of loop: TestClock.KnownLoop? = nil, _ ending: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            if !state.isOver { state.endings.append((loop, ending)) }
            return state.isOver
        }
        if isOver { ending() }
    }

    func end(throwing error: (any Error)?) {
        let (continuation, endings) = state.withLock { state in
            defer { (state.continuation, state.endings, state.isOver) = (nil, [], true) }
            return (state.continuation, state.endings)
        }
        for ending in endings { ending.call() }
        if let error { continuation?.resume(throwing: error) } else { continuation?.resume() }
    }

    /// Whether the caller is to see to the loop's timer.
    func takeTimer(on loop: TestClock.KnownLoop) -> Bool {
        state.withLock { state in
            if state.isOver || state.loops.contains(where: { $0 === loop }) { return false }
            state.loops.append(loop)
            return true
        }
    }

    /// The loop's thread ends.
    func leaveTimer(on loop: TestClock.KnownLoop) {
        // Not freed under the lock: the closures have references to the loop.
        let old = state.withLock { state in
            defer {
                state.loops.removeAll { $0 === loop }
                state.endings.removeAll { $0.loop === loop }
            }
            return state.endings
        }
        withExtendedLifetime(old) {}
    }

    /// Has a loop end the sleep.
    ///
    /// - Parameters:
    ///   - known: what `takeTimer` was called with.
    ///   - threadEnds: called if the loop's thread ends before.
    @discardableResult
    func setTimer(on loop: RunLoop, of known: TestClock.KnownLoop?, threadEnds: @escaping @Sendable () -> Void) -> Timer {
        let timer = Timer(fire: deadline, interval: Duration.zero, repeats: false, clock: .wall) { [self] timer in
            // The loop has given the clock back before it got the timer, and goes by another time.
            if RLGetClock(RLGetCurrent()) != clock { return timer.invalidate() }
            let now = TestClock.Instant(seconds: RLAbsoluteTimeGetCurrent())
            if now < deadline {
                // The clock was set back meanwhile, or the deadline is later than the latest date (S-TMR-6), but no delay is.
                timer.fireSeconds = deadline.seconds
                if timer.fireSeconds <= now.seconds { timer.rearm(after: now.duration(to: deadline)) }
                return
            }
            end(throwing: nil)
        }
        timer.isReusable = true
        if let tolerance { timer.tolerance = tolerance }
        let executor = loop.executor
        let handler = executor.atEnd(threadEnds)
        whenOver(of: known) {
            executor.forget(handler: handler)
            timer.invalidate()
        }
        loop.add(timer, forMode: .common)
        return timer
    }
}
