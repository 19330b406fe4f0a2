// SPDX-License-Identifier: MIT
import RunLoopKitXCTest  // was: import XCTest

// Tests as they are written for Foundation's run loop. Nothing but the import says that it is another one.
class TestWithOneLine: XCTestCase {
    func test_timerFiresAndInvalidates() {
        nonisolated(unsafe) var fires = 0
        let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { timer in
            fires += 1
            if fires == 3 { timer.invalidate() }
        }
        let end = Date(timeIntervalSinceNow: 10)
        while timer.isValid && Date() < end { RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.01)) }
        XCTAssertEqual(fires, 3)
        XCTAssertFalse(timer.isValid)
    }

    func test_loopReturnsAtItsDate() {
        let keep = Timer(timeInterval: 1000, repeats: false) { _ in }
        RunLoop.current.add(keep, forMode: .default)
        let date = Date(timeIntervalSinceNow: 0.01)
        RunLoop.current.run(until: date)
        XCTAssertGreaterThanOrEqual(Date(), date)
        keep.invalidate()
        XCTAssertEqual(RunLoop.main, RunLoop.main)
    }

    func test_notificationQueuePostsAsSoonAsPossible() {
        let name = Notification.Name("TestWithOneLine")
        nonisolated(unsafe) var posted = 0
        let observer = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in posted += 1 }
        NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .asap)
        XCTAssertEqual(posted, 0)
        let timer = Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in }
        RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05))
        XCTAssertEqual(posted, 1)
        timer.invalidate()
        NotificationCenter.default.removeObserver(observer)
    }

    func test_portsOfThisProcess() {
        let port = SocketPort(tcpPort: 0)
        XCTAssertNotNil(port)
        port?.invalidate()
        XCTAssertEqual(port?.isValid, false)
    }
}
