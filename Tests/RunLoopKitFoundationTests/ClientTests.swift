// SPDX-License-Identifier: MIT
import RunLoopKitFoundation
import Testing

@_silgen_name("RLRunInMode")
private func runInMode(_ mode: UnsafePointer<CChar>, _ seconds: Double, _ returnsAfterSource: Bool) -> Int32

/// How often something was done.
private final class Count: @unchecked Sendable {
    private let lock = NSLock()
    private var number = 0
    func add() { lock.withLock { number += 1 } }
    var value: Int { lock.withLock { number } }
}

/// What was done, in order.
private final class Trace: @unchecked Sendable {
    private let lock = NSLock()
    private var words: [String] = []
    func add(_ word: String) { lock.withLock { words.append(word) } }
    var all: [String] { lock.withLock { words } }
}

/// Counts the loops that it is scheduled in.
private final class CountingStream: InputStream {
    var count: Count?

    override func schedule(in aRunLoop: Foundation.RunLoop, forMode mode: Foundation.RunLoop.Mode) { count?.add() }
}

/// Does this on a new thread of Foundation's whose loop hosts ours.
private func onHostingThread(_ body: @escaping @Sendable () -> Void) {
    let isOver = Count()
    let thread = Foundation.Thread {
        RunLoop.hostsFoundation()
        // Keeps Foundation's runs from ending.
        let timer = Foundation.Timer(timeInterval: 0.005, repeats: true) { _ in }
        Foundation.RunLoop.current.add(timer, forMode: .default)
        body()
        timer.invalidate()
        isOver.add()
    }
    thread.start()
    while isOver.value == 0 { usleep(1000) }
}

/// Foundation's loop beside ours on one thread.
@Suite struct HostingTests {
    /// A time that only a failure reaches.
    private static var limit: Date { Date(timeIntervalSinceNow: 20) }

    @Test("Notifications that are queued are posted while Foundation's loop runs, though our mode has nothing else: S-HOST-2, S-HOST-4")
    func notifications() {
        let count = Count()
        onHostingThread {
            let name = Notification.Name("HostingTests")
            let observer = Foundation.NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in count.add() }
            for style in [NotificationQueue.PostingStyle.asap, .whenIdle] {
                NotificationQueue.default.enqueue(Notification(name: name, object: "\(style)"), postingStyle: style)
            }
            let limit = HostingTests.limit
            while count.value < 2, limit.timeIntervalSinceNow > 0 {
                Foundation.RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05))
            }
            Foundation.NotificationCenter.default.removeObserver(observer)
        }
        #expect(count.value == 2)
    }

    @Test("What a timer of Foundation's enqueues is posted while Foundation's loop goes on, also what is for an idle loop: S-NQ-4, S-NQ-5, S-HOST-2",
        arguments: [NotificationQueue.PostingStyle.asap, .whenIdle])
    func enqueuedByFoundation(style: NotificationQueue.PostingStyle) {
        let count = Count()
        onHostingThread {
            let name = Notification.Name("HostingTests.\(style)")
            let observer = Foundation.NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
                count.add()
                // Ends the run of Foundation's.
                RunLoop.current.stop()
            }
            let timer = Foundation.Timer(timeInterval: 0.001, repeats: false) { _ in
                NotificationQueue.default.enqueue(Notification(name: name), postingStyle: style, coalesceMask: .none, forModes: nil)
            }
            Foundation.RunLoop.current.add(timer, forMode: .default)
            // A run ends when something of ours is served, and one in which nothing is, at the limit.
            let limit = HostingTests.limit
            while count.value == 0, limit.timeIntervalSinceNow > 0 { Foundation.RunLoop.current.run(mode: .default, before: limit) }
            Foundation.NotificationCenter.default.removeObserver(observer)
        }
        #expect(count.value == 1)
    }

    @Test("What Foundation's loop enqueues in the pass before our wait is posted before it, and what that posting gives to Foundation's is served: S-NQ-5, S-HOST-1",
        arguments: [false, true])
    func enqueuedBeforeTheWait(isQueueFirst: Bool) {
        let trace = Trace()
        let isOver = Count()
        let thread = RunLoopThread { _ in
            let name = Notification.Name("HostingTests.before \(isQueueFirst)")
            let observer = Foundation.NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
                trace.add("posted")
                Foundation.RunLoop.current.perform {
                    trace.add("served")
                    RunLoop.current.stop()
                }
            }
            func useQueue() { NotificationQueue.default.enqueue(Notification(name: .init("HostingTests.other")), postingStyle: .asap) }
            if isQueueFirst { useQueue() }
            RunLoop.hostsFoundation()
            if !isQueueFirst { useQueue() }
            let timer = Timer(timeInterval: 0.001, repeats: false) { _ in
                Foundation.RunLoop.current.perform {
                    trace.add("enqueued")
                    NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .whenIdle)
                }
            }
            RunLoop.current.add(timer, forMode: .default)
            trace.add("\(RunLoop.current.run(mode: .default, for: .seconds(20)))")
            Foundation.NotificationCenter.default.removeObserver(observer)
            isOver.add()
        }
        try! thread.start()
        while isOver.value == 0 { usleep(1000) }
        thread.join()
        #expect(trace.all == ["enqueued", "posted", "served", "stopped"])
    }

    @Test("A run that C code begins serves Foundation's loop where the mode has something of ours: S-HOST-4")
    func runOfC() {
        let count = Count()
        onHostingThread {
            let timer = Foundation.Timer(timeInterval: 0.001, repeats: true) { _ in
                count.add()
                if count.value == 3 { RunLoop.current.stop() }
            }
            Foundation.RunLoop.current.add(timer, forMode: .default)
            RunLoop.current.add(RunLoop.Source { _ in }, forMode: .default)
            _ = runInMode(RunLoop.Mode.default.rawValue, 20, false)
            timer.invalidate()
        }
        #expect(count.value >= 3)
    }

    @Test("Where the program had a foreign run of ours, Foundation's loop serves ours again when that is invalidated: S-HOST-2, S-FRN-12")
    func foreignRunOfTheProgram() {
        let (ours, theirs) = (Count(), Count())
        onHostingThread {
            guard let run = try? RunLoop.ForeignRun() else { return }
            run.prepare()
            // Not while Foundation's waits, as long as there is that run.
            let timer = Timer(timeInterval: 0, repeats: false) { _ in
                ours.add()
                RunLoop.current.stop()
            }
            RunLoop.current.add(timer, forMode: .default)
            nonisolated(unsafe) let invalidated = run
            let theirTimer = Foundation.Timer(timeInterval: 0.001, repeats: true) { _ in
                theirs.add()
                if theirs.value == 3 {
                    #expect(ours.value == 0)
                    invalidated.invalidate()
                }
            }
            Foundation.RunLoop.current.add(theirTimer, forMode: .default)
            let limit = HostingTests.limit
            while ours.value == 0, limit.timeIntervalSinceNow > 0 { Foundation.RunLoop.current.run(mode: .default, before: limit) }
            theirTimer.invalidate()
        }
        #expect(ours.value == 1 && theirs.value >= 3)
    }

    @Test("A foreign run of a program's goes on while Foundation's mode has something: S-HOST-1, S-HOST-4")
    func foreignRun() {
        let count = Count()
        onHostingThread {
            let timer = Foundation.Timer(timeInterval: 0.005, repeats: true) { _ in count.add() }
            Foundation.RunLoop.current.add(timer, forMode: .default)
            guard let run = try? RunLoop.ForeignRun() else { return }
            let limit = HostingTests.limit
            while count.value < 3, limit.timeIntervalSinceNow > 0 {
                run.prepare()
                var entry = pollfd(fd: run.descriptor, events: Int16(POLLIN), revents: 0)
                poll(&entry, 1, 100)
                _ = run.dispatch()
            }
            timer.invalidate()
        }
        #expect(count.value >= 3)
    }

    @Test("A run of Foundation's with a limit returns, though a closure of ours that it served ran a loop past that: S-HOST-2")
    func runPastLimit() {
        onHostingThread {
            RunLoop.current.perform { Foundation.RunLoop.current.run(until: Date(timeIntervalSinceNow: 0.05)) }
            Foundation.RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.02))
        }
    }
}

/// Foundation's classes that take a run loop.
@Suite struct ClientTests {
    @Test("A stream is scheduled in the calling thread's loop; another thread, which would use it beside this one, does not get it: S-HOST-1")
    func streams() throws {
        let count = Count()
        let thread = RunLoopThread()
        try thread.start()
        let stream = CountingStream(data: Data())
        stream.count = count
        stream.schedule(in: thread.loop, forMode: RunLoop.Mode.default)
        // Comes after whatever that has queued there.
        #expect(thread.loop.perform(waitUntilDone: true) {})
        #expect(count.value == 0)
        thread.stop()
        thread.join()
        let own = RunLoopThread { _ in
            let stream = CountingStream(data: Data())
            stream.count = count
            stream.schedule(in: RunLoop.current, forMode: RunLoop.Mode.default)
        }
        try own.start()
        own.join()
        #expect(count.value == 1)
    }
}
