// Foundation's run loop and ours in one process and on one thread: each serves its own items, also when
// one runs inside a callback of the other, and the mode names agree (S-NSRL-13, S-NSRL-15).
import Foundation
import class RunLoopKit.RunLoop
import class RunLoopKit.Timer
import Synchronization

let trace = Mutex<[String]>([])

func note(_ entry: String) { trace.withLock { $0.append(entry) } }

/// Runs Foundation's loop of this thread for one timer of its own.
@Sendable func runFoundation(_ name: String) {
    let timer = Foundation.Timer(timeInterval: 0.005, repeats: false) { _ in note(name) }
    timer.fireDate = Date(timeIntervalSinceNow: 0.005)
    Foundation.RunLoop.current.add(timer, forMode: .default)
    while timer.isValid, Foundation.RunLoop.current.run(mode: .default, before: .distantFuture) {}
}

/// Runs our loop of this thread for one timer of its own.
@Sendable func runOurs(_ name: String) {
    let timer = Timer(timeInterval: .milliseconds(5), repeats: false) { _ in note(name) }
    RunLoop.current.add(timer, forMode: .default)
    while timer.isValid { RunLoop.current.run(mode: .default, for: .seconds(60)) }
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
        }
        RunLoop.current.add(outer, forMode: .default)
        while outer.isValid { RunLoop.current.run(mode: .default, for: .seconds(60)) }

        // Foundation's outside, ours inside.
        let other = Foundation.Timer(fire: Date(), interval: 0, repeats: false) { _ in
            note("Foundation's begins")
            runOurs("ours inside Foundation's")
            note("Foundation's ends")
        }
        Foundation.RunLoop.current.add(other, forMode: .default)
        while other.isValid, Foundation.RunLoop.current.run(mode: .default, before: .distantFuture) {}

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
