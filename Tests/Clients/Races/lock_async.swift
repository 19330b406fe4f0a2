// error: unavailable from asynchronous contexts
// SPDX-License-Identifier: MIT
// An asynchronous function may go on on another thread than the one that locked.
import RunLoopKit

func wait(for condition: NSCondition, _ body: () async -> Void) async {
    condition.lock()
    await body()
    condition.unlock()
}
