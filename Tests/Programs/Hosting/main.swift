// SPDX-License-Identifier: MIT
// Foundation's own classes on a loop of RunLoopKit's, and the other way round, on the main thread and on others. Prints a line for
// each scenario; a test looks at them. A scenario that would wait for ever is ended by an alarm.
import RunLoopKitFoundation

/// Asked by the leak sanitizer. Foundation's tasks of URL sessions lose lists of libcurl's, also in a program that has nothing but Foundation,
/// and a process of its keeps itself.
@_cdecl("__lsan_default_suppressions") public func leakSuppressions() -> UnsafePointer<CChar> {
    UnsafeRawPointer(("leak:libcurl.so\nleak:10Foundation7Process\nleak:12replacements\n" as StaticString).utf8Start).assumingMemoryBound(to: CChar.self)
}

typealias Scenario = (name: String, body: @Sendable (State) -> Bool)

/// What the callbacks of a scenario share; all run on its thread.
final class State: @unchecked Sendable {
    var count = 0
    var other = 0
    var isDone = false
    var lines: [String] = []
}

/// The scenarios that are named on the command line, or all.
let chosen = CommandLine.arguments.dropFirst()

func run(_ name: String, _ body: @Sendable (State) -> Bool) {
    if !chosen.isEmpty, !chosen.contains(name) { return }
    alarm(60)
    print("\(name): \(body(State()) ? "ok" : "FAILED")")
    fflush(nil)
}

/// Runs a scenario on a new thread and waits for its end, without a loop.
func onThread(_ body: @escaping @Sendable () -> Bool) -> Bool {
    nonisolated(unsafe) var result = false
    let end = DispatchSemaphore(value: 0)
    let thread = Thread {
        result = body()
        end.signal()
    }
    thread.start()
    end.wait()
    return result
}

guard RunLoop.hostsFoundation() else {
    print("this Foundation cannot be hosted")
    exit(2)
}
for (name, body) in scenarios { run("main, \(name)", body) }
for (name, body) in mainScenarios { run(name, body) }
for (name, body) in scenarios {
    run("thread, \(name)") { state in
        onThread { RunLoop.hostsFoundation() && body(state) }
    }
}
run("ends of threads", endsOfThreads)
run("child of fork", childOfFork)
run("child in a wait of theirs", childInWaitOfTheirs)
run("no descriptors", noDescriptors)
run("descriptors for theirs come back", descriptorsForTheirs)
run("descriptors for ours come back", descriptorsForOurs)
