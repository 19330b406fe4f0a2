// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// A trace is a file in which the process records what all its loops do: runs, sleeps, callbacks and what causes them (S-TRC-13).
///
/// `runloop-trace` turns it into what Perfetto (ui.perfetto.dev) shows. The file can be read at any time, also after the process was killed.
/// A program that is started with `RUNLOOP_TRACE=file` in its environment is traced from its first loop on without any call.
extension RunLoop {
    /// Why a trace was not started; a log line says it in words, but not of a path with a zero byte in it.
    public enum TraceError: Error, Sendable {
        /// A trace is on, or is being started or stopped.
        case isTracing
        /// The file cannot be made, or there is no room for it, or there is one that is no trace.
        case noFile
    }

    /// Starts a trace of all loops of the process.
    ///
    /// ```swift
    /// try RunLoop.startTrace(at: "/tmp/server.trace")
    /// defer { RunLoop.stopTrace() }
    /// ```
    ///
    /// All closures of a kind have the same function, so the names of items are more helpful in a trace.
    ///
    /// - Parameters:
    ///   - path: The file; `%p` in it stands for the process's number. A former trace is replaced, but no other file.
    ///     Beside the trace of a
    ///     living process the file gets the process's number as a suffix.
    ///   - loops: How many loops get a ring of one megabyte each, from 1 to 1024.
    /// - Throws: ``TraceError``. Only the start can fail.
    public static func startTrace(at path: String, loops: Int = 16) throws(TraceError) {
        if isTracing { throw .isTracing }
        if path.isCutInC { throw .noFile }
        if !RLTraceStart(path, loops) { throw isTracing ? .isTracing : .noFile }
    }

    /// Ends the trace; does nothing if none is on.
    public static func stopTrace() { RLTraceStop() }

    /// Whether a trace is on.
    public static var isTracing: Bool { RLIsTracing() }
}
