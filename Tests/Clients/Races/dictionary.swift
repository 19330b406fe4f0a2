// error: Sendable
// SPDX-License-Identifier: MIT
// What a thread's dictionary gives out may go anywhere.
import RunLoopKit

final class Counter { var count = 0 }

func keep(in thread: RunLoopThread) { thread.threadDictionary["counter"] = Counter() }
