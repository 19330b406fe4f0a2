// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// Membership. A mode keeps its items alive, so the caller may let go of an item as soon as it was
// added (S-REF-2). In all of these calls `Mode.common` stands for the common modes: adding an item
// under it adds the item to each mode that is common now or becomes so later (S-MODE-14).

extension RunLoop {
    /// Adds a timer to a mode; a timer that is already there is not added again.
    ///
    /// The loop keeps the object while it is in a mode and valid (S-NSTM-13).
    /// A timer belongs to one loop: while another loop has it, and when it is invalid, nothing
    /// happens (S-TMR-13, S-TMR-18). A waiting loop takes it into account without a wake-up (S-WAKE-13).
    ///
    /// - Threads: any.
    /// - Foundation: `add(_:forMode:)`. CF: `CFRunLoopAddTimer`.
    public func add(_ timer: Timer, forMode mode: Mode) {
        keeping(timer, in: mode) { mode.rawValue.withCString { RLAddTimer(reference, timer.reference, $0) } }
    }

    /// Removes a timer from a mode; it stays valid and keeps its date.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopRemoveTimer`.
    public func remove(_ timer: Timer, forMode mode: Mode) {
        mode.rawValue.withCString { RLRemoveTimer(reference, timer.reference, $0) }
        dropIfInNoMode(timer, after: mode)
    }

    /// Whether a mode of this loop has the timer.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopContainsTimer`.
    public func contains(_ timer: Timer, forMode mode: Mode) -> Bool {
        mode.rawValue.withCString { RLContainsTimer(reference, timer.reference, $0) }
    }

    /// The date of the timer of a mode that fires next, nil if the mode has no timer (S-TMR-55).
    ///
    /// The date may be past, when that timer is overdue or its closure is being called.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopGetNextTimerFireDate`, which returns 0 in place of nil.
    public func nextTimerFireDate(forMode mode: Mode) -> ContinuousClock.Instant? {
        let seconds = mode.rawValue.withCString { RLGetNextTimerFireDate(reference, $0) }
        return seconds == 0 ? nil : Dates.instant(of: seconds)
    }
}

extension RunLoop {
    /// Adds a source to a mode; one that is already there is not added again.
    ///
    /// A source may be in several modes and in several loops. A custom one has its `schedule` closure
    /// called inside this call, on this thread, for each mode it is really added to (S-SRC-18). From
    /// another thread, adding a custom source wakes the loop (S-WAKE-15). An invalid source is not
    /// added.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopAddSource`.
    public func add(_ source: Source, forMode mode: Mode) {
        mode.rawValue.withCString { RLAddSource(reference, source.reference, $0) }
    }

    /// Removes a source from a mode; it stays valid and keeps its signal (S-SRC-27).
    ///
    /// A custom source has its `cancel` closure called inside this call, on this thread (S-SRC-19).
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopRemoveSource`.
    public func remove(_ source: Source, forMode mode: Mode) {
        mode.rawValue.withCString { RLRemoveSource(reference, source.reference, $0) }
    }

    /// Whether a mode of this loop has the source.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopContainsSource`.
    public func contains(_ source: Source, forMode mode: Mode) -> Bool {
        mode.rawValue.withCString { RLContainsSource(reference, source.reference, $0) }
    }
}

extension RunLoop {
    /// Adds an observer to a mode; one that is already there is not added again.
    ///
    /// An observer belongs to one loop: while another loop has it, and when it is invalid, nothing
    /// happens (S-OBS-10, S-OBS-17). Observers do not keep a run going (S-OBS-12).
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopAddObserver`.
    public func add(_ observer: Observer, forMode mode: Mode) {
        mode.rawValue.withCString { RLAddObserver(reference, observer.reference, $0) }
    }

    /// Removes an observer from a mode; it stays valid.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopRemoveObserver`.
    public func remove(_ observer: Observer, forMode mode: Mode) {
        mode.rawValue.withCString { RLRemoveObserver(reference, observer.reference, $0) }
    }

    /// Whether a mode of this loop has the observer.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopContainsObserver`.
    public func contains(_ observer: Observer, forMode mode: Mode) -> Bool {
        mode.rawValue.withCString { RLContainsObserver(reference, observer.reference, $0) }
    }
}
