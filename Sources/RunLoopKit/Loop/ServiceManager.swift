// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// Messages to systemd, or to another service manager that understands `sd_notify`; its library is not needed (S-SDN-1).
public enum ServiceManager {
    /// Sends assignments such as `READY=1`, with newlines between them.
    ///
    /// - Parameter state: as sd_notify(3) lists them.
    /// - Returns: whether it was sent; false for a program that no service manager started.
    /// - Threads: any.
    @discardableResult
    public static func notify(_ state: String) -> Bool { RLServiceNotify(state) }

    /// Reports that the service is ready, with a status line for people.
    ///
    /// - Parameter status: one line; nil keeps the present one.
    /// - Returns: whether it was sent.
    /// - Threads: any.
    @discardableResult
    public static func ready(status: String? = nil) -> Bool {
        notify(status.map { "READY=1\nSTATUS=\($0)" } ?? "READY=1")
    }

    /// Reports that the service ends.
    ///
    /// - Returns: whether it was sent.
    /// - Threads: any.
    @discardableResult
    public static func stopping() -> Bool { notify("STOPPING=1") }

    /// Reports to the service manager, twice in the time that it asks for, that a loop still runs (S-SDN-2).
    ///
    /// The loop keeps it, and it keeps its modes from being finished, until it is invalidated.
    public final class Watchdog: Sendable {
        // Sendable: a constant reference to a timer of the C library, which may be used from any thread (S-THR-1).
        nonisolated(unsafe) private let reference: RLTimerRef

        /// Makes one; nil if the service manager does not ask this process for it.
        ///
        /// - Threads: any.
        public init?() {
            guard let timer = RLServiceWatchdogCreate() else { return nil }
            reference = timer
        }

        deinit { RLRelease(RLTypeRef(reference)) }

        /// Adds it to a mode of a loop. It reports while the loop runs in that mode and is not blocked by a callback (S-SDN-3).
        ///
        /// - Threads: any.
        public func add(to loop: RunLoop, forMode mode: RunLoop.Mode = .default) {
            mode.rawValue.withCString { RLAddTimer(loop.reference, reference, $0) }
        }

        /// Ends it.
        ///
        /// - Threads: any.
        public func invalidate() { RLTimerInvalidate(reference) }
    }
}
