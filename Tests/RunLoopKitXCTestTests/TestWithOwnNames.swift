// SPDX-License-Identifier: MIT
// A file that imports a module which re-exports Foundation, here XCTest, and says by names of its own what it means.
import RunLoopKitFoundation
import XCTest

private typealias RunLoop = RunLoopKit.RunLoop
private typealias Timer = RunLoopKit.Timer
private typealias NotificationQueue = RunLoopKitFoundation.NotificationQueue
private typealias Port = RunLoopKit.Port
private typealias SocketPort = RunLoopKit.SocketPort
private typealias PortMessage = RunLoopKit.PortMessage
private typealias PortDelegate = RunLoopKit.PortDelegate

class TestWithOwnNames: XCTestCase {
    private final class Receiver: PortDelegate {
        func handle(_ message: PortMessage) { message.receivePort?.invalidate() }
    }

    func test_names() {
        let posted = expectation(forNotification: Notification.Name("TestWithOwnNames"), object: nil)
        let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
            NotificationQueue.default.enqueue(Notification(name: Notification.Name("TestWithOwnNames")), postingStyle: .asap)
        }
        let receiver = Receiver()
        let port = Port()
        port.setDelegate(receiver)
        RunLoop.current.add(port, forMode: .default)
        let lock = NSLock()
        XCTAssertTrue(lock.withLock { PortMessage(sendPort: port, receivePort: nil, components: nil).send(before: Date()) })
        wait(for: [posted], timeout: 10)
        XCTAssertFalse(timer.isValid)
        let limit = Date(timeIntervalSinceNow: 10)
        while port.isValid && Date() < limit { RunLoop.current.run(mode: .default, before: limit) }
        XCTAssertFalse(port.isValid)
        XCTAssertNil(SocketPort(tcpPort: 0).flatMap { $0.isValid ? nil : $0 })
        XCTAssertFalse(Thread.current.isCancelled)
    }
}
