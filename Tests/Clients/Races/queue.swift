// error: risks causing data races
// SPDX-License-Identifier: MIT
// A notification queue is its thread's.
import RunLoopKit

func send(_ queue: NotificationQueue) {
    Task.detached { queue.dequeueNotifications(matching: Notification(name: .init("n")), coalesceMask: .onName) }
}
