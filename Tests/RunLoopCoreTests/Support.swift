// SPDX-License-Identifier: MIT
// What the tests of the core's data structures share. Each random test makes the same choices for the same
// seed; a failing expectation names the seed.
import CRunLoop
import Glibc
@testable import RunLoopCore

/// SplitMix64: small, seeded, the same everywhere.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }
}

/// A timer that no loop has, due at an instant the test chooses; the test frees it.
func makeTimer(instant: Int64, interval: Double = 0, tolerance: Double = 0) -> TimerPointer {
    let reference = RLTimerCreate(0, interval, 0, 0, nil, nil)!
    RLTimerSetTolerance(reference, tolerance)
    let timer = UnsafeMutableRawPointer(reference).assumingMemoryBound(to: Timer.self)
    timer.pointee.instant = instant
    return timer
}

/// A timer of a random test and what its store should know about it.
struct ModelTimer {
    let timer: TimerPointer
    let instant: Int64
    /// The order of insertion.
    let sequence: Int

    var node: TimerNodePointer { timer.firstNode }

    func precedes(_ other: ModelTimer) -> Bool {
        instant != other.instant ? instant < other.instant : sequence < other.sequence
    }
}

extension Array where Element == ModelTimer {
    /// The timers in the order in which they fire.
    var inOrder: [ModelTimer] { sorted { $0.precedes($1) } }

    func release() { for entry in self { entry.timer.release() } }
}

/// Gives back what `makeRecord` made.
func freeRecord<Record: ~Copyable>(_ record: UnsafeMutablePointer<Record>) { free(record) }

/// Lets another thread have the processor.
func yieldProcessor() { sched_yield() }

/// A thread that runs a closure; `join` waits for its end.
final class CoreThread: Sendable {
    private let thread: pthread_t

    init(_ body: @escaping @Sendable () -> Void) {
        let box = Unmanaged.passRetained(Box(body))
        var made = pthread_t()
        let status = pthread_create(&made, nil, { info in
            Unmanaged<Box>.fromOpaque(info!).takeRetainedValue().body()
            return nil
        }, box.toOpaque())
        precondition(status == 0, "no thread to be had")
        thread = made
    }

    func join() { pthread_join(thread, nil) }

    private final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
}
