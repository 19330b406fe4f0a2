// SPDX-License-Identifier: MIT
// The C functions called from Swift: a one-shot timer, a signalled source and a performed function in one
// run (S-RUN-16, S-SRC-29, S-BLK-3).
import CRunLoopSystem

/// Touched by the main thread's loop only.
nonisolated(unsafe) var trace: [String] = []

@main
enum Direct {
    static func main() {
        let version = String(cString: RLGetVersion())
        precondition(version == "\(RL_VERSION_MAJOR).\(RL_VERSION_MINOR).\(RL_VERSION_PATCH)")

        var context = RLSourceContext()
        context.perform = { _ in trace.append("source") }
        guard let source = RLSourceCreate(0, &context) else { fatalError("no source") }
        RLAddSource(RLGetCurrent(), source, kRLDefaultMode)
        RLSourceSignal(source)

        let timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 0.02, 0, 0, 0, { _, _ in
            trace.append("timer")
            RLStop(RLGetCurrent())
        }, nil)
        RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode)
        RLPerformFunction(RLGetCurrent(), kRLDefaultMode, { _ in trace.append("function") }, nil, nil)

        let result = RLRunInMode(kRLDefaultMode, 60, false)
        precondition(result == .stopped, "the result was \(result)")
        precondition(trace == ["function", "source", "timer"], "the order was \(trace)")
        RLSourceInvalidate(source)
        RLRelease(RLTypeRef(source))
        RLRelease(timer.map { RLTypeRef($0) })
        print("direct: \(trace) with \(version)")
    }
}
