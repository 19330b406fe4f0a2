// error: risks causing data races
// SPDX-License-Identifier: MIT
// A foreign run belongs to its thread.
import RunLoopKit

func send(_ run: RunLoop.ForeignRun) {
    Task.detached { run.invalidate() }
}
