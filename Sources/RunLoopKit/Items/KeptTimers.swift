// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// The timer objects that were added to a loop, which keeps them while they are in one of its modes and valid, and its thread lives
/// (S-NSTM-13). So a program may hold its timer weakly, as it does with Foundation's, and what a subclass adds to a timer lives as long
/// as that.
// Sendable: the table is locked.
final class KeptTimers: Sendable {
    private struct Table {
        /// By the timers' records.
        var timers: [ObjectIdentifier: Timer] = [:]
        /// The loop's thread has ended: nothing is kept any more.
        var isEnded = false
    }
    private let table = Locked(Table())

    /// False if the loop's thread has ended.
    func keep(_ timer: Timer) -> Bool {
        let id = ObjectIdentifier(timer.record)
        return table.withLock { table in
            // One that is there is the same object.
            if !table.isEnded, table.timers[id] == nil { table.timers[id] = timer }
            return !table.isEnded
        }
    }

    func has(_ record: TimerRecord) -> Bool { table.withLock { $0.timers[ObjectIdentifier(record)] != nil } }

    /// The object, if it is kept, goes with the answer.
    func drop(_ record: TimerRecord) { _ = table.withLock { $0.timers.removeValue(forKey: ObjectIdentifier(record)) } }

    var isEnded: Bool { table.withLock { $0.isEnded } }

    /// The loop's thread ends. The timers stay in the loop as long as that exists (S-LOOP-9), and their objects are the program's.
    func end() {
        let kept = table.withLock { table in
            defer { table = Table(isEnded: true) }
            return table.timers
        }
        withExtendedLifetime(kept) {}
    }
}

extension RunLoop {
    /// Calls the body, which adds the timer to a mode, and keeps the timer's object if it is there afterwards.
    func keeping(_ timer: Timer, in mode: Mode, _ body: () -> Void) {
        // Without one the timer is invalid.
        guard let closure = timer.closure else { return }
        outliveThread()
        closure.note(timers)
        body()
        settle(timer, in: mode)
    }

    /// Drops the timer's object if no mode has the timer any more.
    func dropIfInNoMode(_ timer: Timer) { settle(timer, in: nil) }

    /// Keeps the object or drops it, as the modes say, until both agree. Whoever changes one looks at both afterwards, so the last one
    /// leaves them in agreement.
    private func settle(_ timer: Timer, in mode: Mode?) {
        while true {
            // Not asked by what a subclass may have overridden.
            let belongs = RLTimerIsValid(timer.reference) && (mode.map { contains(timer, forMode: $0) } == true || isInAnyMode(timer))
            if timers.has(timer.record) == belongs { return }
            if !belongs {
                timers.drop(timer.record)
            } else if !timers.keep(timer) {
                return
            }
        }
    }

    private func isInAnyMode(_ timer: Timer) -> Bool {
        contains(timer, forMode: .common) || allModes.contains { contains(timer, forMode: $0) }
    }
}
