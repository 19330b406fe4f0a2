// SPDX-License-Identifier: MIT
import CoreMetrics
import Glibc
import Logging
import MetricsTestKit
import RunLoopKit
import RunLoopLogging
import RunLoopMetrics
import RunLoopService
import Synchronization
import Testing

/// Keeps what is logged.
private final class Lines: Sendable {
    let lines = Mutex<[String]>([])

    struct Handler: LogHandler {
        let keeper: Lines
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) { keeper.lines.withLock { $0.append("\(event.level) \(event.source): \(event.message)") } }
    }
}

/// Counters that have the metrics report again whenever they are told something.
private struct ReportingFactory: MetricsFactory {
    final class Keeper: Sendable {
        let metrics = Mutex<RunLoopMetrics?>(nil)
        let counts = Mutex<[String: Int64]>([:])
        let reports = Mutex(0)
    }
    let keeper = Keeper()

    final class Reporter: CounterHandler {
        let label: String
        let keeper: Keeper
        init(_ label: String, _ keeper: Keeper) { (self.label, self.keeper) = (label, keeper) }
        func increment(by amount: Int64) {
            keeper.counts.withLock { $0[label, default: 0] += amount }
            keeper.reports.withLock { $0 += 1 }
            keeper.metrics.withLock { $0 }?.report()
        }
        func reset() {}
    }

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler { Reporter(label, keeper) }
    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler { NOOPMetricsHandler.instance }
    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler { NOOPMetricsHandler.instance }
    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler { NOOPMetricsHandler.instance }
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}
    func destroyMeter(_ handler: any MeterHandler) {}
}

@Suite(.timeLimit(.minutes(1))) struct LogAndMetricsTests {
    /// S-ARG-9: a line of the library comes to the logger. The common modes' name is none to run in, which the library says once
    /// (S-MODE-19).
    @Test func theLibraryLogsToALogger() {
        let keeper = Lines()
        RunLoop.log(to: Logger(label: "library", factory: { _ in Lines.Handler(keeper: keeper) }), level: .error)
        defer { RunLoop.setLogHandler(nil) }
        RunLoop.current.run(mode: .common)
        RunLoop.current.run(mode: .common)
        let lines = keeper.lines.withLock { $0 }
        #expect(lines.count == 1)
        #expect(lines.first?.hasPrefix("error RunLoop: ") == true)
    }

    /// Counters get what the loop did between two reports, and a report without news adds nothing.
    @Test func countersGetWhatTheLoopDid() async throws {
        let factory = TestMetrics()
        let thread = RunLoopThread(name: "metrics")
        try thread.start()
        let metrics = RunLoopMetrics(of: thread.loop, label: "test", factory: factory)
        metrics.report()
        let functions = try factory.expectCounter("test.functions")
        let before = functions.totalValue
        let (done, end) = AsyncStream<Void>.makeStream()
        for _ in 0 ..< 10 { thread.loop.perform {} }
        thread.loop.perform { end.yield() }
        thread.loop.wakeUp()
        var ends = done.makeAsyncIterator()
        _ = await ends.next()
        await thread.finish()
        metrics.report()
        #expect(functions.totalValue >= before + 10)
        let after = functions.totalValue
        metrics.report()
        #expect(functions.totalValue == after)
    }

    /// S-FORK-1: in the child of a fork another thread's loop has done nothing, and a report adds nothing.
    @Test func theChildOfForkReportsNothingOfAnotherThreadsLoop() async throws {
        let thread = RunLoopThread(name: "not in the child")
        try thread.start()
        let metrics = RunLoopMetrics(of: thread.loop, label: "test", factory: TestMetrics())
        try await thread.loop.call {}
        // The second has no news, as in the child, which makes no first use of a type so.
        metrics.report()
        metrics.report()
        // Swift declares no fork.
        let fork = unsafeBitCast(try #require(dlsym(nil, "fork")), to: (@convention(c) () -> pid_t).self)
        let child = fork()
        if child == 0 {
            alarm(20)
            metrics.report()
            _exit(0)
        }
        var status: CInt = -1
        #expect(waitpid(child, &status, 0) == child)
        #expect(status == 0)
        await thread.finish()
    }

    /// A backend that reports again while it is told finds no lock held, and nothing is counted twice.
    @Test func aBackendMayReport() throws {
        let factory = ReportingFactory()
        let metrics = RunLoopMetrics(of: .current, label: "test", factory: factory)
        factory.keeper.metrics.withLock { $0 = metrics }
        for _ in 0 ..< 5 {
            RunLoop.current.perform {}
            RunLoop.current.run(mode: .default, before: .now)
        }
        let functions = RunLoop.current.statistics.functions
        metrics.report()
        #expect(factory.keeper.counts.withLock { $0["test.functions"] } == Int64(functions))
        #expect(factory.keeper.reports.withLock { $0 } > 0)
        factory.keeper.metrics.withLock { $0 = nil }
    }

    /// The child of fork reports too, whatever another thread was reporting in the parent.
    @Test func childReportsWhileTheParentDoes() async throws {
        let thread = RunLoopThread(name: "reporting")
        try thread.start()
        let metrics = RunLoopMetrics(of: thread.loop, label: "test", factory: NOOPMetricsHandler.instance)
        metrics.report()
        let reporter = RunLoopThread { thread in while !thread.isEnding { metrics.report() } }
        try reporter.start()
        let fork = unsafeBitCast(try #require(dlsym(nil, "fork")), to: (@convention(c) () -> pid_t).self)
        var failures = 0
        for _ in 0 ..< 100 {
            let child = fork()
            if child == 0 {
                alarm(20)
                metrics.report()
                _exit(0)
            }
            var status: CInt = -1
            if waitpid(child, &status, 0) != child || status != 0 { failures += 1 }
        }
        #expect(failures == 0)
        await reporter.finish()
        await thread.finish()
    }

    /// While call-outs are measured, the gauges tell how long they took.
    @Test func gaugesTellOfMeasuredCallOuts() async throws {
        let factory = TestMetrics()
        let thread = RunLoopThread(name: "measured")
        try thread.start()
        thread.loop.measuresCallOuts = true
        let (done, end) = AsyncStream<Void>.makeStream()
        thread.loop.perform { usleep(2000) }
        thread.loop.perform { end.yield() }
        thread.loop.wakeUp()
        var ends = done.makeAsyncIterator()
        _ = await ends.next()
        let metrics = RunLoopMetrics(of: thread.loop, label: "test", factory: factory)
        metrics.report()
        let slow = try factory.expectGauge("test.callOut.p99")
        #expect((slow.lastValue ?? 0) >= 0.002)
        #expect(try factory.expectGauge("test.busy").lastValue ?? 0 > 0)
        await thread.finish()
    }
}
