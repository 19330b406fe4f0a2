// SPDX-License-Identifier: MIT
// A worker thread's loop serves closures, a source and a timer that the main thread gives it, and ends
// when it is stopped. Exercises S-BLK-3, S-WAKE-8, S-STOP-8 and S-TMR-41 from outside the package.
import Glibc
import RunLoopKit
import Synchronization

/// What the worker did, in order.
let done = Mutex<[String]>([])
/// The worker's loop, as soon as it waits.
let handedOver = Mutex<RunLoop?>(nil)

/// The worker. It is a function of its own because a closure inside `main` would belong to the main actor.
func workerThread(_: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    Bundled.work()
    return nil
}

@main
enum Bundled {
    static func main() {
        var thread = pthread_t()
        let started = pthread_create(&thread, nil, workerThread, nil)
        precondition(started == 0)

        // The main loop waits for the worker's word and not in a busy loop.
        let keepAlive = RunLoop.Source { _ in }
        RunLoop.main.add(keepAlive, forMode: .default)
        while handedOver.withLock({ $0 }) == nil {
            RunLoop.main.run(mode: .default, for: .seconds(60), returnAfterSourceHandled: true)
        }
        let worker = handedOver.withLock { $0! }

        let source = RunLoop.Source { _ in done.withLock { $0.append("source") }; scheduleTimer() }
        worker.perform { done.withLock { $0.append("closure") }; source.signal() }
        worker.add(source, forMode: .default)
        worker.wakeUp()
        pthread_join(thread, nil)

        let order = done.withLock { $0 }
        precondition(order == ["closure", "source", "timer", "stopped"], "the worker did \(order)")
        print("bundled: \(order)")
    }

    nonisolated static func work() {
        let loop = RunLoop.current
        let keepAlive = RunLoop.Source { _ in }
        loop.add(keepAlive, forMode: .default)
        let ready = RunLoop.Observer(activities: .beforeWaiting, repeats: false) { _, _ in
            handedOver.withLock { $0 = RunLoop.current }
            let answer = RunLoop.Source { _ in }
            answer.signal()
            // Adding a source from another thread wakes the main loop (S-WAKE-15).
            RunLoop.main.add(answer, forMode: .default)
        }
        loop.add(ready, forMode: .default)
        let result = loop.run(mode: .default, for: .seconds(60))
        done.withLock { $0.append("\(result)") }
    }

    nonisolated static func scheduleTimer() {
        Timer.scheduledTimer(withTimeInterval: .milliseconds(5), repeats: false) { _ in
            done.withLock { $0.append("timer") }
            RunLoop.current.stop()
        }
    }
}
