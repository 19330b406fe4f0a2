// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension Port {
    /// The program's name for the port, which the description of a loop that has the port shows; initially nil.
    ///
    /// Names are for people: ports are not found by them. A socket port that only sends, and one that is invalid, is in no loop
    /// and keeps no name. Subclasses often have a `name` of their own.
    ///
    /// - Threads: any.
    /// - Foundation, CF: no counterpart.
    public var debugName: String? {
        get {
            switch self {
            case let port as SocketPort: port.listener?.name
            case let port as MessagePort: objectName(RLTypeRef(port.reference))
            default: objectName(RLTypeRef(machChannel.reference))
            }
        }
        set {
            switch self {
            case let port as SocketPort:
                port.listener?.name = newValue
            case let port as MessagePort:
                RLSetName(RLTypeRef(port.reference), newValue)
                port.withSource { RLSetName(RLTypeRef($0), newValue) }
            default:
                RLSetName(RLTypeRef(machChannel.reference), newValue)
                machChannel.withSource { RLSetName(RLTypeRef($0), newValue) }
            }
        }
    }

    /// Gives the port a name where it is made: `Port().named("commands")`.
    ///
    /// - Parameter name: the new ``debugName``.
    /// - Returns: the port.
    /// - Threads: any.
    @discardableResult
    public func named(_ name: String) -> Self {
        debugName = name
        return self
    }
}
