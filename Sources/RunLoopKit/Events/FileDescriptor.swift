// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// Calls a closure when a descriptor can be read or written, once for each time it was asked to.
    ///
    /// Reading and writing are switched on by ``enableCallBacks(_:persistently:)`` and both are off at first. Each switches itself off
    /// before it is reported, and is enabled again in the closure or later (S-FD-3), unless it was enabled persistently. What was ready before it was enabled
    /// is reported too (S-FD-9). Nothing is read or written by the loop (S-FD-10).
    ///
    /// ```swift
    /// let input = RunLoop.FileDescriptor(0) { input, _ in
    ///     if readSome() { input.enableCallBacks(.read) } else { input.invalidate() }
    /// }
    /// input?.enableCallBacks(.read)
    /// input.map { RunLoop.current.add($0, forMode: .default) }
    /// ```
    ///
    /// Any descriptor will do: pipes, sockets, terminals, timerfds, epoll sets; regular files are always ready (S-FD-16,
    /// S-FD-17). A mode that it was added to keeps it alive. Invalidate it before the descriptor is closed (S-FD-15).
    /// The closure is kept until then; it is given the object and does not capture it.
    ///
    /// For asynchronous code there is ``RunLoop/readiness(of:for:forMode:)``.
    ///
    /// - Threads: all members may be used from any thread; the closure is called on the loop's.
    /// - Foundation: none. CF: `CFFileDescriptorRef`, which ``getRLFileDescriptor()`` gives in its `RL` form.
    // Sendable: the only stored property is a constant reference to an object of the C library, whose
    // functions may be called from any thread (S-THR-1) and which this object keeps alive.
    public final class FileDescriptor: @unchecked Sendable {
        /// The object of the C library. This object owns one reference to it.
        let reference: RLFileDescriptorRef

        /// Makes a watch of a descriptor, in no loop yet and with both callbacks disabled (S-FD-2).
        ///
        /// - Parameters:
        ///   - descriptor: its number. Whether it is open is not checked.
        ///   - closeOnInvalidate: whether ``invalidate()``, or the end of the object, closes the descriptor.
        ///   - name: the initial ``name``.
        ///   - perform: called on the loop's thread with the object and what the descriptor is ready for, which may be both
        ///     (S-FD-5). It may do anything with the object and the loop.
        /// - Returns: nil if the number is negative (S-FD-1).
        /// - Threads: any.
        /// - CF: `CFFileDescriptorCreate`.
        public init?(
            _ descriptor: CInt, closeOnInvalidate: Bool = false, name: String? = nil,
            perform: @escaping @Sendable (FileDescriptor, Readiness) -> Void
        ) {
            let closure = FileDescriptorClosure(perform)
            var context = RLFileDescriptorContext()
            context.info = Unmanaged.passUnretained(closure).toOpaque()
            context.retain = { UnsafeMutableRawPointer(mutating: retainInfo($0)) }
            context.release = { releaseInfo($0) }
            let made = RLFileDescriptorCreate(
                descriptor, closeOnInvalidate,
                { reference, types, info in
                    FileDescriptorClosure.unretained(info!).perform(
                        FileDescriptor(wrapping: reference!), Readiness(rawValue: types))
                }, &context)
            guard let made else { return nil }
            reference = made
            setName(of: RLTypeRef(reference), name)
        }

        /// Wraps an object from C code, an `RLFileDescriptorRef`, and retains it.
        public init(wrapping reference: OpaquePointer) {
            self.reference = reference
            _ = RLRetain(RLTypeRef(reference))
        }

        deinit { RLRelease(RLTypeRef(reference)) }

        /// The object as the C functions take it; valid as long as this object lives.
        public func getRLFileDescriptor() -> OpaquePointer { reference }

        /// The number of the descriptor; nil after ``invalidate()`` (S-FD-12). CF: `CFFileDescriptorGetNativeDescriptor`.
        public var nativeDescriptor: CInt? {
            let number = RLFileDescriptorGetNativeDescriptor(reference)
            return number < 0 ? nil : number
        }

        /// Asks for one report of each kind; what is already ready is reported in the next pass (S-FD-9).
        ///
        /// The request is kept if no loop has the object yet (S-FD-6). A waiting loop takes it into account.
        ///
        /// - Parameters:
        ///   - readiness: the kinds. Those that are enabled stay so.
        ///   - persistently: until they are disabled: each pass reports what is ready, without another call (S-FD-19).
        /// - Threads: any.
        /// - CF: `CFFileDescriptorEnableCallBacks`; none for `persistently`.
        public func enableCallBacks(_ readiness: Readiness, persistently: Bool = false) {
            if persistently {
                RLFileDescriptorEnablePersistentCallBacks(reference, readiness.rawValue)
            } else {
                RLFileDescriptorEnableCallBacks(reference, readiness.rawValue)
            }
        }

        /// Withdraws the request for reports, even for readiness that was seen and not yet reported (S-FD-7).
        ///
        /// - Parameter readiness: the kinds.
        /// - Threads: any; the call does not wait for a closure that runs on another thread.
        /// - CF: `CFFileDescriptorDisableCallBacks`.
        public func disableCallBacks(_ readiness: Readiness) {
            RLFileDescriptorDisableCallBacks(reference, readiness.rawValue)
        }

        /// False after ``invalidate()``. CF: `CFFileDescriptorIsValid`.
        public var isValid: Bool { RLFileDescriptorIsValid(reference) }

        /// Ends the reports permanently and releases the closure; a second call does nothing (S-FD-11).
        ///
        /// - Threads: any; the call does not wait for a closure that runs on another thread.
        /// - CF: `CFFileDescriptorInvalidate`.
        public func invalidate() { RLFileDescriptorInvalidate(reference) }

        /// The source by which loops watch the object, the same each time as long as it is alive and valid (S-FD-14).
        ///
        /// ``RunLoop/add(_:forMode:)-(RunLoop.FileDescriptor,_)`` adds it.
        ///
        /// - Parameter order: the order of the source, if it is made by this call.
        /// - Returns: nil after ``invalidate()`` (S-FD-12).
        /// - Threads: any.
        /// - CF: `CFFileDescriptorCreateRunLoopSource`.
        public func makeRunLoopSource(order: Int = 0) -> Source? {
            RLFileDescriptorCreateRunLoopSource(reference, order).map { Source(taking: $0) }
        }
    }

    /// Adds a watch of a descriptor to a mode; one that is already there is not added again.
    ///
    /// - Parameters:
    ///   - descriptor: the watch. An invalid one is not added.
    ///   - mode: the mode; ``Mode/common`` stands for the common modes.
    /// - Threads: any.
    /// - CF: `CFRunLoopAddSource` with the object's source.
    public func add(_ descriptor: FileDescriptor, forMode mode: Mode) {
        if let source = descriptor.makeRunLoopSource() { add(source, forMode: mode) }
    }

    /// Removes a watch of a descriptor from a mode; it stays valid, and what is enabled stays enabled.
    ///
    /// - Parameters:
    ///   - descriptor: the watch.
    ///   - mode: the mode.
    /// - Threads: any.
    /// - CF: `CFRunLoopRemoveSource` with the object's source.
    public func remove(_ descriptor: FileDescriptor, forMode mode: Mode) {
        if let source = descriptor.makeRunLoopSource() { remove(source, forMode: mode) }
    }
}

extension RunLoop.FileDescriptor: Hashable, CustomStringConvertible {
    /// Two objects are equal when they represent the same object of the C library.
    public static func == (one: RunLoop.FileDescriptor, other: RunLoop.FileDescriptor) -> Bool {
        one.reference == other.reference
    }

    /// Feeds the identity of the object to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(reference) }

    /// The C library's description of the object, for debugging; the form may change.
    public var description: String { describe(RLTypeRef(reference)) }
}

/// What the C library's object holds on to. It does not know the Swift object, which the call-out makes anew.
// Sendable: the only property is constant and Sendable; the base class has none.
private final class FileDescriptorClosure: ContextInfo, @unchecked Sendable {
    let perform: @Sendable (RunLoop.FileDescriptor, RunLoop.Readiness) -> Void

    init(_ perform: @escaping @Sendable (RunLoop.FileDescriptor, RunLoop.Readiness) -> Void) { self.perform = perform }
}
