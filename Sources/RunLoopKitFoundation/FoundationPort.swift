// SPDX-License-Identifier: MIT
/// A port for subclasses that override Foundation's forms of sending.
///
/// Swift does not allow overriding members of an extension, such as the forms of `Port` that take a `Date`. A subclass of this
/// class overrides them, or one of them, and every form of sending to it then calls them. One that overrides nothing is a
/// Mach-like port.
///
/// Without an override each of the two forms calls the other, which may have one, and queues the message when it is called from there. So an override
/// of one form is called once for each message, and may call the same form of `super` to queue it. (All that an override of the plain form queues so
/// while it is called for a message with a number has that number.) Where both are overridden, `super` calls the other one's override, as Foundation's form
/// with a number does. An override that passes its message to the other form of its own port is called for it again, without an end.
///
/// - Threads: all members may be used from any thread.
/// - Foundation: `Port`.
open class FoundationPort: Port, @unchecked Sendable {
    private enum Form { case plain, numbered }

    /// What a thread's innermost call of one form, without an override, has given to the other.
    private final class Given {
        var port: ObjectIdentifier?
        var form = Form.plain
        var msgID = 0
    }

    private static let given = ThreadLocal<Given>()

    static func prepare() { _ = given }

    /// The number of the message with which a form of this port has called the other one, and has not returned; nil if it has not. A form that
    /// meets its own mark knows that the other one has an override, which sends a further message.
    private func number(givenBy form: Form) -> Int? {
        guard let given = FoundationPort.given.known, given.port == ObjectIdentifier(self), given.form == form else { return nil }
        return given.msgID
    }

    private func giving(_ msgID: Int, by form: Form, to other: () -> Bool) -> Bool {
        let given = FoundationPort.given.value { Given() }
        let outer = (given.port, given.form, given.msgID)
        (given.port, given.form, given.msgID) = (ObjectIdentifier(self), form, msgID)
        defer { (given.port, given.form, given.msgID) = outer }
        return other()
    }

    private func queue(_ msgID: Int, before limitDate: Date, _ components: NSMutableArray?, from receivePort: Port?) -> Bool {
        super.send(before: limitDate.instant, msgid: msgID, components: components?.map { $0 }, from: receivePort, reserved: 0)
    }

    /// Queues a message at this port. Without an override it calls the form with a number, which may have one.
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
        if let msgID = number(givenBy: .numbered) { return queue(msgID, before: limitDate, components, from: receivePort) }
        return giving(0, by: .plain) {
            send(before: limitDate, msgid: 0, components: components, from: receivePort, reserved: headerSpaceReserved)
        }
    }

    /// Queues a message with a number at this port. Without an override it calls the form without one, which may have one.
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
        if number(givenBy: .plain) != nil { return queue(msgID, before: limitDate, components, from: receivePort) }
        return giving(msgID, by: .numbered) {
            send(before: limitDate, components: components, from: receivePort, reserved: headerSpaceReserved)
        }
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
