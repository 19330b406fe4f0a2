// SPDX-License-Identifier: MIT
// A program without windows, in the shape of one with: state on the main actor, a timer on the main loop, a clean end on
// Ctrl-C. `main` is asynchronous, and the main loop runs the main thread.
import RunLoopKit

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Shows a line at once, also if the output is a pipe.
func say(_ line: String) {
    print(line)
    fflush(nil)
}

@MainActor
final class Model {
    private(set) var ticks = 0
    private let lines: RunLoopThread

    init() throws {
        // Work that would hold up the main thread goes to another one.
        lines = RunLoopThread(name: "lines", qualityOfService: .utility)
        try lines.start()
    }

    func tick() {
        ticks += 1
        let number = ticks
        lines.loop.perform { if number == 1 { say("the first tick came") } }
        lines.loop.wakeUp()
    }

    func close() async { await lines.finish() }
}

@main
struct App {
    @MainActor static func main() async throws {
        RunLoop.adoptAsyncMain()
        let model = try Model()

        // The loop calls the timer on the main thread, which is the main actor's.
        let timer = Timer(timeInterval: .milliseconds(50), repeats: true) { _ in
            MainActor.assumeIsolated { model.tick() }
        }
        timer.tolerance = .milliseconds(10)
        RunLoop.main.add(timer, forMode: .common)

        say("running as \(getpid()): press Ctrl-C to end")
        for await number in RunLoop.main.signals(SIGINT, SIGTERM) {
            say("signal \(number)")
            break
        }
        timer.invalidate()
        await model.close()
        say("ended after \(model.ticks > 0 ? "some" : "no") ticks")
    }
}
