// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

extension Notification.Name {
    static let first = Notification.Name("first")
    static let second = Notification.Name("second")
    static let third = Notification.Name("third")
}

/// What notifications are from.
final class Posting: Sendable {}

final class WeakLoop: Sendable {
    weak let object: RunLoop?
    init(_ object: RunLoop) { self.object = object }
}

/// A centre of the test's own, whose notifications are written down by name.
func tracedCenter(_ trace: Trace) -> NotificationCenter {
    let center = NotificationCenter()
    _ = center.addObserver(forName: nil, object: nil, queue: nil) { trace.add($0.name.rawValue) }
    return center
}

/// Runs a scenario on a thread of its own, with a queue whose posts are traced.
func withQueue(_ body: @escaping @Sendable (NotificationQueue, Trace) -> Void) -> [String] {
    onNewThread {
        let trace = Trace()
        body(NotificationQueue(notificationCenter: tracedCenter(trace)), trace)
        return trace.all
    }
}
