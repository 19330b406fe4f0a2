// SPDX-License-Identifier: MIT
/// RunLoopKit's port, with the forms that take Foundation's dates and data.
public typealias Port = RunLoopKit.Port

/// RunLoopKit's Mach-like port.
public typealias NSMachPort = RunLoopKit.MachPort

/// RunLoopKit's message port, which Foundation on Linux does not have.
public typealias MessagePort = RunLoopKit.MessagePort

/// RunLoopKit's socket port.
public typealias SocketPort = RunLoopKit.SocketPort

/// RunLoopKit's message between ports.
public typealias PortMessage = RunLoopKit.PortMessage

/// The delegate of a port of RunLoopKit's.
public typealias PortDelegate = RunLoopKit.PortDelegate

/// A port with Foundation's forms of sending, which call those that take an instant and an array.
///
/// They belong to a protocol so that a subclass can have its own of the same name: ``FoundationPort``.
public protocol DatedPort: Port {}

extension Port: DatedPort {
    /// Posted to Foundation's default centre when a port has become invalid, with the port as its object (S-NSP-10).
    ///
    /// A subclass that overrides `invalidate()` posts it by itself (S-NSP-18). Observers of RunLoopKit's default centre also get
    /// what is posted to Foundation's, and vice versa.
    public static var didBecomeInvalidNotification: Foundation.Notification.Name {
        .init("NSPortDidBecomeInvalidNotification")
    }
}

extension DatedPort {
    /// Queues a message at this port. It calls the form that takes an instant and an array, which a subclass may override.
    ///
    /// - Parameters:
    ///   - limitDate: how long to wait while the queue is full; a date that is not in the future makes one try.
    ///   - components: data and ports; anything else is refused (S-NSP-19).
    ///   - receivePort: where answers are to go.
    ///   - headerSpaceReserved: ignored.
    /// - Returns: whether it was queued; false also for an invalid port (S-NSP-8).
    @discardableResult
    public func send(
        before limitDate: Date, components: NSMutableArray?, from receivePort: Port?, reserved headerSpaceReserved: Int
    ) -> Bool {
        send(
            before: limitDate.instant, components: components?.map { $0 }, from: receivePort, reserved: headerSpaceReserved)
    }

    /// Queues a message with a number at this port. It calls the form that takes an instant and an array, which a subclass may
    /// override.
    ///
    /// - Parameters:
    ///   - limitDate: how long to wait while the queue is full; a date that is not in the future makes one try.
    ///   - msgID: the number that the receiver gets, of which 32 bits are carried.
    ///   - components: data and ports; anything else is refused (S-NSP-19).
    ///   - receivePort: where answers are to go.
    ///   - headerSpaceReserved: ignored.
    /// - Returns: whether it was queued; false also for an invalid port (S-NSP-8).
    @discardableResult
    public func send(
        before limitDate: Date, msgid msgID: Int, components: NSMutableArray?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        let values = components?.map { $0 }
        return send(
            before: limitDate.instant, msgid: msgID, components: values, from: receivePort,
            reserved: headerSpaceReserved)
    }
}

extension PortMessage {
    /// The data and ports of the message; of a received one each is a `Data` or a port.
    public var components: [Any]? {
        values?.map { value in
            if let bytes = value as? [UInt8] { return Data(bytes) }
            return value
        }
    }

    /// Sends the message.
    ///
    /// - Parameter date: how long to wait while the queue of the destination is full; a date that is not in the
    ///   future makes one try.
    /// - Returns: whether it was queued (S-NSP-7).
    public func send(before date: Date) -> Bool { send(before: date.instant) }
}

extension SocketPort {
    /// The `sockaddr` of the port: for a local one that at which it listens.
    public var address: Data { Data(addressBytes) }
}

extension Date {
    /// The instant that is as far away as this date.
    var instant: ContinuousClock.Instant {
        if self >= .distantFuture { return .distantFuture }
        if self <= .distantPast { return .distantPast }
        return .now + .seconds(timeIntervalSinceNow)
    }
}

@section(".init_array") @used
private let loadConstructor: @convention(c) () -> Void = {
    PortBridge.install = { InvalidationBridge.install() }
    // Before a fork, what RunLoopKit's `ForkedChild` does for that module's `static let`s.
    pthread_atfork(
        {
            NotificationQueue.prepare()
            FoundationPort.prepare()
            FoundationHost.prepare()
        }, nil, nil)
}

/// Tells each of the two default centres of the invalidations that were posted to the other.
private enum InvalidationBridge {
    /// In the information of what was posted by this bridge.
    static var mark: String { "RunLoopKitFoundation.InvalidationBridge" }

    static func install() {
        let name = Foundation.Notification.Name("NSPortDidBecomeInvalidNotification")
        let own = RunLoopKit.Notification.Name(name.rawValue)
        _ = RunLoopKit.NotificationCenter.default.addObserver(forName: own, object: nil, queue: nil) { note in
            if note.userInfo?[mark] != nil { return }
            Foundation.NotificationCenter.default.post(name: name, object: note.object, userInfo: [mark: true])
        }
        _ = Foundation.NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { note in
            guard note.userInfo?[mark] == nil, let port = note.object as? Port else { return }
            RunLoopKit.NotificationCenter.default.post(name: own, object: port, userInfo: [mark: true])
        }
    }
}
