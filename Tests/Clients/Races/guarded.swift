// error: task-isolated
// SPDX-License-Identifier: MIT
// What comes into a guard, or out of it, is nobody else's.
import RunLoopKit

final class Counter { var count = 0 }

func keep(_ counter: Counter, in guarded: borrowing Guarded<Counter>) { guarded.withLock { $0 = counter } }
