// SPDX-License-Identifier: MIT
import Foundation

/// Touched by the main thread alone.
enum Ticks { nonisolated(unsafe) static var left = 5 }

@main
enum Program {
    static func main() {
        let timer = Timer.scheduledTimer(withTimeInterval: 0.02, repeats: true) { timer in
            print("tick")
            timer.tolerance = timer.timeInterval / 4
            Ticks.left -= 1
            if Ticks.left == 0 { timer.invalidate() }
        }
        RunLoop.current.perform { print("first of all") }
        while timer.isValid, RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05)) {}
    }
}
