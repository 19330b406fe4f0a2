// error: Sendable
// SPDX-License-Identifier: MIT
// The loop's thread calls the closure.
import RunLoopKit

final class Counter { var count = 0 }

func count(_ counter: Counter, on loop: RunLoop) {
    loop.perform { counter.count += 1 }
    counter.count += 1
}
