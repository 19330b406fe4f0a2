// SPDX-License-Identifier: MIT
// The Swift half of the demo. It shares the main loop with the C half: C brings the bytes of a file
// through a pipe and has another thread count them; Swift shows the progress and what the loop does.
//
// usage: RunLoopExampleDemo [FILE [SECONDS]]

import Glibc
import RunLoopExampleDemoCounter
import RunLoopKit

/// Everything here is called on the main thread: by the main loop, or before it runs.
final class Demo: @unchecked Sendable {
    private let path: String
    private let seconds: Double
    private var counter: OpaquePointer?
    private var pass: [String] = []
    private var timer: Timer?

    init(path: String, seconds: Double) {
        self.path = path
        self.seconds = seconds
    }

    /// Runs the main loop until the file is counted. Returns false if it cannot be read.
    func run() -> Bool {
        counter = demo_start(
            path, seconds,
            { Unmanaged<Demo>.fromOpaque($0!).takeUnretainedValue().finished() },
            Unmanaged.passUnretained(self).toOpaque())
        guard let counter else { return false }

        showOnePass()
        let timer = Timer(timeInterval: .seconds(seconds / 5), repeats: true) { [self] _ in
            show("so far")
        }
        timer.tolerance = .milliseconds(5)
        // The timer also keeps the loop from finishing before the worker's last report has come.
        RunLoop.main.add(timer, forMode: .default)
        self.timer = timer

        print("counting \(path)")
        let result = RunLoop.main.run(mode: .default, for: .seconds(3600))
        print("the run of the main loop ended: \(result)")
        show("in all")
        let total = demo_so_far(counter)
        print(total.lines, total.words, total.bytes, path)
        demo_free(counter)
        return true
    }

    /// Called by the C half, once the worker has reported the last lines.
    private func finished() {
        timer?.invalidate()
        RunLoop.main.stop()
    }

    private func show(_ when: String) {
        guard let counter else { return }
        let counts = demo_so_far(counter)
        print(
            "  \(when): \(counts.lines) lines, \(counts.words) words, \(counts.bytes) bytes,"
                + " in \(counts.portions) portions")
    }

    /// Collects the activities of the first pass, prints them, and goes away.
    private func showOnePass() {
        let observer = RunLoop.Observer(activities: .allActivities, repeats: true) {
            [self] observer, activity in
            if activity == .beforeTimers, pass.contains("BeforeTimers") {
                print("one pass of the main loop: \(pass.joined(separator: " → "))")
                observer.invalidate()
                return
            }
            pass.append(Demo.name(of: activity))
        }
        RunLoop.main.add(observer, forMode: .default)
    }

    private static func name(of activity: RunLoop.Activities) -> String {
        switch activity {
        case .entry: "Entry"
        case .beforeTimers: "BeforeTimers"
        case .beforeSources: "BeforeSources"
        case .beforeWaiting: "BeforeWaiting"
        case .afterWaiting: "AfterWaiting"
        case .exit: "Exit"
        default: "stage \(activity.rawValue)"
        }
    }
}

@main
enum Main {
    static func main() {
        let arguments = CommandLine.arguments
        let path = arguments.count > 1 ? arguments[1] : "Docs/semantics.md"
        let seconds = arguments.count > 2 ? Double(arguments[2]) ?? 1 : 1
        if !Demo(path: path, seconds: seconds).run() {
            perror(path)
            exit(1)
        }
    }
}
