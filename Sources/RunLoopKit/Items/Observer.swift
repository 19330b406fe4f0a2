// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// The stages of a run that an observer can ask for.
    ///
    /// CF: `CFRunLoopActivity`, with the same raw values.
    public struct Activities: OptionSet, Hashable, Sendable {
        /// One bit for each stage.
        public let rawValue: UInt

        /// The stages of those bits; bits that name no stage are kept and mean nothing (S-OBS-13).
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The run begins: once, before anything else.
        public static var entry: Activities { Activities(rawValue: 1 << 0) }
        /// A pass begins; comes in every pass, timers or not.
        public static var beforeTimers: Activities { Activities(rawValue: 1 << 1) }
        /// Custom sources come next; comes in every pass, sources or not.
        public static var beforeSources: Activities { Activities(rawValue: 1 << 2) }
        /// The loop is about to wait; not in a pass that only polls (S-PASS-3).
        public static var beforeWaiting: Activities { Activities(rawValue: 1 << 5) }
        /// The wait is over, and what ended it has not been served yet.
        public static var afterWaiting: Activities { Activities(rawValue: 1 << 6) }
        /// The run ends: once, after everything else.
        public static var exit: Activities { Activities(rawValue: 1 << 7) }
        /// All stages, including those that later versions add.
        public static var allActivities: Activities { Activities(rawValue: 0x0FFF_FFFF) }
    }

    /// Calls a closure at the chosen stages of the runs of its modes.
    ///
    /// An observer belongs to one loop and may be in several of its modes. Its closure is not called
    /// while it is on the stack already (S-OBS-8). It does not keep a run going.
    ///
    /// - Threads: all members may be used from any thread; the closure is called on the loop's.
    /// - CF: `CFRunLoopObserverRef`, which ``getRLObserver()`` gives in its `RL` form.
    // Sendable: the only stored property is a constant reference to an object of the C library, whose
    // functions may be called from any thread (S-THR-1) and which this object keeps alive.
    public final class Observer: @unchecked Sendable {
        /// The observer of the C library. This object owns one reference to it.
        let reference: RLObserverRef

        /// Makes an observer that is in no loop yet.
        ///
        /// - Parameters:
        ///   - activities: the stages at which to call the closure.
        ///   - repeats: false for an observer that becomes invalid after its first call.
        ///   - order: observers of a mode are called in ascending order, equal ones in the order of
        ///     their addition (S-OBS-2).
        ///   - name: the initial ``name``.
        ///   - block: is given the observer and the one stage it is called for. It is kept until the
        ///     observer becomes invalid and may do everything with the loop, running it included.
        /// - Threads: any.
        /// - CF: `CFRunLoopObserverCreateWithHandler`.
        public init(
            activities: Activities, repeats: Bool = true, order: Int = 0, name: String? = nil,
            block: @escaping @Sendable (Observer, Activities) -> Void
        ) {
            let closure = ObserverClosure(block)
            var context = RLObserverContext(
                version: 0, info: Unmanaged.passUnretained(closure).toOpaque(),
                retain: retainInfo, release: releaseInfo, copyDescription: nil)
            let made = RLObserverCreate(activities.rawValue, repeats, order, observe, &context)
            guard let made else { fatalError("RunLoopKit: no memory for an observer") }
            reference = made
            setName(of: RLTypeRef(reference), name)
        }

        /// Wraps an observer from C code, an `RLObserverRef`, and retains it.
        public init(wrapping reference: OpaquePointer) {
            self.reference = reference
            _ = RLRetain(RLTypeRef(reference))
        }

        deinit { RLRelease(RLTypeRef(reference)) }

        /// The observer as the C functions take it; valid as long as this object lives.
        public func getRLObserver() -> OpaquePointer { reference }

        /// The stages it was made for. CF: `CFRunLoopObserverGetActivities`.
        public var activities: Activities { Activities(rawValue: RLObserverGetActivities(reference)) }

        /// Whether it is called more than once. CF: `CFRunLoopObserverDoesRepeat`.
        public var repeats: Bool { RLObserverDoesRepeat(reference) }

        /// Its place among the observers of a mode. CF: `CFRunLoopObserverGetOrder`.
        public var order: Int { RLObserverGetOrder(reference) }

        /// False after ``invalidate()``, and after the only call of one that does not repeat.
        /// CF: `CFRunLoopObserverIsValid`.
        public var isValid: Bool { RLObserverIsValid(reference) }

        /// Removes it from all modes permanently and releases its closure (S-OBS-16); a second call does nothing.
        ///
        /// It may be called inside the closure. From another thread a call of the closure that is
        /// under way or about to begin goes on.
        ///
        /// - Threads: any.
        /// - CF: `CFRunLoopObserverInvalidate`.
        public func invalidate() { RLObserverInvalidate(reference) }
    }
}

extension RunLoop.Observer: Hashable, CustomStringConvertible {
    /// Two objects are equal when they represent the same observer.
    public static func == (one: RunLoop.Observer, other: RunLoop.Observer) -> Bool {
        one.reference == other.reference
    }

    /// Feeds the identity of the observer to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(reference) }

    /// The C library's description of the observer, for debugging; the form may change.
    public var description: String { describe(RLTypeRef(reference)) }
}

/// What the C library's observer holds on to. It does not know the `Observer` object, which would
/// then never die: the call-out makes one, for the time of the call, over the same reference.
private final class ObserverClosure: ContextInfo {
    let block: @Sendable (RunLoop.Observer, RunLoop.Activities) -> Void

    init(_ block: @escaping @Sendable (RunLoop.Observer, RunLoop.Activities) -> Void) {
        self.block = block
    }
}

private func observe(
    _ reference: RLObserverRef?, _ activity: RLActivity, _ info: UnsafeMutableRawPointer?
) {
    let closure = ObserverClosure.unretained(info!)
    closure.block(
        RunLoop.Observer(wrapping: reference!), RunLoop.Activities(rawValue: activity.rawValue))
}
