// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What a loop has done so far (S-STAT-1). Only the loop's thread counts, except for `rouses`, with a plain addition; other threads read.
/// Relaxed: numbers that order nothing.
struct Counters: ~Copyable {
    let runs: Atomic<UInt64>
    let passes: Atomic<UInt64>
    let waits: Atomic<UInt64>
    let sleeps: Atomic<UInt64>
    let wakeUps: Atomic<UInt64>
    let sources: Atomic<UInt64>
    let ports: Atomic<UInt64>
    let timers: Atomic<UInt64>
    /// The bits of a `Double`, because timers count in this type.
    private let skippedDateBits: Atomic<UInt64>
    let functions: Atomic<UInt64>
    let requests: Atomic<UInt64>
    let observers: Atomic<UInt64>
    let mainQueue: Atomic<UInt64>
    /// System calls that ended a sleep of the loop. Any thread adds, where it makes the call.
    let rouses: Atomic<UInt64>

    @inline(always)
    func countSkippedDates(_ number: Double) {
        skippedDateBits.store((Double(bitPattern: skippedDateBits.load(ordering: .relaxed)) + number).bitPattern, ordering: .relaxed)
    }

    var skippedDates: UInt64 { UInt64(min(Double(bitPattern: skippedDateBits.load(ordering: .relaxed)), 1e18)) }
}

extension Atomic where Value == UInt64 {
    /// Adds to a counter to which no other thread adds.
    @inline(always)
    func count(_ number: UInt64 = 1) { store(load(ordering: .relaxed) &+ number, ordering: .relaxed) }
}
