// SPDX-License-Identifier: MIT
/// What one port sends to another: data and ports, and a number.
///
/// - Foundation: `PortMessage`. The bytes of a component are an array here; RunLoopKitFoundation gives them as
///   `Data`.
open class PortMessage {
    /// A number that tells receivers what the message is about, initially 0; the library does not use it.
    open var msgid: UInt32 = 0

    /// Of a message to send, where it goes; of a received one, where an answer goes (S-NSP-5, S-NSP-6).
    open var sendPort: Port? { destination }
    private let destination: Port?

    /// Of a message to send, where answers are to go; of a received one, the port at which it arrived.
    open var receivePort: Port? { origin }
    private let origin: Port?

    /// The data and ports of the message.
    ///
    /// A message to send may hold any values; sending takes ports and sequences of bytes, such as `[UInt8]`, and refuses
    /// the rest (S-NSP-19). Of a received one each component is a port or a `[UInt8]`.
    @_disfavoredOverload
    public var components: [Any]? { values }

    /// ``components``, for the form of this class that gives Foundation's data.
    package let values: [Any]?

    /// Makes a message to send.
    ///
    /// - Parameters:
    ///   - sendPort: where it goes.
    ///   - receivePort: where answers are to go.
    ///   - components: ports and sequences of bytes, such as `[UInt8]`.
    public init(sendPort: Port?, receivePort: Port?, components: [Any]?) {
        destination = sendPort
        origin = receivePort
        values = components
    }

    /// Makes a message to send, by the name that Apple's Foundation has for it.
    ///
    /// - Parameters:
    ///   - sendPort: where it goes.
    ///   - receivePort: where answers are to go.
    ///   - components: ports and sequences of bytes, such as `[UInt8]`.
    public convenience init(send sendPort: Port?, receive receivePort: Port?, components: [Any]?) {
        self.init(sendPort: sendPort, receivePort: receivePort, components: components)
    }

    /// Sends the message.
    ///
    /// - Parameter date: how long to wait while the queue of the destination is full; a date that is not in the
    ///   future makes one try.
    /// - Returns: whether it was queued (S-NSP-7).
    @_disfavoredOverload
    open func send(before date: ContinuousClock.Instant) -> Bool {
        sendPort?.send(before: date, msgid: Int(msgid), components: values, from: receivePort, reserved: 0) ?? false
    }
}

@available(*, unavailable)
extension PortMessage: Sendable {}

/// Gets the messages of a port, on the thread of the loop that received them.
///
/// A delegate is `Sendable`, because any code that has the port can reach it from any thread.
///
/// Foundation: `PortDelegate`.
public protocol PortDelegate: AnyObject, Sendable {
    /// Gets one message.
    ///
    /// - Parameter message: its `sendPort` is where an answer goes.
    func handle(_ message: PortMessage)
}

extension PortDelegate {
    /// Does nothing with the message.
    public func handle(_ message: PortMessage) {}
}

/// A component as it is carried.
package enum PortComponent {
    case bytes([UInt8])
    case port(Port)

    /// Nil if there is a value that cannot be sent.
    package static func list(_ values: [Any]?) -> [PortComponent]? {
        var list: [PortComponent] = []
        for value in values ?? [] {
            // The bytes first: to see whether they are a port, the runtime would make an object of each where Foundation is loaded.
            if let bytes = value as? [UInt8] {
                list.append(.bytes(bytes))
            } else if let port = value as? Port {
                list.append(.port(port))
            } else if let bytes = value as? any Sequence<UInt8> {
                list.append(.bytes(Array(bytes)))
            } else {
                return nil
            }
        }
        return list
    }

    package var value: Any {
        switch self {
        case .bytes(let bytes): bytes
        case .port(let port): port
        }
    }
}
