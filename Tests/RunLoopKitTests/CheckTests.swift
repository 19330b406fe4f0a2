// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// What the types cannot keep a program from is stopped with a message.
@Suite struct CheckTests {
    @Test("A notification queue that is used on a second thread stops the program: S-NQ-14")
    func queueOnSecondThread() async {
        await #expect(processExitsWith: .failure) {
            nonisolated(unsafe) let queue = NotificationQueue(notificationCenter: NotificationCenter())
            queue.enqueue(Notification(name: .init("n")), postingStyle: .asap)
            onNewThread { queue.enqueue(Notification(name: .init("n")), postingStyle: .asap) }
        }
    }

    @Test("A sender that is not Sendable is posted to observers of the same thread's loop, and to no other thread's: S-NQ-17")
    func senderOnSecondThread() async {
        final class Sender {}
        let name = Notification.Name("n")
        let count = onNewThread {
            let centre = NotificationCenter()
            let trace = Trace()
            let observation = centre.addObserver(forName: name, object: nil, queue: RunLoop.current) { _ in trace.add("told") }
            centre.post(name: name, object: Sender())
            // Within the call: afterwards the sender may go to another task.
            let count = trace.count
            RunLoop.current.keepAlive()
            RunLoop.current.run(mode: .default, for: .zero)
            centre.removeObserver(observation)
            return [count, trace.count]
        }
        #expect(count == [1, 1])
        await #expect(processExitsWith: .failure) {
            final class Sender {}
            let name = Notification.Name("n")
            let centre = NotificationCenter()
            let loop = onNewThread { RunLoop.current }
            _ = centre.addObserver(forName: name, object: nil, queue: loop) { _ in }
            // These may go to another thread.
            centre.post(name: name, object: nil)
            centre.post(name: name, object: centre, userInfo: ["key": 1])
            centre.post(name: name, object: Sender())
        }
        await #expect(processExitsWith: .success) {
            let name = Notification.Name("n")
            let centre = NotificationCenter()
            let loop = onNewThread { RunLoop.current }
            _ = centre.addObserver(forName: name, object: nil, queue: loop) { _ in }
            centre.post(name: name, object: nil)
            centre.post(name: name, object: centre, userInfo: ["key": 1])
        }
    }
}
