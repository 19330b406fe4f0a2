// SPDX-License-Identifier: MIT
import RunLoopKitXCTest  // was: import XCTest

// In the style of Foundation's own tests, for Foundation's run loop.
class TestRunLoop: XCTestCase {
    func test_constants() {
        XCTAssertNotEqual(RunLoop.Mode.default, RunLoop.Mode.common)
        XCTAssertEqual(RunLoop.Mode.default.rawValue, "kCFRunLoopDefaultMode")
        XCTAssertEqual(RunLoop.Mode(rawValue: "mine"), RunLoop.Mode("mine"))
    }

    func test_mainLoopIsTheThreadsOwn() {
        XCTAssertTrue(Thread.isMainThread)
        let main: RunLoop = RunLoop.main
        XCTAssertTrue(main === RunLoop.current)
        XCTAssertTrue(main.isEqual(RunLoop.current))
        XCTAssertEqual(Set([main, RunLoop.current]).count, 1)
        XCTAssertFalse(main.description.isEmpty)
    }

    func test_modeWhileRunning() {
        let loop = RunLoop.current
        XCTAssertNil(loop.currentMode)
        var seen: RunLoop.Mode?
        let timer = Timer(timeInterval: 0.01, repeats: false) { _ in
            seen = RunLoop.current.currentMode
        }
        loop.add(timer, forMode: .default)
        let end = Date(timeIntervalSinceNow: 10)
        while timer.isValid, Date() < end { _ = loop.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05)) }
        XCTAssertEqual(seen, .default)
        XCTAssertNil(loop.currentMode)
    }

    func test_limitDate() {
        let loop = RunLoop.current
        let first = Timer(timeInterval: 300, repeats: false) { _ in }
        let second = Timer(timeInterval: 200, repeats: false) { _ in }
        loop.add(first, forMode: .default)
        loop.add(second, forMode: .default)
        defer {
            first.invalidate()
            second.invalidate()
        }
        guard let date = loop.limitDate(forMode: .default) else { return XCTFail("no limit") }
        XCTAssertEqual(date.timeIntervalSinceReferenceDate, second.fireDate.timeIntervalSinceReferenceDate, accuracy: 0.001)
        XCTAssertLessThan(date, first.fireDate)
    }

    func test_runUntil() {
        let keep = Timer(timeInterval: 100, repeats: false) { _ in }
        RunLoop.current.add(keep, forMode: RunLoop.Mode.default)
        let date = Date().addingTimeInterval(0.02)
        RunLoop.current.run(until: date)
        XCTAssertTrue(Date() >= date)
        RunLoop.current.acceptInput(forMode: RunLoop.Mode.default.rawValue, before: Date())
        keep.invalidate()
    }

    func test_performs() {
        let done = expectation(description: "performed")
        var order = [Int]()
        RunLoop.main.perform { order.append(1) }
        RunLoop.main.perform(inModes: [.common]) { order.append(2) }
        RunLoop.current.perform(inModes: [.default, .common], block: {
            order.append(3)
            done.fulfill()
        })
        // The expectation is waited for on Foundation's loop.
        waitForExpectations(timeout: 10)
        XCTAssertEqual(order, [1, 2, 3])
    }

    func test_expectationOfATimer() {
        let done = expectation(description: "three calls")
        done.expectedFulfillmentCount = 3
        let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in done.fulfill() }
        done.assertForOverFulfill = false
        wait(for: [done], timeout: 10)
        timer.invalidate()
    }

    func test_performInAnAsynchronousTest() async {
        let done = expectation(description: "performed")
        RunLoop.main.perform { done.fulfill() }
        await fulfillment(of: [done], timeout: 10)
    }

    func test_otherThreads() {
        let done = expectation(description: "thread")
        let thread = Thread {
            XCTAssertFalse(RunLoop.current === RunLoop.main)
            XCTAssertFalse(RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 60)))
            var fired = false
            let timer = Timer(timeInterval: 0.01, repeats: false) { _ in fired = true }
            RunLoop.current.add(timer, forMode: .default)
            RunLoop.current.run()
            XCTAssertTrue(fired)
            done.fulfill()
        }
        thread.start()
        waitForExpectations(timeout: 10)
    }

    func test_portsInModes() {
        let port = CountingPort()
        let loop = RunLoop.current
        loop.add(port, forMode: .default)
        loop.add(port, forMode: .default)
        loop.add(port, forMode: .common)
        loop.remove(port, forMode: .default)
        loop.remove(port, forMode: .default)
        XCTAssertEqual(port.scheduled, [.default, .common])
        XCTAssertEqual(port.removed, [.default])
        port.invalidate()
        loop.remove(port, forMode: .common)
        XCTAssertEqual(port.removed, [.default])
    }
}

/// As a stranger subclasses Foundation's port.
private class CountingPort: Port {
    var scheduled: [RunLoop.Mode] = []
    var removed: [RunLoop.Mode] = []
    private var valid = true
    private weak var theDelegate: PortDelegate?

    override var isValid: Bool { return valid }
    override func invalidate() {
        valid = false
        NotificationCenter.default.post(name: Port.didBecomeInvalidNotification, object: self)
    }
    override func setDelegate(_ anObject: PortDelegate?) { theDelegate = anObject }
    override func delegate() -> PortDelegate? { return theDelegate }
    override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) { scheduled.append(mode) }
    override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) { removed.append(mode) }
    override var reservedSpaceLength: Int { return 12 }
}
