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
    private struct Entry {
        let timer: Timer
        /// All modes that the timer was added to by their names and is in, and maybe others.
        var modes: Set<RunLoop.Mode>
        /// Of the last change.
        var stamp: UInt64
    }
    private struct Table {
        /// By the timers' records.
        var entries: [ObjectIdentifier: Entry] = [:]
        /// How many changes there have been.
        var changes: UInt64 = 0
        /// The last one that took an entry away. It stands for all that are not there.
        var lastDrop: UInt64 = 0
        /// The loop's thread has ended: nothing is kept any more.
        var isEnded = false

        mutating func drop(_ id: ObjectIdentifier) -> Timer? {
            changes += 1
            lastDrop = changes
            return entries.removeValue(forKey: id)?.timer
        }
    }
    private let table = Locked(Table())

    /// A mode in which the timer may be, if there is any, and a number that another one takes the place of when what is known of it
    /// changes.
    func state(of record: TimerRecord) -> (mode: RunLoop.Mode?, stamp: UInt64) {
        table.withLock { table in
            let entry = table.entries[ObjectIdentifier(record)]
            return (entry?.modes.first, entry?.stamp ?? table.lastDrop)
        }
    }

    enum Finding {
        /// The timer is in this mode, or nil: it is a common item.
        case isIn(RunLoop.Mode?)
        case isNotIn(RunLoop.Mode)
        case isNowhere
    }

    /// Keeps the timer or drops it. False, and nothing has changed, if the state is not that of the stamp any more.
    func note(_ finding: Finding, of timer: Timer, ifStill stamp: UInt64) -> Bool {
        let id = ObjectIdentifier(timer.record)
        // What was there goes after the lock.
        let (isNoted, old) = table.withLock { table -> (Bool, Timer?) in
            if table.isEnded { return (true, nil) }
            guard table.entries[id]?.stamp ?? table.lastDrop == stamp else { return (false, nil) }
            if case .isNowhere = finding { return (true, table.drop(id)) }
            table.changes += 1
            switch finding {
            case .isIn(let mode):
                // One that is there is the same object.
                table.entries[id, default: Entry(timer: timer, modes: [], stamp: 0)].stamp = table.changes
                if let mode { table.entries[id]?.modes.insert(mode) }
            case .isNotIn(let mode):
                table.entries[id]?.stamp = table.changes
                table.entries[id]?.modes.remove(mode)
            case .isNowhere: break
            }
            return (true, nil)
        }
        withExtendedLifetime(old) {}
        return isNoted
    }

    /// The object, if it is kept, goes with the answer.
    func drop(_ record: TimerRecord) { _ = table.withLock { $0.drop(ObjectIdentifier(record)) } }

    var isEnded: Bool { table.withLock { $0.isEnded } }

    /// The loop's thread ends. The timers stay in the loop as long as that exists (S-LOOP-9), and their objects are the program's.
    func end() {
        let kept = table.withLock { table in
            defer { table = Table(isEnded: true) }
            return table.entries
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

    /// Drops the timer's object, which has been taken out of the mode, if no mode has the timer any more.
    func dropIfInNoMode(_ timer: Timer, after mode: Mode) { settle(timer, in: mode) }

    /// Keeps the object or drops it, as the modes say. Whoever changes a mode looks at it and, if the timer is not there, at others
    /// afterwards, and what was seen counts if nobody has noted anything meanwhile, who may have seen a later change; so the last one
    /// leaves both in agreement. A step is made again only because another thread has made one.
    ///
    /// The modes to ask are those in which the timer was put by their names: one that it is in as a common item has it until it is none
    /// any more (S-MODE-16).
    private func settle(_ timer: Timer, in mode: Mode) {
        var changed: Mode? = mode == .common ? nil : mode
        while true {
            let (known, stamp) = timers.state(of: timer.record)
            let finding: KeptTimers.Finding
            // Not asked by what a subclass may have overridden.
            if !RLTimerIsValid(timer.reference) {
                finding = .isNowhere
            } else if let asked = changed ?? known {
                finding = contains(timer, forMode: asked) ? .isIn(asked) : .isNotIn(asked)
            } else {
                finding = contains(timer, forMode: .common) ? .isIn(nil) : .isNowhere
            }
            guard timers.note(finding, of: timer, ifStill: stamp) else { continue }
            guard case .isNotIn = finding else { return }
            changed = nil
        }
    }
}
