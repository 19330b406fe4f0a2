// SPDX-License-Identifier: MIT
// Makes random programs of tasks and loops from seeds, runs them, and checks what happens beside a model of it (README.md).
// usage: RunLoopTestMachine [--seed N] [--count N] [--limit SECONDS] [--plant] [--list] [--again TIMES]
import Glibc
import RunLoopKit
import Synchronization

struct Options: Sendable {
    var seed: UInt64 = 1
    var count = 1000
    /// How long a program may take.
    var limit = 120
    /// Each program leaves out one thing that it has to do, and the machine has to find that.
    var isPlanted = false
    var isListed = false
    var again = 1

    init(_ arguments: [String]) {
        var rest = arguments.dropFirst()
        func value() -> Int {
            guard let text = rest.popFirst(), let number = Int(text) else { Options.stop() }
            return number
        }
        while let option = rest.popFirst() {
            switch option {
            case "--seed": seed = UInt64(value())
            case "--count": count = value()
            case "--limit": limit = value()
            case "--again": again = value()
            case "--plant": isPlanted = true
            case "--list": isListed = true
            default: Options.stop()
            }
        }
    }

    private static func stop() -> Never {
        print("usage: RunLoopTestMachine [--seed N] [--count N] [--limit SECONDS] [--plant] [--list] [--again TIMES]")
        exit(2)
    }
}

let mainThread = pthread_self()
let options = Options(CommandLine.arguments)

/// A program that does not end is shown with where its tasks are.
nonisolated private func watch(limit: Int) {
    let isMade = RunLoop.performInBackground {
        while true {
            usleep(200_000)
            let (program, place, begin, world) = current.withLock { ($0.program, $0.place, $0.begin, $0.world) }
            guard let program, ContinuousClock.now > begin + .seconds(limit) else { continue }
            print("\(program.text)\n\nhangs: \(place)")
            for text in world?.placesOfTasks ?? [] { print("    \(text)") }
            for text in world?.outstanding ?? [] { print("    does not come: \(text)") }
            for text in faults.withLock({ $0 }) { print("    \(text)") }
            print("reproduce with: RunLoopTestMachine --seed \(program.seed) --count 1 --again 1000")
            fflush(nil)
            if getenv("RL_MACHINE_STAYS") != nil { pause() }
            _exit(3)
        }
    }
    precondition(isMade)
}

/// Whoever begins this program may have blocked it. The main thread gets it where the thread is over that asked for it: a sequence of signals unblocks
/// them on the thread that makes it.
nonisolated private func receiveSignal() {
    signal(SIGUSR1) { _ in }
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGUSR1)
    pthread_sigmask(SIG_UNBLOCK, &signals, nil)
}

nonisolated private func runAll(_ options: Options) async -> CInt {
    var machine = Machine(isPlanted: options.isPlanted)
    var failed = 0
    for number in 0..<options.count {
        let program = Generator.program(seed: options.seed &+ UInt64(number))
        if options.isListed { print(program.text, "\n") }
        for _ in 0..<options.again {
            let found = await machine.run(program)
            if found.isEmpty { continue }
            failed += 1
            print("\(program.text)\n")
            for text in found { print("wrong: \(text)") }
            fflush(nil)
            let (small, wrong) = options.isPlanted ? (program, found) : await machine.shrunk(program, found)
            print("\n\(small.text)\n")
            for text in wrong { print("wrong: \(text)") }
            print("reproduce with: RunLoopTestMachine --seed \(program.seed) --count 1 --again 1000\n")
            fflush(nil)
            break
        }
        if failed == 5 { break }
    }
    print("\(options.count - failed) passed, \(failed) failed")
    fflush(nil)
    return failed == 0 ? 0 : 1
}

// The default action of the signal that programs send would end the process between two sequences.
receiveSignal()
watch(limit: options.limit)
Task.detached { exit(await runAll(options)) }
RunLoop.main.add(RunLoop.Source { _ in }, forMode: .common)
while true { RunLoop.main.run(mode: .default) }
