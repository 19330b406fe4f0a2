// error: Sendable
// SPDX-License-Identifier: MIT
// What several threads read at a time is Sendable.
import RunLoopKit

final class Counter { var count = 0 }

let counters = ReadWrite(Counter())
