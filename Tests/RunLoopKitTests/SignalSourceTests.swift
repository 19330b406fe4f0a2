// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// Sequences of signals and sources of signals together. Each test uses a signal of its own.
@Suite(.timeLimit(.minutes(10))) struct SignalSourceTests {
    private func source(_ signal: CInt, _ thread: LoopThread, _ report: @escaping @Sendable () -> Void) throws -> RunLoop.Source {
        let source = try RunLoop.Source(onSignal: signal) { _, _ in report() }
        thread.loop.add(source, forMode: .common)
        return source
    }

    @Test("A source of a signal goes on when a sequence that came before it is dropped: S-KEV-2, S-KEV-3")
    func sequenceFirst() async throws {
        let thread = LoopThread()
        var stream: LoopSequence<CInt>? = thread.loop.signals(SIGALRM)
        let (reports, continuation) = AsyncStream.makeStream(of: Void.self)
        let source = try source(SIGALRM, thread) { continuation.yield() }
        withExtendedLifetime(stream) {}
        stream = nil
        var iterator = reports.makeAsyncIterator()
        for _ in 0..<3 {
            kill(getpid(), SIGALRM)
            #expect(await iterator.next() != nil)
        }
        source.invalidate()
        thread.end()
    }

    @Test("A source of a signal goes on when a sequence that came after it is dropped, and both get the signal: S-KEV-2, S-KEV-3")
    func sourceFirst() async throws {
        let thread = LoopThread()
        let (reports, continuation) = AsyncStream.makeStream(of: Void.self)
        let source = try source(SIGVTALRM, thread) { continuation.yield() }
        var iterator = reports.makeAsyncIterator()
        do {
            let stream = thread.loop.signals(SIGVTALRM)
            for _ in 0..<3 {
                kill(getpid(), SIGVTALRM)
                #expect(await iterator.next() != nil)
                for await number in stream {
                    #expect(number == SIGVTALRM)
                    break
                }
            }
        }
        kill(getpid(), SIGVTALRM)
        #expect(await iterator.next() != nil)
        source.invalidate()
        signal(SIGVTALRM, SIG_IGN)
        thread.end()
    }
}
