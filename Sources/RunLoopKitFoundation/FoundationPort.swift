// SPDX-License-Identifier: MIT
/// A port for subclasses that override Foundation's forms of sending.
///
/// Swift does not allow overriding members of an extension, such as the forms of `Port` that take a `Date`. A subclass of this
/// class overrides them, or one of them, and every form of sending to it then calls them. One that overrides nothing is a
/// Mach-like port.
///
/// - Threads: all members may be used from any thread.
/// - Foundation: `Port`.
open class FoundationPort: Port, @unchecked Sendable {
    /// Queues a message at this port. Without an override it calls the form with a number.
    ///
    /// - Parameters:
    ///   - limitDate: how long to wait while the queue is full.
    ///   - components: data and ports.
    ///   - receivePort: where answers are to go.
    ///   - headerSpaceReserved: ignored.
    /// - Returns: whether it was queued.
    @discardableResult
    open func send(
        before limitDate: Date, components: NSMutableArray?, from receivePort: Port?, reserved headerSpaceReserved: Int
    ) -> Bool {
        send(before: limitDate, msgid: 0, components: components, from: receivePort, reserved: headerSpaceReserved)
    }

    /// Queues a message with a number at this port.
    ///
    /// - Parameters:
    ///   - limitDate: how long to wait while the queue is full.
    ///   - msgID: the number that the receiver gets.
    ///   - components: data and ports.
    ///   - receivePort: where answers are to go.
    ///   - headerSpaceReserved: ignored.
    /// - Returns: whether it was queued.
    @discardableResult
    open func send(
        before limitDate: Date, msgid msgID: Int, components: NSMutableArray?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        super.send(
            before: limitDate.instant, msgid: msgID, components: components?.map { $0 }, from: receivePort,
            reserved: headerSpaceReserved)
    }

    /// Calls the form with a date.
    @_disfavoredOverload
    public final override func send(
        before limitDate: ContinuousClock.Instant, components: [Any]?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        send(
            before: limitDate.date, components: components.map { NSMutableArray(array: $0) }, from: receivePort,
            reserved: headerSpaceReserved)
    }

    /// Calls the form with a date.
    @_disfavoredOverload
    public final override func send(
        before limitDate: ContinuousClock.Instant, msgid msgID: Int, components: [Any]?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        send(
            before: limitDate.date, msgid: msgID, components: components.map { NSMutableArray(array: $0) }, from: receivePort,
            reserved: headerSpaceReserved)
    }
}

extension ContinuousClock.Instant {
    /// The date that is as far away as this instant.
    fileprivate var date: Date {
        if self >= .distantFuture { return .distantFuture }
        if self <= .distantPast { return .distantPast }
        return Date(timeIntervalSinceNow: (self - .now) / .seconds(1))
    }
}
