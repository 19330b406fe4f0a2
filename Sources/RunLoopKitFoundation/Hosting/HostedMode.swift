// SPDX-License-Identifier: MIT
internal import CRunLoopFoundation

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A mode of a thread's loop and the mode of the same name of Foundation's. Owned by the thread's `FoundationHost`.
final class HostedMode {
    let name: RunLoop.Mode
    /// The name as Foundation's string, retained.
    let foundationName: UnsafeMutableRawPointer
    /// A descriptor of our own of the set in which Foundation waits: it outlasts Foundation's loop, and its number is not given away.
    private(set) var portSet: CInt
    /// Performs when Foundation's loop has something to do in the mode.
    let bridge: RunLoop.Source
    /// The bridge is in the mode. Never while this loop's descriptor is in a set of Foundation's: the kernel refuses a circle.
    var isAttached = false

    /// Nil if Foundation's set is not to be had.
    init?(_ name: RunLoop.Mode, of foundation: UnsafeMutableRawPointer, perform: @escaping @Sendable (HostedMode) -> Void) {
        guard let text = rlf_make_mode(name.rawValue) else { return nil }
        let portSet = rlf_copy_port_set(foundation, text)
        if portSet < 0 {
            rlf_release(text)
            return nil
        }
        self.name = name
        foundationName = text
        self.portSet = portSet
        let place = WeakPlace()
        bridge = RunLoop.Source(descriptor: portSet) { _ in
            if let mode = place.mode { perform(mode) }
        }
        place.mode = self
    }

    /// So that the source's closure can be made before the object. Loop's thread only.
    private final class WeakPlace: @unchecked Sendable {
        weak var mode: HostedMode?
    }

    /// Gives the descriptor back. Frames of a thread that ended in a callback may hold the object for ever.
    func end() {
        bridge.invalidate()
        if portSet >= 0 { close(portSet) }
        portSet = -1
    }

    deinit {
        end()
        rlf_release(foundationName)
    }
}
