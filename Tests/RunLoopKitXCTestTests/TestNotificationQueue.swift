// SPDX-License-Identifier: MIT
import RunLoopKitXCTest  // was: import XCTest

class TestNotificationQueue: XCTestCase {
    private func count(_ name: Notification.Name, center: NotificationCenter = .default, _ body: () -> Void) -> Int {
        var count = 0
        let token = center.addObserver(forName: name, object: nil, queue: nil) { _ in count += 1 }
        body()
        center.removeObserver(token)
        return count
    }

    private func runOnce() {
        let timer = Timer.scheduledTimer(withTimeInterval: 0.01, repeats: false) { _ in }
        RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05))
        timer.invalidate()
    }

    func test_default() {
        XCTAssertTrue(NotificationQueue.default === NotificationQueue.default)
        let other = Thread { XCTAssertNotNil(NotificationQueue.default) }
        other.start()
    }

    func test_styles() {
        let name = Notification.Name(rawValue: "styles")
        XCTAssertEqual(count(name) { NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .now) }, 1)
        XCTAssertEqual(count(name) { NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .asap); runOnce() }, 1)
        XCTAssertEqual(count(name) { NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .whenIdle); runOnce() }, 1)
    }

    func test_coalescing() {
        let name = Notification.Name(rawValue: "coalescing")
        let posts = count(name) {
            for _ in 0..<3 { NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .asap) }
            runOnce()
        }
        XCTAssertEqual(posts, 1)
        let all = count(name) {
            for _ in 0..<3 {
                NotificationQueue.default.enqueue(
                    Notification(name: name), postingStyle: .asap, coalesceMask: [], forModes: [RunLoop.Mode.default])
            }
            runOnce()
        }
        XCTAssertEqual(all, 3)
        let none = count(name) {
            let note = Notification(name: name)
            NotificationQueue.default.enqueue(note, postingStyle: .asap, coalesceMask: .none, forModes: nil)
            NotificationQueue.default.dequeueNotifications(matching: note, coalesceMask: [.onName, .onSender])
            runOnce()
        }
        XCTAssertEqual(none, 0)
    }

    func test_ownCenterAndSubclass() {
        let center = NotificationCenter()
        let queue = LoggingQueue(notificationCenter: center)
        let name = Notification.Name(rawValue: "own")
        XCTAssertEqual(count(name, center: center) { queue.enqueue(Notification(name: name), postingStyle: .now) }, 1)
        XCTAssertEqual(queue.log, ["own"])
    }
}

private class LoggingQueue: NotificationQueue {
    var log: [String] = []

    override func enqueue(_ notification: Notification, postingStyle: NotificationQueue.PostingStyle) {
        log.append(notification.name.rawValue)
        super.enqueue(notification, postingStyle: postingStyle)
    }
}
