// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

internal import Synchronization

/// Something that is done once, by whichever thread comes first; the others wait until it is done.
///
///     let setUp = Once()
///     setUp.call { table.fill() }
///
/// A `static let` is set up once too, but a thread that forks meanwhile leaves a child that waits for ever at it. Here a call in the child
/// does it anew (S-SYNC-17).
///
/// - Threads: any. A closure that calls ``call(_:)`` of its own once waits for ever; one that ends its thread counts as not called.
/// - Foundation: none; `dispatch_once` of libdispatch in C. C: `RLOnce`.
// Sendable: the number is used by the functions of the C library alone, which any thread may call.
public struct Once: ~Copyable, @unchecked Sendable {
    private let state: _Cell<UInt32>

    /// Makes a once whose closure has not been called.
    public init() { state = _Cell(0) }

    /// Calls a closure unless one was called before; returns when that call has returned.
    ///
    /// - Parameter body: called once. It cannot await anything.
    public borrowing func call(_ body: () -> Void) {
        let once = UnsafeMutableRawPointer(state._address).assumingMemoryBound(to: RLOnce.self)
        // Without this the closure would be put into memory for every call.
        if RLOnceIsDone(once) { return }
        withoutActuallyEscaping(body) { body in
            var body = body
            withUnsafeMutablePointer(to: &body) { pointer in
                RLOnceCall(once, { $0!.assumingMemoryBound(to: (() -> Void).self).pointee() }, pointer)
            }
        }
    }
}
