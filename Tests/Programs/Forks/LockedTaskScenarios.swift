// SPDX-License-Identifier: MIT
// Tasks that another thread is cancelling, or giving a higher priority, when the main thread forks. The Swift runtime locks a task for that, and
// in the child the lock is never free: whoever resumes such a task there waits for ever, and that is never the loop (S-FORK-6).
import Glibc
import RunLoopKit

private func pass() { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }

/// A thread that has locked a task, in a handler which the runtime calls under the task's lock.
private final class Locker: Sendable {
    private let isHeld = Flag()
    private let mayEnd = Flag()

    /// The handler.
    func hold() {
        isHeld.set()
        while !mayEnd.isSet { usleep(1000) }
    }

    /// How a child ended that was forked meanwhile, and whose loop has other things to do.
    func end(_ placement: Placement, forksAgain: Bool = false, lock: @escaping @Sendable () -> Void) -> String {
        let thread = onThread(lock)
        while !isHeld.isSet { usleep(1000) }
        let end = inChild {
            let isOver = Flag()
            placement.start { _ in
                for await _ in RunLoop.main.ticks(every: .milliseconds(1)) { break }
                isOver.set()
            }
            while !isOver.isSet { pass() }
            // Nor does a fork in the child wait for ever for the thread that waits for the lock.
            return !forksAgain || inChild { for _ in 0..<5 { pass() }; return 0 } == "exit 0" ? 0 : 1
        }
        mayEnd.set()
        thread.join()
        return end
    }
}

/// What tasks wait for: a loop that vanishes, in all ways, and the end of its thread.
private final class Waits: Sendable {
    private let idle = IdleThread()
    private let ends: (read: CInt, write: CInt)
    private let port = MessagePort()
    let all: [@Sendable () async -> Void]

    init(_ name: String) {
        let (idle, loop) = (idle, idle.thread.loop)
        var pipeEnds: (read: CInt, write: CInt) = (0, 0)
        withUnsafeMutableBytes(of: &pipeEnds) { _ = pipe($0.assumingMemoryBound(to: CInt.self).baseAddress!) }
        ends = pipeEnds
        let readEnd = ends.read
        let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        listen(listener, 1)
        let name = "RunLoopKit.Forks.locked.\(name).\(getpid())"
        _ = MessagePortNameServer.sharedInstance().registerPort(port, name: name)
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort
        all = [
            { try? await loop.call {} },
            { for await _ in loop.ticks(every: .seconds(1000)) {} },
            { for await _ in loop.readiness(of: readEnd) {} },
            { for await _ in loop.connections(takingOver: listener) {} },
            // Nobody serves the port.
            { _ = try? await remote.request([1], on: loop) },
            { await idle.thread.finish() },
        ]
    }

    func end() {
        port.invalidate()
        idle.end()
        close(ends.read)
        close(ends.write)
    }
}

private func summary(_ results: [String]) -> String { Set(results) == ["exit 0"] ? "exit 0" : "\(results)" }

/// All of them, and their ends by the cancellation, of which the loop has not heard yet.
func cancelledTasks(_ placement: Placement) -> String {
    let waits = Waits("cancelled.\(placement)")
    let over = Counter()
    var results: [String] = []
    for wait in waits.all {
        let isWaiting = Flag()
        let locker = Locker()
        let task = placement.start { _ in
            await withTaskCancellationHandler {
                isWaiting.set()
                await wait()
            } onCancel: {
                locker.hold()
            }
            over.add()
        }
        while !isWaiting.isSet { pass() }
        for _ in 0..<20 { pass() }
        results.append(locker.end(placement, forksAgain: results.isEmpty) { task.cancel() })
    }
    waits.end()
    while over.value < waits.all.count { pass() }
    return summary(results)
}

#if compiler(>=6.2)
/// All of them, and a call to the loop that goes on, which a task elsewhere waits for.
func escalatedTasks(_ placement: Placement) -> String {
    let waits = Waits("escalated.\(placement)")
    let over = Counter()
    var results: [String] = []
    func escalate(_ task: Task<Void, Never>, _ locker: Locker) {
        results.append(locker.end(placement) { task.escalatePriority(to: TaskPriority(rawValue: 0x21)) })
    }
    for wait in waits.all {
        let isWaiting = Flag()
        let locker = Locker()
        let task = placement.start { _ in
            await withTaskPriorityEscalationHandler {
                isWaiting.set()
                await wait()
            } onPriorityEscalated: { _, _ in
                locker.hold()
            }
            over.add()
        }
        while !isWaiting.isSet { pass() }
        for _ in 0..<20 { pass() }
        escalate(task, locker)
    }
    let isWaiting = Flag()
    let locker = Locker()
    let task = Task.detached {
        await withTaskPriorityEscalationHandler {
            isWaiting.set()
            try? await RunLoop.main.call {}
        } onPriorityEscalated: { _, _ in
            locker.hold()
        }
        over.add()
    }
    // The loop makes no pass before the child does. That the task waits by then is likely, and if not the child has less to do.
    while !isWaiting.isSet { usleep(1000) }
    usleep(20_000)
    escalate(task, locker)
    waits.end()
    while over.value < waits.all.count + 1 { pass() }
    return summary(results)
}
#else
/// There are no handlers of the kind.
func escalatedTasks(_ placement: Placement) -> String { "exit 0" }
#endif
