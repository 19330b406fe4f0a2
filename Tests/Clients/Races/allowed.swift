// error: none
// SPDX-License-Identifier: MIT
// What looks like the others and is allowed.
import RunLoopKit
import Synchronization

final class Document {
    var version = 0
    /// An object is not given away: it is only compared.
    func observe(_ centre: NotificationCenter) -> NotificationCenter.Observation {
        let observation = centre.addObserver(forName: nil, object: self, queue: nil) { _ in }
        version += 1
        return observation
    }
}

final class Delegate: PortDelegate {
    let count = Atomic(0)
    func handle(_ message: PortMessage) { count.add(1, ordering: .relaxed) }
}

func use(_ loop: RunLoop, _ port: Port, _ delegate: Delegate, _ thread: RunLoopThread) async throws -> Int {
    port.setDelegate(delegate)
    thread.threadDictionary["count"] = 1
    NotificationCenter.default.post(name: .init("n"), object: port)
    loop.perform(inModes: [.common]) { delegate.count.add(1, ordering: .relaxed) }
    Task.detached { loop.wakeUp() }
    return try await loop.call { delegate.count.load(ordering: .relaxed) }
}
