/// What a mode knows of one descriptor number: `PortSet`.
struct PortSlot {
    /// In the order of their turns; the order among version 1 sources is that of their addition.
    var members: SmallSet<Source>
    var generation: UInt32
    var state: State
    /// The `Readiness` the kernel is asked for.
    var armed: UInt8
    /// An eventfd or timerfd, whose count is taken before a version 1 source performs (S-SRC-46).
    var isCounter: Bool
    var marks: Marks

    enum State: UInt8 {
        case unused = 0
        /// Not told to the kernel yet: no descriptor or no room.
        case waiting
        case registered
        /// Not watchable.
        case refused
        /// Not told to the kernel, because nothing was of interest so far.
        case idle
        /// Not watchable and always ready: a regular file, /dev/null.
        case steady
        /// The number was closed, or names another file than when it was registered.
        case gone
    }

    struct Marks: OptionSet {
        let rawValue: UInt8
        /// The registration is edge triggered, because what the kernel reports interests nobody (S-SOCK-51).
        static var edge: Marks { Marks(rawValue: 1) }
        /// The slot is in `steady`.
        static var queued: Marks { Marks(rawValue: 2) }
        /// Nothing is of interest until `deferredUntil`.
        static var deferred: Marks { Marks(rawValue: 4) }
    }
}

typealias PortSlotPointer = UnsafeMutablePointer<PortSlot>
