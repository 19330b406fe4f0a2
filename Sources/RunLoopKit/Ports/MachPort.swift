// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// A port between the threads of this process, with the contract of a Mach port.
///
/// Its queue holds five messages unless ``setQueueLimit(_:)`` says otherwise; a thread that sends to a full queue waits. C code
/// has the same ports as `RLMachPortRef`.
///
/// - Threads: all members may be used from any thread; the delegate is called on the loop's.
/// - Foundation: `NSMachPort`. CF: `CFMachPortRef`, which ``getRLMachPort()`` gives in its `RL` form.
public final class MachPort: Port, MachPortNumbered, @unchecked Sendable {
    /// What happens to the rights of a port; there are none here, so they have no effect.
    ///
    /// Foundation: `NSMachPort.Options`.
    public struct Options: OptionSet, Hashable, Sendable {
        /// The bits of Foundation's options.
        public let rawValue: UInt

        /// A set of those bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// The right to send is released when the port becomes invalid.
        public static var deallocateSendRight: Options { Options(rawValue: 1 << 0) }
        /// The right to receive is released when the port becomes invalid.
        public static var deallocateReceiveRight: Options { Options(rawValue: 1 << 1) }
    }

    /// Makes a new port.
    public override init() { super.init() }

    convenience init(channel: MachChannel) {
        self.init()
        begin(over: channel)
    }

    /// The object of a port from C code, made if there is none: one object for each port.
    ///
    /// A port that C code made keeps C's receiver, so that a delegate of the object gets nothing.
    ///
    /// - Parameter reference: a live `RLMachPortRef`; anything else is a programming error.
    public static func wrapping(_ reference: OpaquePointer) -> Port { MachChannel.object(of: reference) }

    /// The port as the C functions take it, an `RLMachPortRef`; valid as long as this object lives.
    public func getRLMachPort() -> OpaquePointer { machChannel.reference }

    /// A descriptor that is readable while messages are queued, for a loop of another kind; -1 if there is none.
    ///
    /// It is made at the first use and belongs to the port. To receive, run a loop that has the port.
    ///
    /// - Foundation: `machPort`, a number of the kernel's.
    public var machPort: CInt { RLMachPortGetPort(machChannel.reference) }

    /// Sets how many messages the queue holds before senders wait, at least one.
    ///
    /// - Parameter limit: the number, initially 5.
    /// - Foundation: no counterpart.
    public func setQueueLimit(_ limit: Int) { RLMachPortSetQueueLimit(machChannel.reference, limit) }
}

/// What has a number by which other code of the process finds it.
///
/// An initializer of a class always makes a new object; that of a protocol may return the existing one, as
/// Foundation's does. ``MachPort`` alone conforms.
public protocol MachPortNumbered {
    /// The number: a descriptor that can be read while messages are queued.
    var machPort: CInt { get }
}

extension MachPortNumbered where Self == MachPort {
    /// The port of a number that ``MachPort/machPort`` or `RLMachPortGetPort` gave in this process: the same object for the
    /// same port, as long as it is referenced (S-PORT-3).
    ///
    /// A port that C code made keeps C's receiver, so that a delegate of the object gets nothing. A number that is
    /// not a port's, and that of an invalid port, make an invalid object.
    ///
    /// - Parameter machPort: the number.
    /// - Foundation: `init(machPort:)`.
    public init(machPort: CInt) { self = MachChannel.port(ofNumber: machPort) }

    /// The port of a number, as ``init(machPort:)`` gives it.
    ///
    /// - Parameters:
    ///   - machPort: the number.
    ///   - options: have no effect here, because ports have no rights.
    /// - Foundation: `init(machPort:options:)`.
    public init(machPort: CInt, options: MachPort.Options) { self = MachChannel.port(ofNumber: machPort) }
}

/// Gets the messages of a Mach-like port as they travelled.
///
/// Foundation: `MachPortDelegate`.
public protocol MachPortDelegate: PortDelegate {
    /// Gets one message in place of ``PortDelegate/handle(_:)`` (S-NSP-2).
    ///
    /// - Parameter message: what travelled.
    func handleMachMessage(_ message: MachMessage)
}

/// A message as it travelled: of several components, or of ports, the bytes are only a key.
public struct MachMessage: Hashable, Sendable {
    /// The number that the sender gave.
    public let msgid: UInt32
    /// What the sender sent, if that was one array of bytes.
    public let bytes: [UInt8]
}

extension Port {
    /// Whether objects of this class have a Mach-like channel, which a subclass inherits.
    class var isMachLike: Bool { !(self is SocketPort.Type) && !(self is MessagePort.Type) }
}
