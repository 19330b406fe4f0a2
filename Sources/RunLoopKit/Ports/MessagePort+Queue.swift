// SPDX-License-Identifier: MIT
internal import CDispatch
public import Dispatch

#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension MessagePort {
    /// Makes a dispatch queue serve the port's messages in place of a run loop (S-MSG-12).
    ///
    /// The ``setRequestHandler(_:)``'s closure or the ``Port/delegate()`` is called on the queue, for one message after
    /// the other, even
    /// on a concurrent queue. A port that was found by name, one that is invalid and one that is in a loop are refused, with a log line. While the queue
    /// is busy, or suspended, a message that has its turn occupies one thread of libdispatch's.
    ///
    /// - Parameter queue: replaces any former queue; with nil messages wait for a loop or for another queue.
    /// - Threads: any. The call does not wait for a call of the handler that is under way or about to begin.
    /// - Foundation: none. CF: `CFMessagePortSetDispatchQueue`.
    public func setDispatchQueue(_ queue: DispatchQueue?) {
        guard let queue else { return RLMessagePortSetDispatchQueue(reference, nil) }
        // The C library takes libdispatch's own object, which a `DispatchQueue` does not give out: it gets a queue whose messages
        // go on to that one.
        let relay = dispatch_queue_create("RunLoopKit.MessagePort", nil)
        dispatch_queue_set_specific(
            relay, MessagePort.relayKey, Unmanaged.passRetained(queue).toOpaque(),
            { Unmanaged<DispatchQueue>.fromOpaque($0!).release() })
        RLMessagePortSetDispatchQueue(reference, UnsafeMutableRawPointer(relay))
        releaseDispatchObject(relay)
    }

    /// By which a relay knows its queue: an address of this module's.
    // Sendable: nobody looks at what is there.
    nonisolated(unsafe) static let relayKey = UnsafeRawPointer(UnsafeMutablePointer<UInt8>.allocate(capacity: 1))

    /// Calls the body on the queue that the calling thread relays messages to; here if it is no relay's.
    ///
    /// The C library gives descriptors to the thread that it calls, and the queue's may be another, as the main queue's is: so the relay's
    /// takes them for the body.
    static func onQueue<Result>(for port: RLMessagePortRef, _ body: (CarriedDescriptors?) -> Result) -> Result {
        guard let queue = dispatch_get_specific(relayKey) else { return body(nil) }
        let descriptors = CarriedDescriptors(takingFrom: port)
        defer { descriptors.drop() }
        return Unmanaged<DispatchQueue>.fromOpaque(queue).takeUnretainedValue().sync { body(descriptors) }
    }
}

/// The descriptors of a message on their way to the queue that serves it; whoever takes them closes them.
final class CarriedDescriptors: Sendable {
    private let descriptors: Locked<[CInt]>

    /// On the thread that the C library calls, during the call.
    init(takingFrom port: RLMessagePortRef) { descriptors = Locked(takeDescriptors(of: port)) }

    func take() -> [CInt] {
        descriptors.withLock { descriptors in
            defer { descriptors = [] }
            return descriptors
        }
    }

    /// Closes those that were not taken, none of which makes the calling thread wait (S-MSG-42).
    func drop() { PeerDescriptors.close(take()) }
}

/// The descriptors of the message whose callback runs on the calling thread.
func takeDescriptors(of port: RLMessagePortRef) -> [CInt] {
    let count = RLMessagePortTakeDescriptors(port, nil, 0)
    guard count > 0 else { return [] }
    return [CInt](unsafeUninitializedCapacity: count) { buffer, taken in
        taken = RLMessagePortTakeDescriptors(port, buffer.baseAddress, count)
    }
}

/// `dispatch_release`, which the compiler hides as if it counted these references itself. The conventions of Swift and of C agree on a
/// function of one pointer.
@_silgen_name("dispatch_release")
private func releaseDispatchObject(_ object: OpaquePointer)
