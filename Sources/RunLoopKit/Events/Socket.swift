// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

extension RunLoop {
    /// Listens, connects, receives and sends, and calls a closure for what happens.
    ///
    /// A socket has up to three callback types, chosen when it is made: one of ``CallBackTypes/read``,
    /// ``CallBackTypes/accept`` and ``CallBackTypes/data``, together with ``CallBackTypes/connect`` and
    /// ``CallBackTypes/write`` or without. When a loop first has it all of them are enabled (S-SOCK-19). While the closure
    /// runs for one, that one is off; afterwards it is on again if ``flags`` say so, as they do at first for the types
    /// that read (S-SOCK-4).
    ///
    /// ```swift
    /// let address = RunLoop.Socket.Address.ipv4("127.0.0.1", port: 8080)!
    /// let listener = try RunLoop.Socket(listeningAt: address) { _, event in
    ///     if case .accepted(let descriptor, let peer) = event { serve(descriptor, peer) }
    /// }
    /// RunLoop.current.add(listener, forMode: .default)
    /// ```
    ///
    /// A socket lives until ``invalidate()``, also when nobody holds it (S-SOCK-8), and that closes its descriptor unless
    /// the flags say otherwise (S-SOCK-10). Its closure is kept until then; it is given the socket and does not capture it.
    ///
    /// - Threads: all members may be used from any thread; the closure is called on the loop's.
    /// - Foundation: none; ``SocketPort`` sends messages. CF: `CFSocketRef`, which ``getRLSocket()`` gives in its `RL` form.
    // Sendable: the only stored property is a constant reference to an object of the C library, whose
    // functions may be called from any thread (S-THR-1) and which this object keeps alive.
    public final class Socket: @unchecked Sendable {
        /// What a socket calls its closure for.
        public struct CallBackTypes: OptionSet, Hashable, Sendable {
            /// The bits of `RLSocketCallBackType`.
            public let rawValue: UInt

            /// A set of those bits; others are dropped (S-SOCK-1).
            public init(rawValue: UInt) { self.rawValue = rawValue }

            /// There is something to read, or the end; the closure reads it (S-SOCK-23).
            public static var read: CallBackTypes { CallBackTypes(rawValue: 1) }
            /// The loop accepts each connection and passes its descriptor to the closure (S-SOCK-28).
            public static var accept: CallBackTypes { CallBackTypes(rawValue: 2) }
            /// The loop reads, and passes chunks or datagrams to the closure (S-SOCK-25).
            public static var data: CallBackTypes { CallBackTypes(rawValue: 3) }
            /// A connect has ended, successfully or not; once in the life of a socket (S-SOCK-30).
            public static var connect: CallBackTypes { CallBackTypes(rawValue: 4) }
            /// There is room to write; once, then again after ``enableCallBacks(_:)`` (S-SOCK-29).
            public static var write: CallBackTypes { CallBackTypes(rawValue: 8) }
        }

        /// What a socket does after its closure and at its end.
        public struct Flags: OptionSet, Hashable, Sendable {
            /// The bits of `RLSocketFlag`.
            public let rawValue: UInt

            /// A set of those bits.
            public init(rawValue: UInt) { self.rawValue = rawValue }

            /// Reading is on again after the closure was called for it.
            public static var automaticallyReenablesRead: Flags { Flags(rawValue: 1) }
            /// Accepting is on again after the closure was called for it.
            public static var automaticallyReenablesAccept: Flags { Flags(rawValue: 2) }
            /// Data are read again after the closure was called for them.
            public static var automaticallyReenablesData: Flags { Flags(rawValue: 3) }
            /// Writing is on again after the closure was called for it.
            public static var automaticallyReenablesWrite: Flags { Flags(rawValue: 8) }
            /// The error of a connect is left for the program to read (S-SOCK-30, S-SOCK-37).
            public static var leavesErrors: Flags { Flags(rawValue: 64) }
            /// ``RunLoop/Socket/invalidate()`` closes the descriptor.
            public static var closesOnInvalidate: Flags { Flags(rawValue: 128) }
        }

        /// What happened.
        public enum Event: Hashable, Sendable {
            /// There is something to read, or the end of it.
            case readable
            /// A connection was taken. The descriptor is the closure's to close; it is close-on-exec.
            case accepted(CInt, from: Address)
            /// A chunk of a stream, of length 0 at its end, after which the socket is invalid (S-SOCK-26); or a datagram
            /// with its sender. The address is nil where there is none.
            case data([UInt8], from: Address?)
            /// A connect has succeeded, or failed with this error.
            case connected(SystemError?)
            /// There is room to write; what ``RunLoop/Socket/write(_:highWater:)`` had queued is sent.
            case writable
            /// What was queued is lost with the connection, for this reason (S-SOCK-60).
            case writeFailed(SystemError)
        }

        /// What a socket carries.
        public enum Kind: Hashable, Sendable {
            /// A stream of bytes between two ends.
            case stream
            /// Datagrams, each for itself.
            case datagram

            fileprivate var type: CInt {
                switch self {
                case .stream: CInt(SOCK_STREAM.rawValue)
                case .datagram: CInt(SOCK_DGRAM.rawValue)
                }
            }
        }

        /// The socket of the C library. This object owns one reference to it.
        let reference: RLSocketRef

        /// Makes a socket without an address, and a descriptor for it.
        ///
        /// - Parameters:
        ///   - family: such as `AF_INET` or `AF_UNIX`.
        ///   - kind: what it carries.
        ///   - callBackTypes: what to call the closure for.
        ///   - name: the initial ``name``.
        ///   - perform: called on the loop's thread with the socket and what happened. It may do anything with the
        ///     socket and the loop.
        /// - Throws: the system's error if no socket is available.
        /// - Threads: any.
        /// - CF: `CFSocketCreate`.
        public init(
            family: CInt, kind: Kind = .stream, callBackTypes: CallBackTypes, name: String? = nil,
            perform: @escaping @Sendable (Socket, Event) -> Void
        ) throws(SystemError) {
            let made = SocketClosure(perform).makeSocket { context in
                RLSocketCreate(family, kind.type, 0, callBackTypes.rawValue, reportSocketEvent, context)
            }
            guard let made else { throw .last }
            reference = made
            setName(of: RLTypeRef(reference), name)
        }

        /// Makes a socket of a descriptor, which need not be one of a socket for reading and writing (S-SOCK-50).
        ///
        /// A process has one socket for one descriptor: if there is already one this object represents it, with the
        /// types and the closure that it has (S-SOCK-2).
        ///
        /// - Parameters:
        ///   - descriptor: is closed by ``invalidate()`` unless ``flags`` say otherwise. -1 gives an invalid socket.
        ///   - callBackTypes: what to call the closure for.
        ///   - name: the initial ``name``.
        ///   - perform: called on the loop's thread with the socket and what happened.
        /// - Threads: any.
        /// - CF: `CFSocketCreateWithNative`.
        public init(
            descriptor: CInt, callBackTypes: CallBackTypes, name: String? = nil, perform: @escaping @Sendable (Socket, Event) -> Void
        ) {
            let made = SocketClosure(perform).makeSocket { context in
                RLSocketCreateWithNative(descriptor, callBackTypes.rawValue, reportSocketEvent, context)
            }
            guard let made else { fatalError("RunLoopKit: no memory for a socket") }
            reference = made
            setName(of: RLTypeRef(reference), name)
        }

        /// Makes a socket that listens at an address, or, for datagrams, receives there.
        ///
        /// - Parameters:
        ///   - address: with port 0 the system chooses a port, which ``address`` contains.
        ///   - kind: what it carries.
        ///   - callBackTypes: what to call the closure for; nil accepts connections of a stream and reads datagrams.
        ///   - options: nil is ``Options/reusesAddress`` for a stream, so that a server can start again, and none for datagrams.
        ///   - backlog: how many connections may wait to be accepted.
        ///   - name: the initial ``name``.
        ///   - perform: called on the loop's thread with the socket and what happened.
        /// - Throws: the system's error if the address cannot be used.
        /// - Threads: any.
        /// - CF: `CFSocketCreateWithSocketSignature`.
        public convenience init(
            listeningAt address: Address, kind: Kind = .stream, callBackTypes: CallBackTypes? = nil,
            options: Options? = nil, backlog: Int = 256, name: String? = nil, perform: @escaping @Sendable (Socket, Event) -> Void
        ) throws(SystemError) {
            try self.init(
                family: address.family, kind: kind, callBackTypes: callBackTypes ?? (kind == .stream ? .accept : .data),
                name: name, perform: perform)
            do throws(SystemError) {
                try listen(at: address, options: options ?? (kind == .stream ? .reusesAddress : []), backlog: backlog)
            } catch {
                invalidate()
                throw error
            }
        }

        /// Makes a socket that connects to an address, at once or in the background.
        ///
        /// - Parameters:
        ///   - address: that of the peer.
        ///   - kind: what it carries.
        ///   - callBackTypes: what to call the closure for.
        ///   - timeout: see ``connect(to:timeout:)``.
        ///   - name: the initial ``name``.
        ///   - perform: called on the loop's thread with the socket and what happened.
        /// - Throws: the system's error if no connection can be made; `ETIMEDOUT` after the time.
        /// - Threads: any; the call may block if it is given a time.
        /// - CF: `CFSocketCreateConnectedToSocketSignature`.
        public convenience init(
            connectingTo address: Address, kind: Kind = .stream, callBackTypes: CallBackTypes = [.data, .connect],
            timeout: Duration? = nil, name: String? = nil, perform: @escaping @Sendable (Socket, Event) -> Void
        ) throws(SystemError) {
            try self.init(family: address.family, kind: kind, callBackTypes: callBackTypes, name: name, perform: perform)
            do throws(SystemError) { try connect(to: address, timeout: timeout) } catch {
                invalidate()
                throw error
            }
        }

        /// Wraps a socket from C code, an `RLSocketRef`, and retains it.
        public init(wrapping reference: OpaquePointer) {
            self.reference = reference
            _ = RLRetain(RLTypeRef(reference))
        }

        deinit { RLRelease(RLTypeRef(reference)) }

        /// The socket as the C functions take it; valid as long as this object lives.
        public func getRLSocket() -> OpaquePointer { reference }
    }
}

extension RunLoop.Socket: Hashable, CustomStringConvertible {
    /// Two objects are equal when they represent the same socket.
    public static func == (one: RunLoop.Socket, other: RunLoop.Socket) -> Bool { one.reference == other.reference }

    /// Feeds the identity of the socket to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(reference) }

    /// The C library's description of the socket, for debugging; the form may change.
    public var description: String { describe(RLTypeRef(reference)) }
}

/// What the C library's socket holds on to. It does not know the Swift object, which the call-out makes anew.
// Sendable: the only property is constant and Sendable; the base class has none.
private final class SocketClosure: ContextInfo, @unchecked Sendable {
    let perform: @Sendable (RunLoop.Socket, RunLoop.Socket.Event) -> Void

    init(_ perform: @escaping @Sendable (RunLoop.Socket, RunLoop.Socket.Event) -> Void) { self.perform = perform }

    /// Calls `make` with a context that has this object.
    func makeSocket(_ make: (UnsafePointer<RLSocketContext>) -> RLSocketRef?) -> RLSocketRef? {
        var context = RLSocketContext(
            version: 0, info: Unmanaged.passUnretained(self).toOpaque(), retain: retainInfo, release: releaseInfo,
            copyDescription: nil)
        return make(&context)
    }
}

private func reportSocketEvent(
    _ reference: RLSocketRef?, _ type: RLSocketCallBackType, _ address: RLDataRef?, _ data: UnsafeRawPointer?,
    _ info: UnsafeMutableRawPointer?
) {
    let closure = SocketClosure.unretained(info!)
    let event: RunLoop.Socket.Event
    switch type {
    case .acceptCallBack:
        event = .accepted(data!.load(as: CInt.self), from: RunLoop.Socket.Address(address) ?? .unknown)
    case .dataCallBack:
        event = .data(bytes(of: OpaquePointer(data)), from: RunLoop.Socket.Address(address))
    case .connectCallBack:
        event = .connected(data.map { RunLoop.SystemError(code: $0.load(as: Int32.self)) })
    case .writeCallBack:
        event = data.map { .writeFailed(RunLoop.SystemError(code: $0.load(as: Int32.self))) } ?? .writable
    default: event = .readable
    }
    closure.perform(RunLoop.Socket(wrapping: reference!), event)
}

/// A copy of the bytes; none for nil.
func bytes(of data: RLDataRef?) -> [UInt8] {
    let count = RLDataGetLength(data)
    return count == 0 ? [] : [UInt8](UnsafeRawBufferPointer(start: RLDataGetBytePtr(data), count: count))
}
