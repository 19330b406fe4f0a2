// SPDX-License-Identifier: MIT
import ArgumentParser
import CTerminal
import Glibc

extension Order: ExpressibleByArgument {}

private func write(_ text: String, to file: Int32 = 1) { write(Array(text.utf8), to: file) }

/// Writes all of it, or says why not and ends the program; without a word if its reader is gone.
private func write(_ text: [UInt8], to file: Int32 = 1) {
    var bytes = text[...]
    while !bytes.isEmpty {
        let count = bytes.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
        if count < 0 && errno == EINTR { continue }
        if count < 0 && errno == EAGAIN {
            var entry = pollfd(fd: file, events: Int16(POLLOUT), revents: 0)
            poll(&entry, 1, -1)
            continue
        }
        if count <= 0 {
            if file == 1 && errno != EPIPE { write("\(Program.name): standard output: \(String(cString: strerror(errno)))\n", to: 2) }
            exit(1)
        }
        bytes = bytes.dropFirst(count)
    }
}

struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "runloop-top", abstract: "Shows the run loops of processes that let others see them (RUNLOOP_SHARE=1).", version: "0.2.0")

    @Argument(help: "Processes; all that show their loops if none is named.")
    var process: [Int] = []
    @Flag(help: "Print the loops as text and end.")
    var once = false
    @Flag(help: "Print the loops as JSON, one on each line, and end.")
    var json = false
    @Option(help: "Seconds from one look to the next.")
    var interval = 1.0
    @Option(help: "What comes first: \(Order.allCases.map { $0.rawValue }.joined(separator: ", ")).")
    var sort = Order.load
    @Option(help: "Only loops with this in process, name or state.")
    var filter = ""

    func validate() throws {
        guard interval >= 0.1, interval <= 3600 else { throw ValidationError("The interval is between 0.1 and 3600 seconds.") }
    }

    func run() throws {
        terminal_locale(!once)
        var watch = Watch(processes: process)
        guard once || json else { return try show(watch) }
        watch.look(patience: 1)
        usleep(useconds_t(interval * 1e6))
        watch.look()
        let rows = watch.rows.filter { $0.matches(filter) }.sorted { sort.comesFirst($0, $1) }
        if json {
            for row in rows { write(Table.json(row) + "\n") }
            if watch.leftOut > 0 { write("runloop-top: \(watch.leftOut) loops are left out\n", to: 2) }
        } else {
            write(Table.text(watch, rows, width: min(max(getenv("COLUMNS").flatMap { Int(String(cString: $0)) } ?? 120, 80), 1000)))
        }
        let missing = process.contains { number in !watch.rows.contains { $0.process == number } }
        if missing { throw ExitCode.failure }
    }

    private func show(_ watch: Watch) throws {
        guard isatty(0) == 1, isatty(1) == 1 else { throw ValidationError("This is no terminal: use --once or --json.") }
        guard terminal_begin() else { throw ValidationError("The kind of this terminal (TERM) is not known.") }
        var screen = Screen(watch: watch, interval: interval, order: sort, filter: filter)
        screen.run()
        let ends = screen.end()
        terminal_end()
        for line in ends { write("runloop-top: \(line)\n") }
    }
}

struct Dump: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "runloop-dump", abstract: "Prints what the run loops of processes do, hold and wait for.", version: "0.2.0")

    @Argument(help: "Processes; all that show their loops if none is named.")
    var process: [Int] = []

    func run() throws {
        terminal_locale(false)
        var found: Set<Int> = []
        let named = Set(process)
        var inquiry = Inquiry("dump")
        inquiry.run(wanted: { named.isEmpty || named.contains($0) }, isEnough: { !named.isEmpty && named.isSubset(of: found) }) { number, text in
            found.insert(number)
            write("process \(number)\n")
            write(text.printable(keepsLines: true).bytes)
        }
        for number in process where !found.contains(number) {
            write("runloop-dump: process \(number) does not show its loops, or does not answer\n", to: 2)
        }
        if found.count < max(named.count, 1) { throw ExitCode.failure }
    }
}

/// One program under two names.
@main enum Program {
    static let name = (CommandLine.arguments.first ?? "").hasSuffix("runloop-dump") ? "runloop-dump" : "runloop-top"

    static func main() {
        signal(SIGPIPE, SIG_IGN)
        // What is closed fails when it is used, and is not the number of a connection.
        for file: Int32 in 0...2 where fcntl(file, F_GETFD) < 0 { _ = open("/dev/null", file == 0 ? O_WRONLY : O_RDONLY) }
        if name == "runloop-dump" { run(Dump.self) } else { run(Top.self) }
    }

    private static func run(_ command: (some ParsableCommand).Type) {
        do {
            var command = try command.parseAsRoot()
            try command.run()
        } catch {
            let code = command.exitCode(for: error)
            let message = command.fullMessage(for: error)
            if !message.isEmpty { write(message + "\n", to: code == .success ? 1 : 2) }
            exit(code.rawValue)
        }
    }
}
