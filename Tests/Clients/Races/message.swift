// error: risks causing data races
// SPDX-License-Identifier: MIT
// A message is its receiver's.
import RunLoopKit

func send(_ message: PortMessage) {
    Task.detached { _ = message.send(before: .now) }
}
