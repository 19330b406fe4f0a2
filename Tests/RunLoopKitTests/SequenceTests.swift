// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// How many items keep the default mode of a loop going: its run ends at once if there are none.
private func isEmpty(_ loop: RunLoop) async throws -> Bool {
    try await loop.call { loop.nextTimerFireDate(forMode: .default) == nil }
}

/// Timers as sequences.
@Suite struct TickTests {
    @Test("Each element is a date of the timer; dates are an interval apart and never early: S-TMR-20, S-TMR-29")
    func dates() async throws {
        let thread = LoopThread()
        let start = ContinuousClock.now
        var dates: [ContinuousClock.Instant] = []
        for await date in thread.loop.ticks(every: .milliseconds(3)) {
            #expect(ContinuousClock.now >= date - .microseconds(50))
            dates.append(date)
            if dates.count == 5 { break }
        }
        #expect(dates[0] - start >= .milliseconds(3) - .microseconds(50))
        for (one, next) in zip(dates, dates.dropFirst()) { #expect(next - one >= .milliseconds(3) - .microseconds(100)) }
        thread.end()
    }

    @Test("Letting go of the sequence, or of its iterator, stops the timer")
    func dropped() async throws {
        let thread = LoopThread()
        do {
            let ticks = thread.loop.ticks(every: .milliseconds(1))
            #expect(try await isEmpty(thread.loop) == false)
            for await _ in ticks { break }
            #expect(try await isEmpty(thread.loop) == false)
            withExtendedLifetime(ticks) {}
        }
        #expect(try await isEmpty(thread.loop))
        // One that nobody ever iterated.
        _ = thread.loop.ticks(every: .milliseconds(1))
        #expect(try await isEmpty(thread.loop))
        thread.end()
    }

    @Test("A cancelled consumer stops the timer, and the sequence is over")
    func cancelled() async throws {
        let thread = LoopThread()
        let task = Task {
            var count = 0
            for await _ in thread.loop.ticks(every: .seconds(1000)) { count += 1 }
            return count
        }
        while try await isEmpty(thread.loop) { try await Task.sleep(for: .milliseconds(1)) }
        task.cancel()
        #expect(await task.value == 0)
        #expect(try await isEmpty(thread.loop))
        thread.end()
    }

    @Test("The end of the loop's thread ends the sequence, also one that is made afterwards")
    func threadEnds() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let ticks = loop.ticks(every: .seconds(1000))
        let signals = loop.signals(SIGUSR2)
        await thread.finish()
        for await _ in ticks { Issue.record("no tick was due") }
        for await _ in signals { Issue.record("no signal was sent") }
        for await _ in loop.ticks(every: .seconds(1000)) { Issue.record("the loop has ended") }
        for await _ in loop.signals(SIGUSR2) { Issue.record("the loop has ended") }
        for await _ in loop.readiness(of: 0) { Issue.record("the loop has ended") }
        let never = onNewThread { RunLoop.current }
        for await _ in never.ticks(every: .seconds(1000)) { Issue.record("the loop had ended before it was asked") }
    }
}

/// Descriptors as sequences.
@Suite struct ReadinessTests {
    @Test("A descriptor is reported when it is ready, and again as long as there is something left: S-FD-3")
    func reading() async throws {
        let thread = LoopThread()
        let pipe = Pipe()
        var iterator = thread.loop.readiness(of: pipe.readEnd).makeAsyncIterator()
        pipe.write(3)
        for _ in 0..<3 {
            #expect(await iterator.next() == .read)
            #expect(pipe.read(1) == 1)
        }
        let writer = Task {
            try await Task.sleep(for: .milliseconds(5))
            pipe.write(1)
        }
        #expect(await iterator.next() == .read)
        try await writer.value
        var both = thread.loop.readiness(of: pipe.writeEnd, for: [.read, .write]).makeAsyncIterator()
        #expect(await both.next() == .write)
        thread.end()
    }

    @Test("Between two calls nothing is watched, not even the kind that was not reported: S-FD-7")
    func watchesNothingBetween() async throws {
        let thread = LoopThread()
        var ends: [CInt] = [0, 0]
        socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends)
        let second = dup(ends[0])
        func reports() async throws -> UInt64 {
            try await thread.loop.call {
                let statistics = thread.loop.statistics
                return statistics.sources + statistics.ports
            }
        }
        var both = thread.loop.readiness(of: ends[0], for: [.read, .write]).makeAsyncIterator()
        #expect(await both.next() == .write)
        let before = try await reports()
        // Whoever watches the one sees what the other one sees.
        #expect(write(ends[1], "x", 1) == 1)
        var other = thread.loop.readiness(of: second).makeAsyncIterator()
        #expect(await other.next() == .read)
        #expect(try await reports() == before + 1)
        #expect(await both.next() == [.read, .write])
        thread.end()
        for descriptor in ends + [second] { close(descriptor) }
    }

    @Test("Letting go of the sequence ends the watch: the mode is empty again; so does a cancellation")
    func dropped() async throws {
        let pipe = Pipe()
        let result = onNewThread {
            let loop = RunLoop.current
            var sequence: DescriptorSequence? = loop.readiness(of: pipe.readEnd)
            let first = loop.run(mode: .default, for: .zero)
            withExtendedLifetime(sequence) {}
            sequence = nil
            return [first, loop.run(mode: .default, for: .zero)]
        }
        #expect(result == [.timedOut, .finished])
        let thread = LoopThread()
        let task = Task {
            var count = 0
            for await _ in thread.loop.readiness(of: pipe.readEnd) { count += 1 }
            return count
        }
        try await Task.sleep(for: .milliseconds(5))
        task.cancel()
        #expect(await task.value == 0)
        thread.end()
    }

    @Test("A number that is no descriptor gives an empty sequence")
    func noDescriptor() async {
        let thread = LoopThread()
        for await _ in thread.loop.readiness(of: -1) { Issue.record("nothing can be ready") }
        thread.end()
    }
}

/// Signals as sequences. Each test uses a signal of its own, since they are the process's.
@Suite struct SignalTests {
    @Test("A signal arrives at every sequence that wants it, on several loops")
    func delivery() async throws {
        let threads = [LoopThread(), LoopThread()]
        var one = threads[0].loop.signals(SIGUSR1, SIGWINCH).makeAsyncIterator()
        var two = threads[1].loop.signals(SIGUSR1).makeAsyncIterator()
        for _ in 0..<20 {
            kill(getpid(), SIGUSR1)
            #expect(await one.next() == SIGUSR1)
            #expect(await two.next() == SIGUSR1)
        }
        kill(getpid(), SIGWINCH)
        #expect(await one.next() == SIGWINCH)
        for thread in threads { thread.end() }
    }

    @Test("With the last sequence, what the program had set for the signal comes back")
    func restored() async throws {
        signal(SIGHUP, SIG_IGN)
        let thread = LoopThread()
        do {
            var one: LoopSequence<CInt>? = thread.loop.signals(SIGHUP)
            let two = thread.loop.signals(SIGHUP)
            withExtendedLifetime(one) {}
            one = nil
            kill(getpid(), SIGHUP)
            for await number in two {
                #expect(number == SIGHUP)
                break
            }
        }
        var action = sigaction()
        sigaction(SIGHUP, nil, &action)
        #expect(unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self))
        // Ignored again, so the process lives. It stays ignored: the signal waits while the threads that may take it block it,
        // and would end the process by the action that is set by then.
        kill(getpid(), SIGHUP)
        thread.end()
    }

    @Test("A signal that nobody can handle gives an empty sequence")
    func impossible() async {
        let thread = LoopThread()
        for await _ in thread.loop.signals(SIGKILL) { Issue.record("SIGKILL cannot be handled") }
        for await _ in thread.loop.signals(0) { Issue.record("0 is no signal") }
        for await _ in thread.loop.signals(1000) { Issue.record("1000 is no signal") }
        thread.end()
    }

    @Test("Sequences come and go while signals rain; nobody touches what is gone")
    func churn() async throws {
        let thread = LoopThread()
        let held = thread.loop.signals(SIGURG)
        let rain = Task.detached {
            while !Task.isCancelled {
                kill(getpid(), SIGURG)
                await Task.yield()
            }
        }
        for _ in 0..<50 {
            let other = thread.loop.signals(SIGURG)
            for await number in other {
                #expect(number == SIGURG)
                break
            }
        }
        rain.cancel()
        await rain.value
        withExtendedLifetime(held) {}
        thread.end()
    }
}
