// error: risks causing data races
// SPDX-License-Identifier: MIT
// A message that a request handler serves is good for the time of its call, on its thread.
import RunLoopKit

func send(_ request: MessagePort.Request) {
    Task.detached { _ = request.takeDescriptors() }
}
