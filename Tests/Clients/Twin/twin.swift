// SPDX-License-Identifier: MIT
// Ordinary Foundation code that uses a run loop in the ways Foundation's documentation shows. Built with
// Foundation and with RunLoopKitFoundation it prints the same, except for the lines that expected.txt marks with
// the rule that Foundation on Linux breaks. The run loop object is S-NSRL-1 to S-NSRL-14, the timer S-NSTM-1 to
// S-NSTM-12.
#if RUNLOOPKIT
import RunLoopKitFoundation
#else
import Foundation
#endif

// MARK: - Helpers

/// Runs a chapter on a thread of its own, whose run loop is new, and waits for its end.
func chapter(_ title: String, _ body: @escaping () -> Void) {
    print("== \(title)")
    let done = DispatchSemaphore(value: 0)
    let thread = Thread {
        body()
        done.signal()
    }
    thread.start()
    done.wait()
}

/// Runs the current loop a little at a time until a condition holds, the way tests and tools do.
@discardableResult
func spin(mode: RunLoop.Mode = .default, until condition: () -> Bool) -> Bool {
    let limit = Date(timeIntervalSinceNow: 60)
    while !condition(), Date() < limit {
        if !RunLoop.current.run(mode: mode, before: Date(timeIntervalSinceNow: 0.01)) { break }
    }
    return condition()
}

// MARK: - Classes of the kind that programs have

/// Counts down once every interval and says when it is over.
final class Countdown {
    private var timer: Timer?
    private(set) var remaining: Int
    var onFinish: (() -> Void)?

    init(from start: Int) { remaining = start }

    func start(interval: TimeInterval) {
        timer = Timer.scheduledTimer(withTimeInterval: interval, repeats: true) { [weak self] timer in
            guard let self = self else { return timer.invalidate() }
            self.tick()
        }
    }

    private func tick() {
        remaining -= 1
        print("countdown \(remaining)")
        if remaining == 0 {
            timer?.invalidate()
            timer = nil
            onFinish?()
        }
    }
}

/// Calls an action once, a while after the last of a burst of events.
final class Debouncer {
    private let delay: TimeInterval
    private var timer: Timer?

    init(delay: TimeInterval) { self.delay = delay }

    func call(_ action: @escaping () -> Void) {
        timer?.invalidate()
        let timer = Timer(fire: Date(timeIntervalSinceNow: delay), interval: 0, repeats: false) { _ in action() }
        RunLoop.current.add(timer, forMode: .common)
        self.timer = timer
    }

    var isPending: Bool { timer?.isValid ?? false }
}

/// A thread with a run loop that performs what other threads hand it, until it is told to end.
final class Worker {
    private let ready = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)
    private var runLoop: RunLoop?
    private var shouldEnd = false
    private var handled: [String] = []

    private func work() {
        runLoop = RunLoop.current
        let keepAlive = Timer(timeInterval: 3600, repeats: true) { _ in }
        keepAlive.fireDate = .distantFuture
        RunLoop.current.add(keepAlive, forMode: .default)
        ready.signal()
        while !shouldEnd, RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.005)) {}
        keepAlive.invalidate()
        ended.signal()
    }

    func startAndWait() {
        Thread { self.work() }.start()
        ready.wait()
    }

    func submit(_ name: String) {
        runLoop?.perform { self.handled.append(name) }
    }

    func finish() -> [String] {
        runLoop?.perform { self.shouldEnd = true }
        ended.wait()
        return handled
    }
}

extension RunLoop.Mode {
    /// A mode of this program's own.
    static let modal = RunLoop.Mode("TwinModalMode")
}

@main
enum Twin {
    static func main() {
        modes()
        timers()
        firing()
        dates()
        runs()
        performs()
        nesting()
        notifications()
        classes()
    }
}

// MARK: - Modes

func modes() {
    chapter("modes") {
        print(RunLoop.Mode.default.rawValue, RunLoop.Mode.common.rawValue, RunLoop.Mode.modal.rawValue)
        print(RunLoop.Mode(rawValue: "kCFRunLoopDefaultMode") == .default)
        print(Set([RunLoop.Mode.default, .common, .modal, .default]).count)
        print(RunLoop.current === RunLoop.current, RunLoop.current === RunLoop.main)
        print(RunLoop.current.currentMode == nil)
    }
    chapter("the current mode") {
        for mode in [RunLoop.Mode.default, .modal] {
            let timer = Timer(fire: Date(), interval: 0, repeats: false) { _ in
                print(RunLoop.current.currentMode?.rawValue ?? "none")
            }
            RunLoop.current.add(timer, forMode: mode)
            print(RunLoop.current.run(mode: mode, before: Date(timeIntervalSinceNow: 60)))
        }
        print(RunLoop.current.currentMode == nil)
    }
    chapter("a timer waits for its mode") {
        var fires = 0
        let timer = Timer(fire: Date(), interval: 0, repeats: false) { _ in fires += 1 }
        RunLoop.current.add(timer, forMode: .modal)
        print(RunLoop.current.run(mode: .default, before: .distantFuture), fires)
        print(RunLoop.current.run(mode: .modal, before: .distantFuture), fires)
    }
    chapter("the common modes") {
        var fires = 0
        let timer = Timer(fire: Date(), interval: 0, repeats: false) { _ in fires += 1 }
        RunLoop.current.add(timer, forMode: .common)
        print(RunLoop.current.run(mode: .common, before: .distantFuture), fires)
        print(RunLoop.current.run(mode: .default, before: .distantFuture), fires)
    }
}

// MARK: - Timers

func timers() {
    chapter("a scheduled timer fires once") {
        let start = Date()
        let timer = Timer.scheduledTimer(withTimeInterval: 0.02, repeats: false) { timer in
            print("fired, valid \(timer.isValid), on time \(Date().timeIntervalSince(start) >= 0.02)")
        }
        print(timer.isValid, timer.timeInterval)
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 60))
        print(timer.isValid)
    }
    chapter("a repeating timer fires until it is invalidated") {
        var count = 0
        let timer = Timer.scheduledTimer(withTimeInterval: 0.005, repeats: true) { timer in
            count += 1
            if count == 4 { timer.invalidate() }
        }
        print(timer.timeInterval)
        RunLoop.current.run()
        print(count, timer.isValid)
    }
    chapter("a timer that was not scheduled fires after one interval") {
        let start = Date()
        let timer = Timer(timeInterval: 0.03, repeats: false) { _ in
            print("waited \(Date().timeIntervalSince(start) >= 0.03)")
        }
        RunLoop.current.add(timer, forMode: .default)
        RunLoop.current.run()
    }
    chapter("a repeating timer without an interval") {
        var count = 0
        let timer = Timer.scheduledTimer(withTimeInterval: 0, repeats: true) { timer in
            count += 1
            if count == 3 { timer.invalidate() }
        }
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 60))
        print("fired \(count) times, valid \(timer.isValid)")
    }
    chapter("the closure gets the timer itself") {
        var known: Timer?
        known = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { timer in
            print(timer === known, timer == known)
        }
        RunLoop.current.run()
        print(known?.isValid ?? true, known?.userInfo == nil)
    }
    chapter("timers as keys") {
        let first = Timer(fire: .distantFuture, interval: 0, repeats: false) { _ in }
        let second = Timer(fire: .distantFuture, interval: 0, repeats: false) { _ in }
        let names = [first: "first", second: "second"]
        print(names[first] ?? "", names[second] ?? "", first == second, Set([first, second, first]).count)
    }
    chapter("tolerance") {
        let timer = Timer(fire: .distantFuture, interval: 2, repeats: true) { _ in }
        print("at first", timer.tolerance)
        timer.tolerance = 0.25
        print("tolerance \(timer.tolerance)")
    }
}

// MARK: - Firing

func firing() {
    chapter("timers fire in the order of their dates") {
        let now = Date()
        for (name, offset) in [("third", 0.006), ("first", 0.002), ("second", 0.004)] {
            let timer = Timer(fire: now.addingTimeInterval(offset), interval: 0, repeats: false) { _ in print(name) }
            RunLoop.current.add(timer, forMode: .default)
        }
        RunLoop.current.run()
    }
    chapter("fire() on a repeating timer keeps its schedule") {
        var count = 0
        let timer = Timer(fire: Date(timeIntervalSinceNow: 1000), interval: 1000, repeats: true) { _ in count += 1 }
        let date = timer.fireDate
        timer.fire()
        timer.fire()
        print(count, timer.isValid, timer.fireDate == date)
        timer.invalidate()
        timer.fire()
        print(count)
    }
    chapter("fire() on a timer that fires once") {
        var count = 0
        let timer = Timer(fire: .distantFuture, interval: 0, repeats: false) { timer in
            count += 1
            print("valid \(timer.isValid)")
        }
        timer.fire()
        timer.fire()
        print(count, timer.isValid)
    }
    chapter("a late timer fires once and returns to its grid") {
        let interval = 0.01
        let start = Date(timeIntervalSinceNow: interval)
        var dates: [Date] = []
        let timer = Timer(fire: start, interval: interval, repeats: true) { timer in
            dates.append(timer.fireDate)
            if dates.count == 1 { Thread.sleep(forTimeInterval: 0.055) }
            if dates.count == 3 { timer.invalidate() }
        }
        RunLoop.current.add(timer, forMode: .default)
        RunLoop.current.run()
        let steps = dates.map { $0.timeIntervalSince(start) / interval }
        print("skipped \(steps[1].rounded() >= 5), on the grid \(steps.allSatisfy { abs($0 - $0.rounded()) < 0.01 })")
    }
    chapter("one timer invalidates another") {
        var victim: Timer?
        let first = Timer(fire: Date(timeIntervalSinceNow: -2), interval: 0, repeats: false) { _ in
            print("first")
            victim?.invalidate()
        }
        victim = Timer(fire: Date(timeIntervalSinceNow: -1), interval: 0, repeats: false) { _ in print("victim") }
        RunLoop.current.add(first, forMode: .default)
        RunLoop.current.add(victim!, forMode: .default)
        RunLoop.current.run()
        print(first.isValid, victim!.isValid)
    }
    chapter("a timer made in a timer") {
        Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
            print("outer")
            Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in print("inner") }.tolerance = 0
        }.tolerance = 0
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 60))
        print("over")
    }
}

// MARK: - Dates

func dates() {
    chapter("dates are kept exactly") {
        let date = Date(timeIntervalSinceReferenceDate: 900_000_000.125)
        let timer = Timer(fire: date, interval: 0.1, repeats: true) { _ in }
        print(timer.fireDate == date, timer.timeInterval)
        timer.fireDate = date.addingTimeInterval(0.5)
        print(timer.fireDate == date.addingTimeInterval(0.5))
        print(Timer(fire: date, interval: 7, repeats: false) { _ in }.timeInterval)
    }
    chapter("the date of an invalid timer") {
        let date = Date(timeIntervalSinceReferenceDate: 900_000_000)
        let timer = Timer(fire: date, interval: 0, repeats: false) { _ in }
        timer.invalidate()
        print("still known \(timer.fireDate == date)")
    }
    chapter("a date can be brought forward") {
        let timer = Timer(fire: .distantFuture, interval: 0, repeats: false) { _ in print("fired") }
        RunLoop.current.add(timer, forMode: .default)
        timer.fireDate = Date(timeIntervalSinceNow: 0.01)
        RunLoop.current.run()
        print(timer.isValid)
    }
    chapter("a date can be put off") {
        var order: [String] = []
        let one = Timer(fire: Date(), interval: 0, repeats: false) { _ in order.append("one") }
        let two = Timer(fire: Date(timeIntervalSinceNow: 0.01), interval: 0, repeats: false) { _ in order.append("two") }
        RunLoop.current.add(one, forMode: .default)
        RunLoop.current.add(two, forMode: .default)
        one.fireDate = Date(timeIntervalSinceNow: 0.03)
        RunLoop.current.run()
        print(order)
    }
    chapter("a timer paused and resumed") {
        var count = 0
        let timer = Timer.scheduledTimer(withTimeInterval: 0.002, repeats: true) { timer in
            count += 1
            if count == 2 { timer.fireDate = .distantFuture }
            if count == 4 { timer.invalidate() }
        }
        spin { count == 2 }
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 0.02))
        print("paused at \(count)")
        timer.fireDate = Date()
        spin { count == 4 }
        print("resumed to \(count), valid \(timer.isValid)")
    }
}

// MARK: - Runs

func runs() {
    chapter("an empty loop") {
        print(RunLoop.current.run(mode: .default, before: .distantFuture))
        RunLoop.current.run()
        RunLoop.current.run(until: .distantFuture)
        RunLoop.current.acceptInput(forMode: RunLoop.Mode.default.rawValue, before: .distantFuture)
        print(RunLoop.current.limitDate(forMode: .default) == nil)
    }
    chapter("timers do not end a run, its date does") {
        var fires = 0
        let timer = Timer.scheduledTimer(withTimeInterval: 0.002, repeats: true) { _ in fires += 1 }
        let end = Date(timeIntervalSinceNow: 0.05)
        print(RunLoop.current.run(mode: .default, before: end), fires > 1, Date() >= end)
        let later = Date(timeIntervalSinceNow: 0.02)
        RunLoop.current.run(until: later)
        print(Date() >= later)
        let last = Date(timeIntervalSinceNow: 0.02)
        RunLoop.current.acceptInput(forMode: RunLoop.Mode.default.rawValue, before: last)
        print(Date() >= last)
        timer.invalidate()
    }
    chapter("a past date is one look") {
        var fires = 0
        for offset in [-2.0, -1.0] {
            let timer = Timer(fire: Date(timeIntervalSinceNow: offset), interval: 0, repeats: false) { _ in fires += 1 }
            RunLoop.current.add(timer, forMode: .default)
        }
        let waiting = Timer.scheduledTimer(withTimeInterval: 1000, repeats: false) { _ in }
        print(RunLoop.current.run(mode: .default, before: .distantPast), fires)
        RunLoop.current.run(until: .distantPast)
        print(fires)
        waiting.invalidate()
    }
    chapter("limit dates") {
        var fires = 0
        let due = Timer(fire: Date(), interval: 0, repeats: false) { _ in fires += 1 }
        let next = Timer(fire: Date(timeIntervalSinceNow: 500), interval: 0, repeats: false) { _ in }
        let last = Timer(fire: Date(timeIntervalSinceNow: 900), interval: 0, repeats: false) { _ in }
        for timer in [due, last, next] { RunLoop.current.add(timer, forMode: .default) }
        print(RunLoop.current.limitDate(forMode: .default) == next.fireDate, fires)
        next.invalidate()
        print(RunLoop.current.limitDate(forMode: .default) == last.fireDate)
        last.invalidate()
        print(RunLoop.current.limitDate(forMode: .default) == nil)
    }
    chapter("another thread's loop") {
        let other = RunLoop.main
        print(other.run(mode: .default, before: .distantFuture), other.limitDate(forMode: .default) == nil)
    }
}

// MARK: - Queued closures

func performs() {
    chapter("closures are performed in order, and none at once") {
        RunLoop.current.perform { print("one") }
        RunLoop.current.perform { print("two") }
        RunLoop.current.perform(inModes: [.default, .modal]) { print("three") }
        print("queued")
        print(RunLoop.current.run(mode: .default, before: .distantPast))
        print(RunLoop.current.run(mode: .modal, before: .distantPast))
    }
    chapter("closures wait for their mode") {
        RunLoop.current.perform(inModes: [.modal]) { print("modal") }
        RunLoop.current.perform(inModes: [.common]) { print("common") }
        print(RunLoop.current.run(mode: .default, before: .distantPast))
        print(RunLoop.current.run(mode: .modal, before: .distantPast))
    }
    chapter("a closure queues another") {
        var done = false
        RunLoop.current.perform {
            print("outer")
            RunLoop.current.perform { done = true }
        }
        // The first is performed before the loop waits, what it queues is performed afterwards.
        print(spin { done })
    }
}

// MARK: - Runs inside runs

func nesting() {
    chapter("a modal run inside a timer") {
        var modalFires = 0
        let ordinary = Timer(fire: Date(), interval: 0.001, repeats: true) { timer in
            guard RunLoop.current.currentMode == .default else { return print("not in this mode") }
            let modal = Timer(fire: Date(), interval: 0.001, repeats: true) { timer in
                modalFires += 1
                if modalFires == 3 { timer.invalidate() }
            }
            RunLoop.current.add(modal, forMode: .modal)
            while RunLoop.current.run(mode: .modal, before: .distantFuture) {}
            print("modal \(modalFires), back in \(RunLoop.current.currentMode == .default)")
            timer.invalidate()
        }
        RunLoop.current.add(ordinary, forMode: .default)
        RunLoop.current.run()
        print("over")
    }
    chapter("a timer does not fire inside itself") {
        var depth = 0, deepest = 0, count = 0
        let timer = Timer(fire: Date(), interval: 0.001, repeats: true) { timer in
            depth += 1
            deepest = max(deepest, depth)
            _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.005))
            depth -= 1
            count += 1
            if count == 3 { timer.invalidate() }
        }
        RunLoop.current.add(timer, forMode: .default)
        RunLoop.current.run()
        print("deepest \(deepest), count \(count)")
    }
}

// MARK: - Notification queues

func notifications() {
    let center = NotificationCenter()
    let token = center.addObserver(forName: nil, object: nil, queue: nil) { note in
        print("posted \(note.name.rawValue)")
    }
    func note(_ name: String, _ object: Any? = nil) -> Notification {
        Notification(name: Notification.Name(name), object: object)
    }
    /// Runs the loop until it has waited at least once.
    func serve(mode: RunLoop.Mode = .default) {
        let timer = Timer(timeInterval: 0.01, repeats: false) { _ in }
        timer.fireDate = Date(timeIntervalSinceNow: 0.01)
        RunLoop.current.add(timer, forMode: mode)
        while timer.isValid, RunLoop.current.run(mode: mode, before: .distantFuture) {}
    }
    chapter("posting now") {
        let queue = NotificationQueue(notificationCenter: center)
        queue.enqueue(note("at once"), postingStyle: .now)
        print("enqueued")
        print(NotificationQueue.default === NotificationQueue.default)
    }
    chapter("posting as soon as possible, in order") {
        let queue = NotificationQueue(notificationCenter: center)
        for name in ["one", "two", "three"] { queue.enqueue(note(name), postingStyle: .asap) }
        print("enqueued")
        serve()
    }
    chapter("posting when idle comes last") {
        let queue = NotificationQueue(notificationCenter: center)
        queue.enqueue(note("idle"), postingStyle: .whenIdle)
        queue.enqueue(note("soon"), postingStyle: .asap)
        serve()
    }
    chapter("coalescing") {
        let queue = NotificationQueue(notificationCenter: center)
        for _ in 1...3 { queue.enqueue(note("same"), postingStyle: .asap) }
        serve()
        let (one, other) = (NSObject(), NSObject())
        queue.enqueue(note("senders", one), postingStyle: .asap)
        queue.enqueue(note("senders", other), postingStyle: .asap)
        queue.enqueue(note("senders", one), postingStyle: .asap)
        serve()
        for value in ["a sender", "a sender"] { queue.enqueue(note("values", value), postingStyle: .asap) }
        serve()
        for _ in 1...2 {
            queue.enqueue(note("each"), postingStyle: .asap, coalesceMask: .none, forModes: nil)
        }
        serve()
    }
    chapter("taking back") {
        let queue = NotificationQueue(notificationCenter: center)
        queue.enqueue(note("taken back"), postingStyle: .asap)
        queue.enqueue(note("taken back"), postingStyle: .whenIdle, coalesceMask: .none, forModes: nil)
        queue.dequeueNotifications(matching: note("taken back"), coalesceMask: [.onName])
        serve()
        print("nothing posted")
    }
    chapter("waiting for a mode") {
        let queue = NotificationQueue(notificationCenter: center)
        queue.enqueue(note("waited"), postingStyle: .now, coalesceMask: .none, forModes: [.modal])
        RunLoop.current.perform {
            queue.enqueue(note("skipped"), postingStyle: .now, coalesceMask: .none, forModes: [.modal])
            print("not in this mode")
        }
        serve()
    }
    center.removeObserver(token)
}

// MARK: - The classes at work

func classes() {
    chapter("a countdown") {
        let countdown = Countdown(from: 3)
        countdown.onFinish = { print("lift-off") }
        countdown.start(interval: 0.002)
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 60))
        print(countdown.remaining)
    }
    chapter("a countdown that nobody keeps") {
        Countdown(from: 3).start(interval: 0.002)
        RunLoop.current.run(until: Date(timeIntervalSinceNow: 60))
        print("nothing counted")
    }
    chapter("a debouncer") {
        let debouncer = Debouncer(delay: 0.02)
        var calls: [Int] = []
        for event in 1...5 { debouncer.call { calls.append(event) } }
        print(debouncer.isPending, spin { !debouncer.isPending }, calls)
    }
    chapter("a worker") {
        let worker = Worker()
        worker.startAndWait()
        for name in ["alpha", "beta", "gamma"] { worker.submit(name) }
        print(worker.finish())
    }
    chapter("waiting for another thread") {
        var answer: Int?
        let loop = RunLoop.current
        let keepAlive = Timer.scheduledTimer(withTimeInterval: 1000, repeats: true) { _ in }
        Thread { loop.perform { answer = 42 } }.start()
        print(spin { answer != nil }, answer ?? 0)
        keepAlive.invalidate()
    }
}
