// SPDX-License-Identifier: MIT
// Foundation's run loop and ours in one process and on one thread: each serves its own items, also when
// one runs inside a callback of the other, and the mode names agree (S-NSRL-13, S-NSRL-15).
import Foundation
import class RunLoopKit.RunLoop
import class RunLoopKit.Timer
import Synchronization

let trace = Mutex<[String]>([])

func note(_ entry: String) { trace.withLock { $0.append(entry) } }

/// Runs Foundation's loop of this thread until its one timer has fired. Timers do not make Foundation's run
/// return, and the main thread's default mode is never empty there, so it is run a little at a time.
@Sendable func runFoundation(_ name: String) {
    let timer = Foundation.Timer(timeInterval: 0.005, repeats: false) { _ in note(name) }
    serve(timer)
}

func serve(_ timer: Foundation.Timer) {
    let loop = Foundation.RunLoop.current
    loop.add(timer, forMode: .default)
    while timer.isValid, loop.run(mode: .default, before: Date(timeIntervalSinceNow: 0.02)) {}
}

/// Runs our loop of this thread until its one timer stops it.
@Sendable func runOurs(_ name: String) {
    let timer = Timer(timeInterval: .milliseconds(5), repeats: false) { _ in
        note(name)
        RunLoop.current.stop()
    }
    serve(timer)
}

func serve(_ timer: Timer) {
    RunLoop.current.add(timer, forMode: .default)
    let result = RunLoop.current.run(mode: .default, for: .seconds(60))
    precondition(result == .stopped, "our run ended by \(result)")
}

@main
enum Installed {
    static func main() {
        precondition(RunLoop.Mode.default.rawValue == Foundation.RunLoop.Mode.default.rawValue)
        precondition(RunLoop.Mode.common.rawValue == Foundation.RunLoop.Mode.common.rawValue)
        precondition(RunLoop.current === RunLoop.main)

        runOurs("ours")
        runFoundation("Foundation's")

        // Ours outside, Foundation's inside.
        let outer = Timer(timeInterval: .milliseconds(1), repeats: false) { _ in
            note("ours begins")
            runFoundation("Foundation's inside ours")
            note("ours ends")
            RunLoop.current.stop()
        }
        serve(outer)

        // Foundation's outside, ours inside.
        let other = Foundation.Timer(fire: Date(), interval: 0, repeats: false) { _ in
            note("Foundation's begins")
            runOurs("ours inside Foundation's")
            note("Foundation's ends")
        }
        serve(other)

        let order = trace.withLock { $0 }
        precondition(
            order == [
                "ours", "Foundation's",
                "ours begins", "Foundation's inside ours", "ours ends",
                "Foundation's begins", "ours inside Foundation's", "Foundation's ends",
            ], "the order was \(order)")
        print("installed: both loops served their own")
    }
}
