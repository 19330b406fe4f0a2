// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif
internal import Synchronization

/// What a loop of another kind that lives on the same thread, Foundation's, has to be told of and to ask.
package enum GuestLoop {
    private final class Listener: Sendable {
        let call: @Sendable (RunLoop.Mode) -> Void
        let serve: @Sendable () -> Void
        let isServing: @Sendable () -> Bool
        init(
            _ call: @escaping @Sendable (RunLoop.Mode) -> Void, _ serve: @escaping @Sendable () -> Void, _ isServing: @escaping @Sendable () -> Bool
        ) {
            self.call = call
            self.serve = serve
            self.isServing = isServing
        }
    }

    private static let listener = AtomicLazyReference<Listener>()

    /// From now on the function is called on each thread before a run of its loop that a Swift function makes; the first one stays. The others
    /// let the calling thread's guest make one more pass before a wait, and say whether it makes one.
    package static func tell(
        serve: @escaping @Sendable () -> Void, isServing: @escaping @Sendable () -> Bool, _ function: @escaping @Sendable (RunLoop.Mode) -> Void
    ) {
        _ = listener.storeIfNil(Listener(function, serve, isServing))
    }

    static var isServing: Bool { listener.load()?.isServing() ?? false }

    /// Does nothing on a thread without a guest.
    static func serve() { listener.load()?.serve() }

    static func beforeRun(in mode: RunLoop.Mode) { listener.load()?.call(mode) }

    /// Whether a run of that mode of the calling thread's loop would return at once.
    package static func isModeEmpty(_ mode: RunLoop.Mode) -> Bool { mode.rawValue.withCString { RLIsModeEmpty($0) } }

    static func prepare() { _ = listener.load() }

    /// How many forks lie between this process and the one that began.
    package static var forks: UInt { ForkedChild.generation }
}
