// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// Sends the library's few log lines to a closure instead of standard error, for the whole process.
    ///
    /// A thread that logs meanwhile may still call the former closure after this call has returned. So each closure is kept for
    /// the life of the process; set one, at the start of the program.
    ///
    /// - Parameter handler: gets one line, without a newline, on the thread that logs. Names from outside the process are made
    ///   printable in it. nil: standard error again.
    /// - Threads: any.
    /// - CF: no counterpart.
    public static func setLogHandler(_ handler: (@Sendable (_ line: String) -> Void)?) {
        guard let handler else { return RLSetLogHandler(nil, nil) }
        let info = Unmanaged.passRetained(LogHandlerBox(handler)).toOpaque()
        RLSetLogHandler({ line, info in
            Unmanaged<LogHandlerBox>.fromOpaque(info!).takeUnretainedValue().handler(String(cString: line))
        }, info)
    }
}

private final class LogHandlerBox: Sendable {
    let handler: @Sendable (String) -> Void
    init(_ handler: @escaping @Sendable (String) -> Void) { self.handler = handler }
}
