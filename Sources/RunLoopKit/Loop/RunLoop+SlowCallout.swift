// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// A callback that takes long, as it is reported while it runs (S-SLOW-7).
    public struct SlowCallout: Sendable {
        /// What a callback is called for.
        public enum Kind: Hashable, Sendable {
            /// Also the sources of sockets, descriptors, ports and events.
            case source
            /// A timer.
            case timer
            /// An observer.
            case observer
            /// A closure or function that was queued, a job of an actor on the loop among them.
            case function
            /// The main dispatch queue.
            case mainQueue
        }

        /// The loop that is blocked.
        public let loop: RunLoop
        /// The mode in which the callback was called.
        public let mode: Mode
        /// What the callback was called for.
        public let kind: Kind
        /// The source, timer or observer; nil for a function and for the main queue.
        public let item: Item?
        /// The name of the C function that is called, which may be the library's own that calls a closure.
        public let symbol: String
        /// The kernel's number of the loop's thread.
        public let thread: Int32
        /// How long it has run, without the runs of the loop inside it.
        public let time: Duration
        /// 1 in the first report, 2 in the second, and so on.
        public let count: Int
        /// The names of the functions on the thread's stack, the innermost first, with " < " between them; empty if there is no backtrace
        /// (S-SLOW-8). A thread that computes is asked for its own by SIGURG, unless the program has set an action for that (S-SLOW-12).
        public let trace: String
        /// The addresses that `trace` names.
        public let frames: [UInt]
    }

    /// The time after which callbacks of the loop are reported while they still run; nil: they are not (S-SLOW-1).
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public var slowCalloutTime: Duration? {
        let seconds = RLGetSlowCalloutTime(reference)
        return seconds > 0 ? Duration(seconds: seconds) : nil
    }

    /// Reports callbacks that take longer than a time, while they run; replaces what was set before.
    ///
    /// A callback is reported after that time, after twice that time, and so on. The time is that of the loop's clock,
    /// at least a millisecond.
    ///
    /// - Parameters:
    ///   - time: what a callback may take. Zero and less end the reports.
    ///   - handler: called on a thread of the library. nil: a line is logged for each report.
    /// - Threads: any; applies to callbacks that begin afterwards.
    /// - CF: no counterpart.
    public func watchCallouts(longerThan time: Duration, handler: (@Sendable (SlowCallout) -> Void)? = nil) {
        guard let handler else { return RLSetSlowCalloutHandler(reference, time.inSeconds, nil, nil, nil) }
        RLSetSlowCalloutHandler(
            reference, time.inSeconds, tellSlowCallout, Unmanaged.passRetained(SlowCalloutClosure(handler)).toOpaque(), releaseSlowCallout)
    }

    /// Ends what ``watchCallouts(longerThan:handler:)`` began. A call of the handler may be under way.
    ///
    /// - Threads: any.
    /// - CF: no counterpart.
    public func stopWatchingCallouts() { RLSetSlowCalloutHandler(reference, 0, nil, nil, nil) }
}

private final class SlowCalloutClosure: Sendable {
    let handler: @Sendable (RunLoop.SlowCallout) -> Void
    init(_ handler: @escaping @Sendable (RunLoop.SlowCallout) -> Void) { self.handler = handler }
}

private func tellSlowCallout(_ callout: UnsafePointer<RLSlowCallout>, _ info: UnsafeMutableRawPointer?) {
    Unmanaged<SlowCalloutClosure>.fromOpaque(info!).takeUnretainedValue().handler(RunLoop.SlowCallout(callout.pointee))
}

private func releaseSlowCallout(_ info: UnsafeMutableRawPointer?) { Unmanaged<SlowCalloutClosure>.fromOpaque(info!).release() }

extension RunLoop.SlowCallout {
    fileprivate init(_ callout: RLSlowCallout) {
        loop = LoopRegistry.wrapper(of: callout.loop)
        mode = RunLoop.Mode(String(cString: callout.mode))
        switch callout.kind.rawValue {
        case 1: kind = .source
        case 2: kind = .timer
        case 3: kind = .observer
        case 5: kind = .mainQueue
        default: kind = .function
        }
        item = callout.item.flatMap { RunLoop.Item($0) }
        symbol = String(cString: callout.symbol)
        thread = callout.thread
        time = Duration(seconds: callout.time)
        count = Int(callout.count)
        trace = String(cString: callout.trace)
        frames = (0..<Int(callout.frameCount)).map { UInt(bitPattern: callout.frames[$0]) }
    }
}
