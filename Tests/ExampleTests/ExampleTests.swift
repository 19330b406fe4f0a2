// SPDX-License-Identifier: MIT
// The programs of the package that have a main thread of their own, which a test does not have.
import Foundation
import Testing

/// Runs a program of the package; what it wrote and how it ended.
private func run(_ name: String, _ arguments: [String] = [], interruptAt line: String? = nil) throws -> (lines: [String], status: Int32) {
    let bundle = CommandLine.arguments.first { $0.contains(".xctest") } ?? CommandLine.arguments[0]
    let folder = URL(fileURLWithPath: bundle).deletingLastPathComponent()
    let process = Process()
    process.executableURL = folder.appendingPathComponent(name)
    process.arguments = arguments
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    var text = Data()
    var isInterrupted = false
    while true {
        let part = pipe.fileHandleForReading.availableData
        if part.isEmpty { break }
        text += part
        if !isInterrupted, let line, String(decoding: text, as: UTF8.self).contains(line) {
            process.interrupt()
            isInterrupted = true
        }
    }
    process.waitUntilExit()
    let lines = String(decoding: text, as: UTF8.self).split(separator: "\n").map(String.init)
    return (lines, process.terminationStatus)
}

/// A program of the package that goes on while it is talked to.
private final class Running {
    private let process = Process()
    private let pipe = Pipe()
    private var text = Data()

    init(_ name: String, _ arguments: [String] = []) throws {
        process.arguments = arguments
        let bundle = CommandLine.arguments.first { $0.contains(".xctest") } ?? CommandLine.arguments[0]
        process.executableURL = URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent(name)
        process.standardOutput = pipe
        try process.run()
    }

    /// The next line; empty at the end.
    func line() throws -> String {
        while true {
            if let end = text.firstIndex(of: 10) {
                defer { text = Data(text[(end + 1)...]) }
                return String(decoding: text[..<end], as: UTF8.self)
            }
            let part = pipe.fileHandleForReading.availableData
            if part.isEmpty { return "" }
            text += part
        }
    }

    func interrupt() { process.interrupt() }

    var identifier: Int32 { process.processIdentifier }

    var status: Int32 {
        process.waitUntilExit()
        return process.terminationStatus
    }
}

/// A connection to the server of lines.
private final class LineClient {
    private let descriptor: CInt

    init(port: UInt16) throws {
        descriptor = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let status = withUnsafeBytes(of: &address) {
            connect(descriptor, $0.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t($0.count))
        }
        guard status == 0 else { throw POSIXError(.ECONNREFUSED) }
    }

    /// Sends lines and gives the numbers of the answers, each of which has to end with its line.
    func answers(to lines: [String]) throws -> [Int] {
        let bytes = Array((lines.joined(separator: "\n") + "\n").utf8)
        guard write(descriptor, bytes, bytes.count) == bytes.count else { throw POSIXError(.EPIPE) }
        var received: [UInt8] = []
        var portion = [UInt8](repeating: 0, count: 1000)
        while received.count(where: { $0 == 10 }) < lines.count {
            let count = read(descriptor, &portion, portion.count)
            guard count > 0 else { throw POSIXError(.ECONNRESET) }
            received += portion[..<count]
        }
        let answers = String(decoding: received, as: UTF8.self).split(separator: "\n")
        return try zip(answers, lines).map { answer, line in
            guard answer.hasSuffix(": " + line), let number = Int(answer.dropLast(line.count + 2)) else {
                throw POSIXError(.EBADMSG)
            }
            return number
        }
    }

    deinit { close(descriptor) }
}

@Suite struct ExampleTests {
    @Test("The main queue and the main actor run on RunLoop.main, and Foundation's loop serves them too; dispatchMain ends it: S-GCD-1 S-GCD-2 S-GCD-8 S-LOOP-13 S-MSG-12")
    func mainQueue() throws {
        let (lines, status) = try run("RunLoopTestMainQueue")
        #expect(status == 0)
        let expected = """
            RunLoopKit
              dispatch a, main thread: true
              main actor a
              stopped
            a mode that is not common
              timedOut
            Foundation serves what RunLoopKit left
              dispatch b, main thread: true
              main actor b
            RunLoopKit again, and nothing is left for it
              timedOut
            Foundation's loop under a timer of RunLoopKit's
              dispatch c, main thread: true
              main actor c
              timer ends
              stopped
            RunLoopKit's loop under a timer of Foundation's
              dispatch d, main thread: true
              main actor d
              stopped
            a block that waits for another by running the loop waits in vain
              first block: finished
              second block
              stopped
            a message port that the main queue serves
              registered: true
              takes 1, main thread: true
              the end of the pipe: 0
              takes 0, main thread: true
              the end of the pipe: 0
              stopped
            dispatchMain ends the main loop, and whoever waits for it goes on
              the sequence is over
              ThreadEndedError()
              ThreadEndedError()
              an actor's value: 7
            """
        // A source is left in the mode "other" only, so the default mode is empty under a block.
        #expect(lines == expected.split(separator: "\n").map(String.init))
    }

    @Test("An asynchronous main on the main loop: timer, main actor, a signal, and a clean end: S-GCD-1 S-GCD-3")
    func app() throws {
        let (lines, status) = try run("RunLoopExampleApp", interruptAt: "the first tick came")
        #expect(status == 0)
        #expect(lines.first?.hasPrefix("running as ") == true)
        #expect(lines.dropFirst() == ["the first tick came", "signal 2", "ended after some ticks"])
    }

    @Test("An actor on a worker's loop is fed by a socket")
    func actorOnLoop() throws {
        let (lines, status) = try run("RunLoopExampleActorOnLoop")
        #expect(status == 0)
        #expect(lines == ["line 1", "line 2", "line 3", "the worker has ended"])
    }

    @Test(
        """
        Foundation's clients and loops serve each other with RunLoopKit's, on the main thread and on others: S-HOST-1 S-HOST-2 S-HOST-3 \
        S-HOST-4 S-HOST-5 S-HOST-6 S-HOST-7 S-HOST-8 S-HOST-9 S-HOST-10
        """)
    func hosting() throws {
        let (lines, status) = try run("RunLoopTestHosting")
        #expect(status == 0)
        #expect(lines.count == 61)
        #expect(lines.filter { !$0.hasSuffix(": ok") } == [])
    }

    @Test("The server of lines answers each of many connections, and ends in order by a signal")
    func lineServer() async throws {
        let server = try Running("RunLoopExampleLineServer")
        let port = try #require(UInt16(server.line().split(separator: " ").last ?? ""))
        let numbers = try await withThrowingTaskGroup(of: [Int].self) { group in
            for client in 0..<8 {
                group.addTask { try LineClient(port: port).answers(to: (0..<20).map { "client \(client), line \($0)" }) }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(numbers.sorted() == Array(1...160))
        // One that stays connected does not keep the server.
        let idle = try LineClient(port: port)
        #expect(try idle.answers(to: ["last"]) == [161])
        server.interrupt()
        #expect(try server.line() == "served 161 lines")
        #expect(server.status == 0)
    }

    @Test("The echo server keeps no client waiting for one that floods or does not read, loses no byte, and ends in order by a signal")
    func echoServer() async throws {
        let server = try Running("RunLoopExampleEchoServer")
        let port = try #require(server.line().split(separator: " ").last)
        // Both programs raise their limit of descriptors, and the clients are as many as it allows. Ten seconds of this test are what the
        // server gives the client that never reads; by then a sanitized one cannot have ended that many connections.
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        let scale = ProcessInfo.processInfo.environment["RL_STRESS_SCALE"].flatMap(Int.init) ?? 1
        let count = min(10_000 / max(scale, 1), Int(clamping: limit.rlim_max) - 64)
        let clients = try Running("RunLoopTestEchoClients", [String(port), String(count), String(server.identifier)])
        #expect(try clients.line() == "\(count) clients had 3 answers each, while one did not read and one flooded")
        #expect(clients.status == 0)
        #expect(try server.line() == "served \(count + 4) connections")
        #expect(server.status == 0)
    }

    @Test("A thread ends itself when an input source has set a value in its dictionary")
    func exitNow() throws {
        let (lines, status) = try run("RunLoopExampleExitNow")
        #expect(status == 0)
        #expect(lines == ["told to exit after 3 portions", "the thread has ended"])
    }

    @Test("The guide's programs of threads: detached, by a selector, by a subclass with a loop: S-NSTH-1 S-NSTH-10")
    func threads() throws {
        let (lines, status) = try run("RunLoopExampleThreads")
        #expect(status == 0)
        #expect(
            lines == [
                "POSIX: detached, main thread: false", "saved as letter", "worker: a job", "worker: scratch is freed", "worker: end",
                "main: worker has ended",
            ])
    }

    @Test("The guide's programs of locks, and the forms that are values: S-NSLK-1 S-NSLK-4 S-NSLK-5")
    func locks() throws {
        let (lines, status) = try run("RunLoopExampleLocks")
        #expect(status == 0)
        #expect(
            lines == [
                "tried: at once, 100", "recursive: 5 deep", "consumed 1", "consumed 2", "consumed 3", "signalled", "a timer fires",
                "signalled in a mode", #"["once"] 2 1"#,
            ])
    }

    @Test("The guide's program of atomic operations: S-ATOM-1 S-ATOM-2 S-ATOM-3")
    func atomics() throws {
        let (lines, status) = try run("RunLoopExampleAtomics")
        #expect(status == 0)
        #expect(
            lines == [
                "bit 0: 128, was set: false", "bit 7: 1, was set: false", "bit 15: 256, was set: false", "256 to 512: true, 512",
                "256 to 1024: false, 512", "sum: 41, 42", "last users: 1", "guarded: 1",
            ])
    }

    @Test(
        """
        A child of fork finds the objects of loops and ports while other threads change them, is told of loops and threads that vanished, whatever \
        these were doing, in tasks that prefer its loop and in actors of it, runs the global executor's jobs, and has \
        its own loop as the main one; a thread that only asks gets no loop; threads' objects and locks are as they have to be there, and the \
        main thread may end before the others; a lock of a child that is killed can be awaited; a port in a child without descriptors \
        spins no loop, and neither does a thread there that is told to end; a request that was answered is not kept until its limit: S-FORK-1 S-FORK-6 S-MSG-49 S-ARG-10 S-SYNC-6 S-NSTH-4 S-NSTH-12 S-NSLK-8
        """)
    func forks() throws {
        let (lines, status) = try run("RunLoopTestForks")
        #expect(status == 0)
        let expected = [
            "tables: exit 0", "a loop that vanished: exit 0, exit 0", "a call that waits: exit 0, exit 0", "calls that were taken: exit 0, exit 0",
            "calls that return: exit 0, exit 0",
            "what waits for a loop: exit 0, exit 0",
            "the ends of threads: exit 0, exit 0, exit 0, exit 0", "requests that wait: exit 0, exit 0, exit 0, exit 0, exit 0, exit 0", "connections without descriptors: exit 0, exit 0",
            "elements on their way: exit 0, exit 0", "consumers on other threads: exit 0, exit 0",
            "tasks that are being cancelled: exit 0, exit 0", "tasks that are getting a priority: exit 0, exit 0",
            "bytes of a stream: exit 0, exit 0", "the global executor: exit 0",
            "a job that forks: exit 0, exit 0", "a job that waits for a fork: exit 0", "a job that ends its thread: not waited for",
            "the main loop: exit 0", "a port without descriptors: exit 0", "told without descriptors: exit 0, exit 0",
            "a foreign thread: not isolated, no loop",
            "the objects of threads: exit 0", "the main thread's object: exit 0", "the end of the main thread: exit 0",
            "a lock that is a file: 0, exit 0, 0, exit 0", "answered requests: not kept", "a value at top level: 7",
        ]
        #expect(lines == expected)
    }

    @Test(
        """
        A child of fork finds all that the modules make at their first use, so that it waits for no thread that was making it: \
        S-FORK-1
        """)
    func firstUses() throws {
        let (lines, status) = try run("RunLoopTestFirstUses")
        #expect(status == 0)
        #expect(lines == ["made before a fork: all"])
    }

    @Test(
        """
        Random programs of tasks, actors and threads with loops do what the model of the rules does, each time other ones: \
        S-NEST-7 S-NEST-8 S-THREAD-5 S-THREAD-18 S-LOOP-7 S-LOOP-10
        """)
    func machine() throws {
        let seed = Int.random(in: 1..<1 << 40)
        let scale = ProcessInfo.processInfo.environment["RL_STRESS_SCALE"].flatMap(Int.init) ?? 1
        let count = max(400 / max(scale, 1), 20)
        let (lines, status) = try run("RunLoopTestMachine", ["--seed", "\(seed)", "--count", "\(count)"])
        #expect(status == 0, "\(lines.joined(separator: "\n"))")
        #expect(lines.last == "\(count) passed, 0 failed")
        // One that met a clock which showed less than a loop with it.
        let (again, _) = try run("RunLoopTestMachine", ["--seed", "572536976476", "--count", "1", "--again", "\(max(800 / max(scale, 1), 20))"])
        #expect(again.last == "1 passed, 0 failed")
    }

    @Test("The machine of random programs finds a closure that is left out")
    func machineDetects() throws {
        let (lines, status) = try run("RunLoopTestMachine", ["--seed", "1", "--count", "5", "--plant"])
        #expect(status == 1)
        #expect(lines.contains { $0.hasPrefix("wrong: ") && $0.contains("called 0 times, expected 1...1") })
    }
}

/// Programs for the compiler alone, each with a first line that says what it has to say of them.
@Suite struct RaceTests {
    static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    static var programs: [String] {
        let folder = root.appendingPathComponent("Tests/Clients/Races")
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder.path)) ?? []
        return names.filter { $0.hasSuffix(".swift") }.sorted()
    }

    @Test("What would be a data race does not compile, and what only looks like one does", arguments: programs)
    func compile(_ name: String) throws {
        let file = RaceTests.root.appendingPathComponent("Tests/Clients/Races/\(name)")
        let first = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")[0]
        let expected = first.replacingOccurrences(of: "// error: ", with: "")
        let (text, status) = try RaceTests.compile(file)
        if expected == "none" {
            #expect(status == 0, "\(text)")
        } else {
            #expect(status != 0)
            #expect(text.split(separator: "\n").contains { $0.contains("error:") && $0.contains(expected) }, "\(text)")
        }
    }

    /// What the compiler says of a program; the analysis of regions comes after the types.
    static func compile(_ file: URL) throws -> (text: String, status: Int32) {
        let bundle = CommandLine.arguments.first { $0.contains(".xctest") } ?? CommandLine.arguments[0]
        let modules = URL(fileURLWithPath: bundle).deletingLastPathComponent().appendingPathComponent("Modules")
        let include = RaceTests.root.appendingPathComponent("include").path
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "swiftc", "-emit-sil", "-o", "/dev/null", "-parse-as-library", "-module-name", "Client", "-swift-version", "6",
            "-warnings-as-errors", "-I", modules.path, "-Xcc", "-fmodule-map-file=\(include)/module.modulemap", "-Xcc",
            "-I\(include)", file.path,
        ]
        let pipe = Pipe()
        process.standardError = pipe
        process.standardOutput = pipe
        try process.run()
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (text, process.terminationStatus)
    }
}

/// The steps of the tutorial, each of which is a program.
@Suite struct TutorialTests {
    static let folder = "Sources/RunLoopKit/RunLoopKit.docc/Resources"

    static var steps: [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: RaceTests.root.appendingPathComponent(folder).path)) ?? []
        return names.filter { $0.hasSuffix(".swift") }.sorted()
    }

    /// The last step, which is a program of the examples, prints all of this.
    static let lines = [
        "performed on the worker", "the worker says 55", "counted 1", "tick, counted 2", "tick, counted 3", "read hello", "signal SIGUSR1",
    ]

    @Test("Each step of the tutorial runs, and prints what the one before did and its own lines")
    func runs() throws {
        let counts = [0, 2, 3, 5, 6, 7]
        try #require(TutorialTests.steps.count == counts.count)
        for (step, count) in zip(TutorialTests.steps, counts) {
            let name = step.dropLast(".swift".count)
            let (lines, status) = try run(count == counts.last ? "RunLoopExampleTutorial" : "RunLoopExampleTutorial-\(name)")
            #expect(status == 0)
            #expect(lines == TutorialTests.lines.prefix(count) + ["the worker has ended"], "\(step)")
        }
        let last = try Data(contentsOf: RaceTests.root.appendingPathComponent("\(TutorialTests.folder)/06-signals.swift"))
        #expect(try Data(contentsOf: RaceTests.root.appendingPathComponent("Examples/Tutorial/Tutorial.swift")) == last)
    }

    @Test("Each step of the tutorial compiles without a warning", arguments: steps)
    func compile(_ step: String) throws {
        let (text, status) = try RaceTests.compile(RaceTests.root.appendingPathComponent("\(TutorialTests.folder)/\(step)"))
        #expect(status == 0, "\(text)")
    }
}
