// SPDX-License-Identifier: MIT
/// An end of a channel for messages, which a loop receives.
///
/// A port made as such is Mach-like (S-NSP-12): threads of this process that have the object send to it. A message
/// waits in its queue until a loop that has the port runs in one of the port's modes (S-NSP-1), and goes to the
/// ``delegate()`` there, one in each pass (S-NSP-4). Releasing a port does not invalidate it: whoever owns it does
/// so first (S-NSP-11).
///
/// A subclass that is no Mach-like port overrides ``isValid``, ``invalidate()``, ``schedule(in:forMode:)``,
/// ``remove(from:forMode:)`` and the send functions (S-NSP-18). A loop learns of its invalidation from
/// ``didBecomeInvalidNotification``.
///
/// - Threads: all members may be used from any thread; the delegate is called on the loop's.
/// - Foundation: `Port` (`NSPort`). CF: `CFMachPortRef`.
// Sendable: the mutable state is in locked storage; a subclass answers for its own.
open class Port: @unchecked Sendable {
    /// Posted when a port has become invalid, with the port as its object (S-NSP-10).
    @_disfavoredOverload
    public static var didBecomeInvalidNotification: Notification.Name { .init("NSPortDidBecomeInvalidNotification") }

    private struct Listener {
        weak var delegate: (any PortDelegate)?
    }
    private let listener = Locked(Listener())

    /// Made when it is first used, so that a subclass that has channels of its own costs nothing.
    private let channel: Locked<MachChannel?>

    /// Makes a Mach-like port, or the base of a subclass.
    public init() {
        channel = Locked(nil)
        PortBridge.begin
    }

    // An initializer that only this module sees would take the convenience initializers from subclasses of other modules.
    /// Gives a new port, before anybody else has it, a channel that exists.
    final func begin(over known: MachChannel) { channel.withLock { $0 = known } }

    /// The Mach-like channel, made if there is none yet.
    final var machChannel: MachChannel {
        if let known = machChannelIfMade { return known }
        // Others may find it, and send to it, as soon as it is there. If another one is there already, this one has served nobody.
        let made = MachChannel()
        made.serve(self)
        return channel.withLock { channel in
            let known = channel ?? made
            channel = known
            return known
        }
    }

    /// The Mach-like channel, if anybody has used it.
    final var machChannelIfMade: MachChannel? { channel.withLock { $0 } }

    /// Sets the delegate, which gets the messages. The port does not keep the delegate alive (S-NSP-3); without
    /// one messages are received and dropped (S-NSP-2).
    ///
    /// - Parameter anObject: the delegate, or nil.
    open func setDelegate(_ anObject: (any PortDelegate)?) {
        listener.withLock { $0.delegate = anObject }
    }

    /// The delegate, nil if none was set or it no longer exists.
    open func delegate() -> (any PortDelegate)? { listener.withLock { $0.delegate } }

    /// Whether messages can be sent to the port and received from it.
    open var isValid: Bool { machChannel.isValid }

    /// Makes the port invalid permanently: it leaves its loops, waiting senders return, queued messages are dropped, and
    /// ``didBecomeInvalidNotification`` is posted; a second call does nothing (S-NSP-10).
    open func invalidate() { machChannel.invalidate(self) }

    /// Called by a loop that the port is added to; programs do not call it.
    ///
    /// - Parameters:
    ///   - runLoop: the loop that is to receive.
    ///   - mode: the mode in which it does.
    open func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        machChannel.schedule(in: runLoop, forMode: mode)
    }

    /// Called by a loop that the port is removed from; programs do not call it.
    ///
    /// - Parameters:
    ///   - runLoop: the loop that no longer receives.
    ///   - mode: the mode in which it did.
    open func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        machChannel.remove(from: runLoop, forMode: mode)
    }

    /// How many bytes a sender has to leave free at the beginning of the data: none.
    open var reservedSpaceLength: Int { 0 }

    /// Queues a message at this port.
    ///
    /// - Parameters:
    ///   - limitDate: how long to wait while the queue is full; a date that is not in the future makes one try.
    ///   - components: ports and sequences of bytes, such as `[UInt8]`; anything else is refused (S-NSP-19).
    ///   - receivePort: where answers are to go.
    ///   - headerSpaceReserved: ignored.
    /// - Returns: whether it was queued; false also for an invalid port (S-NSP-8).
    @_disfavoredOverload
    @discardableResult
    open func send(
        before limitDate: ContinuousClock.Instant, components: [Any]?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        send(
            before: limitDate, msgid: 0, components: components, from: receivePort, reserved: headerSpaceReserved)
    }

    /// Queues a message with a number at this port.
    ///
    /// - Parameters:
    ///   - limitDate: how long to wait while the queue is full; a date that is not in the future makes one try.
    ///   - msgID: the number that the receiver gets, of which 32 bits are carried.
    ///   - components: ports and sequences of bytes, such as `[UInt8]`; anything else is refused (S-NSP-19).
    ///   - receivePort: where answers are to go.
    ///   - headerSpaceReserved: ignored.
    /// - Returns: whether it was queued; false also for an invalid port (S-NSP-8).
    @_disfavoredOverload
    @discardableResult
    open func send(
        before limitDate: ContinuousClock.Instant, msgid msgID: Int, components: [Any]?, from receivePort: Port?,
        reserved headerSpaceReserved: Int
    ) -> Bool {
        guard let components = PortComponent.list(components) else { return false }
        let message = CarriedMessage(
            msgid: UInt32(truncatingIfNeeded: msgID), components: components, replyPort: receivePort)
        return machChannel.send(message, timeout: limitDate.secondsFromNow)
    }

    /// What makes this port the same as another.
    var identity: ObjectIdentifier { ObjectIdentifier(self) }

    /// Where the loops that have the port learn that it is invalid, and from which sender.
    var observedEnds: [(centre: NotificationCenter, sender: any AnyObject & Sendable)] { [(.default, self)] }

    /// Gives a message that has come in to the delegate.
    final func deliver(_ message: CarriedMessage) {
        let received = PortMessage(
            send: message.replyPort, receive: self, components: message.components.map(\.value))
        received.msgid = message.msgid
        delegate()?.handle(received)
    }

    /// Tells everybody that the port is invalid now.
    final func postInvalidation() {
        NotificationCenter.default.post(name: Port.didBecomeInvalidNotification, object: self)
    }
}

/// What the module for Foundation's programs does before there is the first port.
package enum PortBridge {
    // Sendable: set when the program is loaded, before it has another thread.
    nonisolated(unsafe) package static var install: (@convention(c) () -> Void)?

    static let begin: Void = install?() ?? ()
}

extension Port: Hashable {
    /// Whether both are the same object (S-NSRL-15), or socket ports of the same remote address (S-NSP-17).
    public static func == (one: Port, other: Port) -> Bool { one.identity == other.identity }

    /// Feeds the identity to `hasher`.
    public final func hash(into hasher: inout Hasher) { hasher.combine(identity) }
}

/// A message on its way, whatever carries it.
struct CarriedMessage {
    let msgid: UInt32
    var components: [PortComponent]
    var replyPort: Port?
}
