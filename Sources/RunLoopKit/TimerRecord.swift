internal import Synchronization

/// What is known of a timer also when it is invalid, and the C library has forgotten its date.
final class TimerRecord: Sendable {
    /// The interval as it was given, exactly (S-NSTM-12); zero for a timer that fires once.
    let interval: Duration
    /// The bits of the date last seen; any thread may write it, and the newest value is as good as any.
    private let fireDateBits: Atomic<UInt64>

    init(interval: Duration, fireDate: AbsoluteTime) {
        self.interval = interval
        fireDateBits = Atomic(fireDate.seconds.bitPattern)
    }

    var fireDate: AbsoluteTime {
        get { AbsoluteTime(seconds: Double(bitPattern: fireDateBits.load(ordering: .relaxed))) }
        set { fireDateBits.store(newValue.seconds.bitPattern, ordering: .relaxed) }
    }
}

/// What the C library's timer holds on to until it becomes invalid (S-NSTM-9).
///
/// It does not know a `Timer` object, which would then never die: the call-out makes one, for the time
/// of the call, over the same timer and the same record.
// Sendable: both properties are constant and Sendable; the base class has none.
final class TimerClosure: ContextInfo, @unchecked Sendable {
    let record: TimerRecord
    let block: @Sendable (Timer) -> Void

    init(record: TimerRecord, block: @escaping @Sendable (Timer) -> Void) {
        self.record = record
        self.block = block
    }
}
