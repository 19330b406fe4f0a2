// SPDX-License-Identifier: MIT
import RunLoopKitXCTest  // was: import XCTest

class TestTimer: XCTestCase {
    func test_initializers() {
        let date = Date(timeIntervalSinceNow: 1000)
        let timer = Timer(fire: date, interval: 0.3, repeats: true) { _ in }
        XCTAssertEqual(timer.fireDate, date)
        XCTAssertEqual(timer.timeInterval, 0.3)
        XCTAssertTrue(timer.isValid)
        XCTAssertNil(timer.userInfo)
        XCTAssertTrue(timer.isEqual(timer))
        let now = Timer(fire: .now, interval: 0, repeats: false) { _ in }
        let never = Timer(fire: .distantFuture, interval: 0, repeats: false) { (timer: Timer) in timer.invalidate() }
        XCTAssertLessThan(now.fireDate, never.fireDate)
    }

    func test_once() {
        var fired = 0
        let timer = Timer.scheduledTimer(withTimeInterval: 0.01, repeats: false) { timer in
            XCTAssertTrue(timer.isValid)
            XCTAssertEqual(timer.timeInterval, 0)
            fired += 1
        }
        let end = Date(timeIntervalSinceNow: 10)
        while timer.isValid && Date() < end { RunLoop.main.run(until: Date(timeIntervalSinceNow: 0.02)) }
        XCTAssertEqual(fired, 1)
        XCTAssertFalse(timer.isValid)
    }

    func test_tolerance() {
        let timer = Timer(timeInterval: 10, repeats: true) { _ in }
        XCTAssertEqual(timer.tolerance, 0)
        timer.tolerance = 2.5
        XCTAssertEqual(timer.tolerance, 2.5)
        timer.fireDate = timer.fireDate.addingTimeInterval(1)
        timer.invalidate()
    }

    func test_subclass() {
        var log = [String]()
        var timer: Timer? = NamedTimer(name: "named", after: 0.01) { log.append(($0 as? NamedTimer)?.name ?? "none") }
        RunLoop.current.add(timer!, forMode: .default)
        weak var known = timer
        timer = nil
        // As with Foundation, the loop keeps the object.
        XCTAssertEqual((known as? NamedTimer)?.name, "named")
        let end = Date(timeIntervalSinceNow: 10)
        while known != nil && Date() < end { RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.02)) }
        XCTAssertEqual(log, ["named"])
        PlainTimer.log = { log.append("before") }
        let plain = PlainTimer(timeInterval: 1, repeats: true) { _ in log.append("fired") }
        plain.fire()
        plain.invalidate()
        XCTAssertEqual(log, ["named", "before", "fired"])
    }
}

private class NamedTimer: Timer, @unchecked Sendable {
    let name: String

    init(name: String, after interval: TimeInterval, _ body: @escaping (Timer) -> Void) {
        self.name = name
        super.init(fire: Date(timeIntervalSinceNow: interval), interval: 0, repeats: false, block: body)
    }
}

private class PlainTimer: Timer, @unchecked Sendable {
    override func fire() {
        perform { super.fire() }
    }
    private func perform(_ body: () -> Void) {
        PlainTimer.log()
        body()
    }
    nonisolated(unsafe) static var log: () -> Void = {}
}
