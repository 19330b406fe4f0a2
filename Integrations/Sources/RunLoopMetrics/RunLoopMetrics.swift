// SPDX-License-Identifier: MIT
public import CoreMetrics
public import RunLoopKit

internal import Synchronization

/// Reports the statistics of a loop to swift-metrics: counters of what the loop did, and while it measures its call-outs
/// (`RunLoop.measuresCallOuts`) recorders of how long these took.
///
///     let metrics = RunLoopMetrics(of: service.thread.loop, label: "sockets")
///     let timer = Timer.scheduledTimer(withTimeInterval: .seconds(10), repeats: true) { _ in metrics.report() }
///
/// - Threads: any. What happened between two reports is counted once, whichever thread reports it. No lock is held: a backend may report
///   again, and so may the child of `fork`, whatever another thread was reporting in the parent.
public final class RunLoopMetrics: Sendable {
    private let loop: RunLoop
    private let counters: [Part]
    private let busy: Gauge
    private let median: Gauge
    private let slow: Gauge

    /// One of the counters, and how much it was told.
    private final class Part: Sendable {
        private let counter: Counter
        private let count: @Sendable (RunLoop.Statistics) -> UInt64
        private let reported = Atomic<UInt64>(0)

        init(_ counter: Counter, _ count: @escaping @Sendable (RunLoop.Statistics) -> UInt64) {
            self.counter = counter
            self.count = count
        }

        func report(_ statistics: RunLoop.Statistics) {
            let latter = count(statistics)
            // Whoever raises the number reports what it was raised by; one that read an older number finds it higher.
            let former = reported.max(latter, ordering: .relaxed).oldValue
            // No number ever shrinks; but in the child of fork a loop of another thread has done nothing.
            if latter > former { counter.increment(by: latter - former) }
        }
    }

    /// Describes what is reported. Each name is that of a property of `RunLoop.Statistics` behind the label: `sockets.timers`.
    ///
    /// - Parameters:
    ///   - loop: the loop.
    ///   - label: what the names begin with.
    ///   - dimensions: of all metrics.
    ///   - factory: makes the metrics; the process's unless given.
    public init(
        of loop: RunLoop, label: String = "runloop", dimensions: [(String, String)] = [],
        factory: any MetricsFactory = MetricsSystem.factory
    ) {
        self.loop = loop
        let parts: [(String, @Sendable (RunLoop.Statistics) -> UInt64)] = [
            ("passes", { $0.passes }), ("waits", { $0.waits }), ("sleeps", { $0.sleeps }), ("wakeUps", { $0.wakeUps }),
            ("sources", { $0.sources }), ("ports", { $0.ports }), ("timers", { $0.timers }), ("skippedDates", { $0.skippedDates }),
            ("functions", { $0.functions }), ("requests", { $0.requests }), ("observers", { $0.observers }),
        ]
        counters = parts.map { Part(Counter(label: "\(label).\($0)", dimensions: dimensions, factory: factory), $1) }
        busy = Gauge(label: "\(label).busy", dimensions: dimensions, factory: factory)
        median = Gauge(label: "\(label).callOut.median", dimensions: dimensions, factory: factory)
        slow = Gauge(label: "\(label).callOut.p99", dimensions: dimensions, factory: factory)
    }

    /// Counts what the loop has done since the last report, or since it was made.
    ///
    /// While the loop measures its call-outs, the gauges get the part of the time that it spent in call-outs (`busy`, 0 to 1), and in
    /// seconds the median call-out and the one that 99 of 100 are not longer than.
    public func report() {
        let now = loop.statistics
        for counter in counters { counter.report(now) }
        guard loop.measuresCallOuts, now.callOuts > 0, now.accountedTime > .zero else { return }
        busy.record(min(now.callOutTime / now.accountedTime, 1))
        median.record(loop.quantile(0.5, of: .callOuts) / .seconds(1))
        slow.record(loop.quantile(0.99, of: .callOuts) / .seconds(1))
    }
}
