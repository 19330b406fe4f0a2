// SPDX-License-Identifier: MIT
public import Logging
public import RunLoopKit

extension RunLoop {
    /// Sends the library's log lines to a logger of swift-log instead of standard error, for the whole process.
    ///
    /// The library logs what no result reports to a caller: a peer that is refused, or a directory that is not safe. The
    /// logger is kept
    /// for the life of the process.
    ///
    /// - Parameters:
    ///   - logger: its handler is called on the thread that logs.
    ///   - level: of these lines.
    /// - Threads: any.
    public static func log(to logger: Logger, level: Logger.Level = .warning) {
        setLogHandler { line in logger.log(level: level, "\(line)", source: "RunLoop") }
    }
}
