// SPDX-License-Identifier: MIT
// What the library makes at its first use: all of it has to be made before a `fork`, which may come while another thread makes it.
//
// usage: RunLoopTestFirstUses              tells what a fork leaves unmade
//        RunLoopTestFirstUses race TIMES   forks while another thread makes a first use, so many times for each, in processes of their
//                                          own: the program calls itself. Prints how the children ended. A few hang where the Swift
//                                          runtime or Foundation makes something of its own (Docs/design.md), on a busy machine one
//                                          in some thousands
import Glibc
import RunLoopKit
import RunLoopKitFoundation
import Synchronization

@_silgen_name("fork") func makeChild() -> pid_t

/// How the child ended.
func wait(for child: pid_t) -> String {
    var status: CInt = 0
    waitpid(child, &status, 0)
    return status & 0x7F == 0 ? "exit \(status >> 8 & 0xFF)" : "signal \(status & 0x7F)"
}

// Calls from C and `@Sendable` closures alone: what the program does between the two threads is not to be a first use of anything.
final class Racer: Sendable {
    private let step = Atomic(0)
    private let use: @Sendable () -> Void

    init(_ use: @escaping @Sendable () -> Void) { self.use = use }

    /// The thread that the child has not.
    func start() -> pthread_t {
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            {
                let racer = Unmanaged<Racer>.fromOpaque($0!).takeUnretainedValue()
                racer.step.store(1, ordering: .releasing)
                while racer.step.load(ordering: .acquiring) < 2 {}
                racer.use()
                return nil
            }, Unmanaged.passUnretained(self).toOpaque())
        while step.load(ordering: .acquiring) < 1 {}
        return thread
    }

    /// Lets the thread go and forks after so many looks at the step; the child does the same as the thread.
    func race(_ looks: Int) -> String {
        var ends: (read: CInt, write: CInt) = (0, 0)
        withUnsafeMutableBytes(of: &ends) { _ = pipe($0.assumingMemoryBound(to: CInt.self).baseAddress!) }
        let thread = start()
        step.store(2, ordering: .releasing)
        for _ in 0..<looks { _ = step.load(ordering: .acquiring) }
        let child = makeChild()
        if child == 0 {
            use()
            _exit(0)
        }
        close(ends.write)
        pthread_join(thread, nil)
        // Ready when the child has ended. One that hangs may be in `fork` itself, so that it cannot set an alarm.
        var end = pollfd(fd: ends.read, events: Int16(POLLIN), revents: 0)
        if poll(&end, 1, 20_000) == 0 { kill(child, SIGKILL) }
        return wait(for: child)
    }
}

/// The same process from its beginning, for one attempt.
func attempt(_ use: Int, _ looks: Int) -> pid_t {
    let words = ["first-uses", "attempt", String(use), String(looks)]
    let arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
    defer { for argument in arguments { free(argument) } }
    var process = pid_t()
    let status = posix_spawn(&process, "/proc/self/exe", nil, nil, arguments + [nil], environ)
    precondition(status == 0, "posix_spawn")
    return process
}

func race(_ times: Int) {
    for (index, use) in uses.enumerated() {
        var ends: [String: Int] = [:]
        for time in 0..<times { ends[wait(for: attempt(index, time * 4000 / times)), default: 0] += 1 }
        print("\(use.name): \(ends.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value) times" }.joined(separator: ", "))")
    }
}

/// What a child would have to make, which its parent might have been making.
func unmade() {
    guard let tokens = OnceTokens(), !tokens.unmade.isEmpty else { return print("made before a fork: nothing") }
    let child = makeChild()
    if child == 0 {
        let names = tokens.unmade
        print("made before a fork: \(names.isEmpty ? "all" : "not \(names.joined(separator: ", "))")")
        fflush(nil)
        _exit(0)
    }
    _ = wait(for: child)
}

switch Array(CommandLine.arguments.dropFirst()) {
case let words where words.first == "attempt" && words.count == 3:
    let end = Racer(uses[Int(words[1])!].body).race(Int(words[2])!)
    exit(end == "exit 0" ? 0 : 1)
case let words where words.first == "race" && words.count == 2: race(Int(words[1])!)
default: unmade()
}
