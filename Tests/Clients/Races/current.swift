// error: unavailable from asynchronous contexts
// SPDX-License-Identifier: MIT
// An asynchronous function has no thread of its own.
import RunLoopKit

func loop() async -> RunLoop { RunLoop.current }
