// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// Lines that the specification requires once per process; the raw value is a bit of `Process.logged`.
enum LoggedOnce: UInt32 {
    case addSourceToEndedMain = 0
    case addTimerToEndedMain = 1
    case addObserverToEndedMain = 2
    case performOnEndedMain = 3
    case runOfPseudoMode = 4
    case noDescriptor = 5
    case cannotAccept = 8
    case lostDescriptor = 9
    case foreignRunOfPseudoMode = 6
    case foreignRunOnOtherThread = 7
    case noWatcher = 10
    case slowEnvironment = 11
    case invalidationCallBackOfDeadPort = 12
    case noClockThread = 13
    case noClockDescriptor = 14
    case messagePortCrowded = 20
    case noMessagePortMonitor = 21

    /// Whether the line tells the caller of a function what is wrong with that call. No peer, limit of the kernel or other process can choose that it is
    /// written, and it may wait for room on standard error.
    var mayWait: Bool {
        switch self {
        case .addSourceToEndedMain, .addTimerToEndedMain, .addObserverToEndedMain, .performOnEndedMain, .runOfPseudoMode, .foreignRunOfPseudoMode,
            .foreignRunOnOtherThread, .invalidationCallBackOfDeadPort:
            true
        default: false
        }
    }
}

/// Lines for the person who runs the program (S-ARG-9). They go to the client's handler or to standard error.
enum Log {
    /// Logs a line the first time it is called for `once`, or the next time if the line was left out. False if it does not.
    @discardableResult
    static func once(_ once: LoggedOnce, _ function: StaticString, _ message: StaticString) -> Bool {
        let bit: UInt32 = 1 << once.rawValue
        if process.pointee.logged.bitwiseOr(bit, ordering: .relaxed).oldValue & bit != 0 { return false }
        if write(function, message, mayWait: once.mayWait) { return true }
        process.pointee.logged.bitwiseAnd(~bit, ordering: .relaxed)
        return false
    }

    @discardableResult
    static func write(_ function: StaticString, _ message: StaticString, mayWait: Bool = false) -> Bool {
        var text = TextBuffer()
        text.append(function)
        text.append(message)
        return line(text, mayWait: mayWait)
    }

    /// Passes a line to the handler, and frees it, also if the handler ends the thread (S-LOOP-19). No lock is held while it runs, and none may be held
    /// by the caller. False if it may not wait for room on standard error and was not taken whole.
    @discardableResult
    static func line(_ text: TextBuffer, mayWait: Bool = false) -> Bool {
        var text = text
        process.pointee.logLock.lockWord()
        let handler = process.pointee.logHandler
        let info = process.pointee.logInfo
        process.pointee.logLock.unlockWord()
        var isLogged = true
        if let handler {
            var call = HandlerCall(handler: handler, line: text.terminated(), info: info)
            callOutGuarded({ $0!.cast(to: HandlerCall.self).pointee.make() }, &call, { CRunLoopLinux.free($0) }, call.line)
        } else {
            text.append("\n")
            // One write per line: lines of several threads and processes do not mix.
            isLogged = rl_write_line(text.bytes, text.count, mayWait)
        }
        text.free()
        return isLogged
    }

    static func setHandler(_ handler: LogHandler?, _ info: UnsafeMutableRawPointer?) {
        process.pointee.logLock.lockWord()
        process.pointee.logHandler = handler
        process.pointee.logInfo = info
        process.pointee.logLock.unlockWord()
    }
}

private struct HandlerCall {
    let handler: LogHandler
    let line: UnsafeMutablePointer<CChar>
    let info: UnsafeMutableRawPointer?

    func make() { callOutLogHandler(handler, line, info) }
}
