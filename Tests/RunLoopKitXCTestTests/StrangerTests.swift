// SPDX-License-Identifier: MIT
import RunLoopKitXCTest  // was: import XCTest

// Code as programs have it that know Foundation's run loop only.

extension RunLoop.Mode {
    static let tracking = RunLoop.Mode("tracking")
}

extension Notification.Name {
    static let finished = Notification.Name("finished")
}

protocol Scheduling {
    func add(_ timer: Timer, forMode mode: RunLoop.Mode)
}

extension RunLoop: Scheduling {}

extension Timer {
    @discardableResult
    static func after(_ interval: TimeInterval, _ body: @escaping () -> Void) -> Timer {
        let timer = Timer(timeInterval: interval, repeats: false) { _ in body() }
        RunLoop.current.add(timer, forMode: .common)
        return timer
    }
}

/// Polls a condition with a timer, as many programs do.
final class Poller: NSObject {
    private weak var timer: Timer?
    private(set) var ticks = 0
    private let scheduler: Scheduling
    var onTick: ((Poller) -> Void)?

    init(scheduler: Scheduling = RunLoop.main) {
        self.scheduler = scheduler
        super.init()
    }

    deinit { timer?.invalidate() }

    func start(every interval: TimeInterval = 0.001) {
        let timer = Timer(timeInterval: interval, repeats: true) { [weak self] timer in
            guard let self = self else { return timer.invalidate() }
            self.ticks += 1
            self.onTick?(self)
        }
        timer.tolerance = interval / 10
        scheduler.add(timer, forMode: .common)
        self.timer = timer
    }

    func stop() {
        timer?.invalidate()
        timer = nil
    }

    var isRunning: Bool { return timer?.isValid ?? false }
}

/// A thread that does work on its loop, kept alive by a port.
final class WorkerThread {
    private var thread: Thread!
    private var loop: RunLoop?
    private let ready = DispatchSemaphore(value: 0)
    private var shouldStop = false

    init() {
        thread = Thread { [unowned self] in self.main() }
        thread.start()
        ready.wait()
    }

    private func main() {
        let loop = RunLoop.current
        self.loop = loop
        loop.add(Port(), forMode: .default)
        ready.signal()
        while !shouldStop && loop.run(mode: .default, before: .distantFuture) {}
    }

    func async(_ block: @escaping () -> Void) {
        loop?.perform(inModes: [.default], block: block)
        loop?.wakeUp()
    }

    func finish() {
        async {
            self.shouldStop = true
            // A block ends no run; a source does.
            self.loop?.stop()
        }
    }
}

class StrangerTests: XCTestCase {
    private func waitUntil(_ limit: TimeInterval = 10, _ condition: () -> Bool) -> Bool {
        let end = Date(timeIntervalSinceNow: limit)
        while !condition() {
            if Date() > end { return false }
            RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.01))
        }
        return true
    }

    func test_poller() {
        let poller = Poller()
        poller.onTick = { if $0.ticks == 3 { $0.stop() } }
        poller.start()
        XCTAssertTrue(waitUntil { !poller.isRunning })
        XCTAssertEqual(poller.ticks, 3)
    }

    func test_trackingMode() {
        var fired = [String]()
        let one = Timer(timeInterval: 0.001, repeats: false) { _ in fired.append("default") }
        let two = Timer(timeInterval: 0.001, repeats: false) { _ in fired.append("tracking") }
        RunLoop.current.add(one, forMode: .default)
        RunLoop.current.add(two, forMode: .tracking)
        while two.isValid { RunLoop.current.run(mode: .tracking, before: .distantFuture) }
        XCTAssertEqual(fired, ["tracking"])
        XCTAssertTrue(waitUntil { fired.count == 2 })
    }

    func test_worker() {
        let worker = WorkerThread()
        let done = expectation(description: "work")
        var isMain = true
        worker.async {
            isMain = Thread.isMainThread
            done.fulfill()
        }
        wait(for: [done], timeout: 10)
        XCTAssertFalse(isMain)
        worker.finish()
    }

    // The waiter runs Foundation's loop of its thread, in which the article puts a timer that keeps it from ending: S-HOST-2, S-HOST-4.
    func test_waiterOnAnotherThread() {
        let ended = expectation(description: "ended")
        nonisolated(unsafe) var results = [XCTWaiter.Result]()
        Thread.detachNewThread {
            RunLoop.hostsFoundation()
            let keep = Foundation.Timer.scheduledTimer(withTimeInterval: 1e9, repeats: true) { _ in }
            defer { keep.invalidate() }
            let fired = XCTestExpectation(description: "fired")
            Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in fired.fulfill() }
            results.append(XCTWaiter().wait(for: [fired], timeout: 10))
            ended.fulfill()
        }
        wait(for: [ended], timeout: 20)
        XCTAssertEqual(results, [.completed])
    }

    func test_notifications() {
        let token = expectation(forNotification: .finished, object: nil)
        Timer.after(0.001) { NotificationCenter.default.post(name: .finished, object: nil) }
        wait(for: [token], timeout: 10)
        let queued = expectation(forNotification: .finished, object: self)
        NotificationQueue.default.enqueue(Notification(name: .finished, object: self), postingStyle: .whenIdle)
        wait(for: [queued], timeout: 10)
    }

    func test_process() throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", "read line; exit 4"]
        let input = Pipe()
        process.standardInput = input
        try process.run()
        var ticks = 0
        let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { timer in
            ticks += 1
            if ticks == 3 { input.fileHandleForWriting.write(Data("go\n".utf8)) }
        }
        process.waitUntilExit()
        timer.invalidate()
        XCTAssertGreaterThanOrEqual(ticks, 3)
        XCTAssertEqual(process.terminationStatus, 4)
    }

    func test_collections() {
        let timer = Timer(timeInterval: 1, repeats: false) { _ in }
        let set = NSMutableSet(array: [timer, timer])
        XCTAssertEqual(set.count, 1)
        var modes: [RunLoop.Mode: [Timer]] = [.default: [timer]]
        modes[.common, default: []].append(timer)
        XCTAssertEqual(modes.count, 2)
        let object: NSObjectProtocol = timer
        XCTAssertTrue(object.isEqual(timer))
        XCTAssertFalse(object.isProxy())
        let any: Any = RunLoop.main
        XCTAssertTrue((any as? RunLoop)?.isEqual(RunLoop.current) ?? false)
        XCTAssertTrue((Port().copy() as? Port)?.isValid ?? false)
    }

    func test_asynchronous() async throws {
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, Error>) in
            RunLoop.main.perform { continuation.resume() }
        }
        await withCheckedContinuation { continuation in
            RunLoop.main.add(Timer(timeInterval: 0.001, repeats: false) { _ in continuation.resume() }, forMode: .common)
        }
        let value = await MainActor.run { RunLoop.main.currentMode?.rawValue }
        XCTAssertNotNil(value as String??)
    }
}
