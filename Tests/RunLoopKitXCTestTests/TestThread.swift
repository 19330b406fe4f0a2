// SPDX-License-Identifier: MIT
import RunLoopKitXCTest  // was: import XCTest

class TestThread: XCTestCase {
    func test_current() {
        let thread = Thread.current
        XCTAssertNotNil(thread)
        XCTAssertTrue(thread.isMainThread)
        XCTAssertEqual(thread, Thread.mainThread)
    }

    func test_start() {
        let ran = NSCondition()
        var isDone = false
        let thread = Thread {
            XCTAssertTrue(Thread.current.isExecuting)
            ran.lock()
            isDone = true
            ran.broadcast()
            ran.unlock()
        }
        thread.stackSize = 1 << 20
        thread.start()
        ran.lock()
        while !isDone { XCTAssertTrue(ran.wait(until: Date(timeIntervalSinceNow: 10))) }
        ran.unlock()
    }

    func test_threadWithALoop() {
        let started = expectation(description: "started"), ended = expectation(description: "ended")
        var loop: RunLoop?
        let thread = Thread {
            loop = RunLoop.current
            RunLoop.current.add(Port(), forMode: .default)
            started.fulfill()
            while !Thread.current.isCancelled {
                _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.01))
            }
            ended.fulfill()
        }
        thread.start()
        wait(for: [started], timeout: 10)
        let performed = expectation(description: "performed")
        loop?.perform { performed.fulfill() }
        wait(for: [performed], timeout: 10)
        thread.cancel()
        wait(for: [ended], timeout: 10)
    }
}
