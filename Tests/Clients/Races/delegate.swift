// error: Sendable
// SPDX-License-Identifier: MIT
// Whoever has the port reaches its delegate from any thread.
import RunLoopKit

final class Delegate: PortDelegate {
    var count = 0
    func handle(_ message: PortMessage) { count += 1 }
}
