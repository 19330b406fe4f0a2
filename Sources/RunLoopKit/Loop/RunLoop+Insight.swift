// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// A source, timer or observer in a list of a mode's items; it keeps the item of the C library alive.
    ///
    /// Two are equal when they represent the same item.
    public struct Item: Hashable, CustomStringConvertible, Sendable {
        /// What an item can be.
        public enum Kind: Hashable, Sendable {
            /// Also the sources of sockets, descriptors, ports and events.
            case source
            /// A timer.
            case timer
            /// An observer.
            case observer
        }

        /// What the item is.
        public let kind: Kind

        // Sendable: a constant reference to an object of the C library, which may be asked from any thread (S-THR-1).
        private final class Keeper: @unchecked Sendable {
            let object: RLTypeRef
            init(taking object: RLTypeRef) { self.object = object }
            deinit { RLRelease(object) }
        }
        private let keeper: Keeper

        fileprivate init?(taking object: RLTypeRef) {
            keeper = Keeper(taking: object)
            switch RLGetTypeIDOf(object) {
            case RLSourceGetTypeID(): kind = .source
            case RLTimerGetTypeID(): kind = .timer
            case RLObserverGetTypeID(): kind = .observer
            default: return nil
            }
        }

        /// With a reference of its own.
        init?(_ object: RLTypeRef) { self.init(taking: RLRetain(object)!) }

        /// Its name, nil if the program gave it none.
        ///
        /// - Threads: any.
        public var name: String? { objectName(keeper.object) }

        /// The C library's description of it, in one line; the form may change.
        public var description: String { describe(keeper.object) }

        /// The item as the C functions take it, an `RLTypeRef`; valid as long as this value exists.
        public func getRLObject() -> OpaquePointer { OpaquePointer(keeper.object) }

        /// Whether both represent the same item.
        public static func == (one: Item, other: Item) -> Bool { one.keeper.object == other.keeper.object }

        /// Feeds the item's identity to `hasher`.
        public func hash(into hasher: inout Hasher) { hasher.combine(keeper.object) }
    }

    /// The items of a mode, each once: sources first, then timers, then observers (S-SEE-4).
    ///
    /// - Parameter mode: ``Mode/common`` stands for the common items.
    /// - Returns: an empty array for a mode that does not exist; the call does not make it.
    /// - Threads: any; other threads may have changed the mode by the time of the return.
    /// - CF: no counterpart.
    public func items(in mode: Mode) -> [Item] {
        var count: RLIndex = 0
        let all = RLItemKinds(rawValue: 0x0FFF_FFFF)
        guard let items = mode.rawValue.withCString({ RLCopyItems(reference, $0, all, &count) }) else { return [] }
        defer { release(block: items) }
        return (0..<count).compactMap { index in items[index].flatMap { Item(taking: $0) } }
    }

    /// Writes what the loop does, what is in it, and what keeps each mode from being finished, to a descriptor (S-SEE-10).
    ///
    /// - Parameter descriptor: standard error if it is left out.
    /// - Returns: whether all was written.
    /// - Threads: any, even while the loop's own thread is stuck; not in a signal handler.
    /// - CF: `CFShow` of a loop.
    @discardableResult
    public func dump(to descriptor: CInt = 2) -> Bool { RLDump(reference, descriptor) }

    /// Writes the same of all loops of the process whose threads live.
    ///
    /// - Parameter descriptor: standard error if it is left out.
    /// - Returns: whether all was written.
    /// - Threads: any; not in a signal handler.
    /// - CF: no counterpart.
    @discardableResult
    public static func dumpAll(to descriptor: CInt = 2) -> Bool { RLDump(nil, descriptor) }

    /// Shows the loops of the process to other processes of the user, such as runloop-top(1), or stops showing them
    /// (S-OUT-1). The environment
    /// variable `RUNLOOP_SHARE=1` does the same without a call.
    ///
    /// - Parameter isOn: beginning or ending twice does nothing.
    /// - Returns: false if it could not begin; the reason is in the log.
    /// - Threads: any.
    /// - CF: no counterpart.
    @discardableResult
    public static func share(_ isOn: Bool = true) -> Bool { RLSetShared(isOn) }

    /// Whether other processes can see the process's loops.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public static var isShared: Bool { RLIsShared() }
}
