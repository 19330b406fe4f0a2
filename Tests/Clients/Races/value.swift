// error: Sendable
// SPDX-License-Identifier: MIT
// What an awaited closure gives leaves the loop's thread.
import RunLoopKit

final class Counter { var count = 0 }

func counter(of loop: RunLoop) async throws -> Counter { try await loop.call { Counter() } }
