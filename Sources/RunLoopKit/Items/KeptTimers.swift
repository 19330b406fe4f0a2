// SPDX-License-Identifier: MIT
/// The timer objects that were added to a loop, which keeps them while they are in one of its modes and valid (S-NSTM-13). So a program
/// may hold its timer weakly, as it does with Foundation's, and what a subclass adds to a timer lives as long as that.
///
/// They go with the loop's object, which lives at least as long as the thread.
// Sendable: the table is locked.
final class KeptTimers: Sendable {
    /// By the timers' records.
    private let table = Locked<[ObjectIdentifier: Timer]>([:])

    /// False if it was kept already.
    func keep(_ timer: Timer) -> Bool {
        table.withLock { $0.updateValue(timer, forKey: ObjectIdentifier(timer.record)) } == nil
    }

    func has(_ record: TimerRecord) -> Bool { table.withLock { $0[ObjectIdentifier(record)] != nil } }

    /// The object, if it is kept, goes with the answer.
    func drop(_ record: TimerRecord) { _ = table.withLock { $0.removeValue(forKey: ObjectIdentifier(record)) } }
}

extension RunLoop {
    /// Calls the body, which adds the timer to a mode, and keeps the timer's object if it is there afterwards.
    func keeping(_ timer: Timer, in mode: Mode, _ body: () -> Void) {
        // Without one the timer is invalid.
        guard let closure = timer.closure else { return }
        closure.keeper.withLock { $0.timers = timers }
        let isNew = timers.keep(timer)
        body()
        if contains(timer, forMode: mode) {
            // A thread that has taken it out of another mode meanwhile may have dropped it.
            keepAgain(timer)
        } else if isNew {
            // It may be another loop's, or invalid.
            dropIfInNoMode(timer)
        }
    }

    /// Drops the timer's object if no mode has the timer any more.
    func dropIfInNoMode(_ timer: Timer) {
        guard timers.has(timer.record), !isInAnyMode(timer) else { return }
        timers.drop(timer.record)
        // A thread that has added it to a mode meanwhile may have found it kept.
        if isInAnyMode(timer) { keepAgain(timer) }
    }

    private func keepAgain(_ timer: Timer) {
        if timers.has(timer.record) && timer.isValid { return }
        _ = timers.keep(timer)
        // Whoever made it invalid meanwhile may have come too early to find it.
        if !timer.isValid { timers.drop(timer.record) }
    }

    private func isInAnyMode(_ timer: Timer) -> Bool {
        contains(timer, forMode: .common) || allModes.contains { contains(timer, forMode: $0) }
    }
}
