// SPDX-License-Identifier: MIT
import RunLoopKitXCTest  // was: import XCTest

class TestNSLock: XCTestCase {
    func test_lockBefore() {
        let lock = NSLock()
        lock.lock()
        let refused = expectation(description: "refused")
        Thread.detachNewThread {
            XCTAssertFalse(lock.lock(before: Date(timeIntervalSinceNow: 0.01)))
            XCTAssertFalse(lock.try())
            refused.fulfill()
        }
        // Timers fire while the expectation is waited for.
        var fired = 0
        let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in fired += 1 }
        wait(for: [refused], timeout: 10)
        timer.invalidate()
        lock.unlock()
        XCTAssertEqual(lock.withLock { 5 }, 5)
    }

    func test_others() {
        let recursive = NSRecursiveLock()
        recursive.lock()
        XCTAssertTrue(recursive.lock(before: Date(timeIntervalSinceNow: 1)))
        recursive.unlock()
        recursive.unlock()
        let condition = NSConditionLock(condition: 1)
        XCTAssertTrue(condition.tryLock(whenCondition: 1))
        condition.unlock(withCondition: 2)
        XCTAssertEqual(condition.condition, 2)
    }
}
