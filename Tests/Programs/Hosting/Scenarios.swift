// SPDX-License-Identifier: MIT
import RunLoopKitFoundation

typealias FoundationLoop = Foundation.RunLoop
typealias FoundationTimer = Foundation.Timer

/// For each thread.
let scenarios: [Scenario] = [
    ("their timers in our run", theirTimers),
    ("our timers in their run", ourTimers),
    ("their blocks and ours", blocks),
    ("process", process),
    ("process under our timer", processInOurCallback),
    ("process under their timer", processInTheirCallback),
    ("ours in theirs in ours", nesting),
    ("other modes", otherModes),
    ("stop ours in theirs", stopOurs),
    ("stop theirs in ours", stopTheirs),
    ("empty modes", emptiness),
    ("a run returns after a source of theirs", returning),
    ("woken from other threads", wakeUps),
    ("told from other threads", tellings),
    ("their notification queue", notificationQueue),
    ("notifications in their wait in our callback", notificationsInOurCallback),
    ("work that is marked in each pass", markedWork),
    ("urgent notifications one after the other", urgentChain),
    ("a queue first used inside their wait", firstUse),
    ("notifications in a private mode", privateModes),
    ("modes that begin to take part", modesThatJoin),
    ("notifications at the end of a run", postingAtTheEnd),
    ("our sources in their wait", sources),
    ("streams", streams),
    ("what is used in place of Foundation's", replacements),
    ("many rounds", rounds),
]

/// A date by which every scenario is over, unless it fails.
let late = Date(timeIntervalSinceNow: 3600)

/// Keeps a loop's mode from being empty.
func keep(_ mode: RunLoop.Mode = .default) -> Timer {
    let timer = Timer(fire: late, interval: 0, repeats: false) { _ in }
    RunLoop.current.add(timer, forMode: mode)
    return timer
}

func keepTheirs(_ mode: FoundationLoop.Mode = .default) -> FoundationTimer {
    let timer = FoundationTimer(fire: late, interval: 0, repeats: false) { _ in }
    FoundationLoop.current.add(timer, forMode: mode)
    return timer
}

@Sendable func theirTimers(_ state: State) -> Bool {
    let timer = FoundationTimer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { timer in
        state.count += 1
        if state.count == 5 { timer.invalidate() }
    }
    // Its end is seen in a pass of its own.
    let ours = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in
        state.other += 1
        if state.count == 5, state.other >= 5 { RunLoop.current.stop() }
    }
    let result = RunLoop.current.run(mode: .default)
    ours.invalidate()
    return result == .stopped && !timer.isValid && state.count == 5
}

@Sendable private func ourTimers(_ state: State) -> Bool {
    let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { timer in
        state.count += 1
        if state.count == 5 { timer.invalidate() }
    }
    let theirs = keepTheirs()
    while timer.isValid { _ = FoundationLoop.current.run(mode: .default, before: late) }
    theirs.invalidate()
    return state.count == 5
}

@Sendable private func blocks(_ state: State) -> Bool {
    let (ours, theirs) = (keep(), keepTheirs())
    defer {
        ours.invalidate()
        theirs.invalidate()
    }
    // Neither kind wakes a loop.
    FoundationLoop.current.perform {
        state.lines.append("theirs")
        RunLoop.current.stop()
    }
    _ = RunLoop.current.run(mode: .default)
    RunLoop.current.perform {
        state.lines.append("ours")
        RunLoop.current.stop()
    }
    while state.lines.count < 2 { _ = FoundationLoop.current.run(mode: .default, before: late) }
    // Each queues for the other.
    FoundationLoop.current.perform {
        RunLoop.current.perform {
            FoundationLoop.current.perform {
                state.lines.append("third")
                RunLoop.current.stop()
            }
        }
        RunLoop.current.wakeUp()
    }
    _ = RunLoop.current.run(mode: .default)
    return state.lines == ["theirs", "ours", "third"]
}

/// A process that ends when its input is closed, and a timer of ours that closes it after some calls.
private func waitForProcess(_ state: State) -> Bool {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/cat")
    let (input, output) = (Pipe(), Pipe())
    process.standardInput = input
    process.standardOutput = output
    guard (try? process.run()) != nil else { return false }
    state.count = 0
    let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { timer in
        state.count += 1
        if state.count < 5 { return }
        timer.invalidate()
        try? input.fileHandleForWriting.close()
    }
    process.waitUntilExit()
    return !timer.isValid && state.count == 5 && process.terminationStatus == 0
}

@Sendable private func process(_ state: State) -> Bool { waitForProcess(state) && waitForProcess(state) }

@Sendable private func processInOurCallback(_ state: State) -> Bool {
    _ = Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
        state.isDone = waitForProcess(state)
        RunLoop.current.stop()
    }
    return RunLoop.current.run(mode: .default) == .stopped && state.isDone
}

@Sendable private func processInTheirCallback(_ state: State) -> Bool {
    _ = FoundationTimer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
        state.isDone = waitForProcess(state)
        RunLoop.current.stop()
    }
    let kept = keep()
    defer { kept.invalidate() }
    return RunLoop.current.run(mode: .default) == .stopped && state.isDone
}

@Sendable private func nesting(_ state: State) -> Bool {
    let (ours, theirs) = (keep(), keepTheirs())
    // Both kinds of timers, which all fire whoever waits.
    let one = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in state.count += 1 }
    let two = FoundationTimer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in state.other += 1 }
    defer { for end in [ours.invalidate, theirs.invalidate, one.invalidate, two.invalidate] { end() } }
    @Sendable func waitsForBoth(_ level: Int) {
        let (count, other) = (state.count, state.other)
        let deeper: @Sendable () -> Void = {
            if level < 6 { waitsForBoth(level + 1) }
            state.lines.append("\(level)")
        }
        // A callback of one loop runs the other one.
        if level % 2 == 0 {
            RunLoop.current.perform(deeper)
            while state.count < count + 2 || state.other < other + 2 || state.lines.isEmpty || state.lines.last != "\(level)" {
                _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05))
            }
        } else {
            FoundationLoop.current.perform(deeper)
            while state.count < count + 2 || state.other < other + 2 || state.lines.isEmpty || state.lines.last != "\(level)" {
                _ = FoundationLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.05))
            }
        }
    }
    waitsForBoth(0)
    return state.lines == (0...6).reversed().map(String.init)
}

@Sendable private func otherModes(_ state: State) -> Bool {
    let name = "a mode of its own"
    RunLoop.hostsFoundation(inModes: [.init(name)])
    let one = Timer(timeInterval: 0.001, repeats: true) { _ in state.count += 1 }
    RunLoop.current.add(one, forMode: .init(name))
    let two = FoundationTimer(timeInterval: 0.001, repeats: true) { _ in state.other += 1 }
    FoundationLoop.current.add(two, forMode: .init(name))
    let inDefault = FoundationTimer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in state.lines.append("default") }
    let ours = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in state.lines.append("default") }
    while state.count < 3 || state.other < 3 { _ = FoundationLoop.current.run(mode: .init(name), before: late) }
    while state.count < 6 || state.other < 6 {
        _ = RunLoop.current.run(mode: .init(name), before: Date(timeIntervalSinceNow: 0.01))
    }
    // In a wait in one mode a callback waits in the other one.
    let kept = state.lines.isEmpty
    let nested = Timer(timeInterval: 0, repeats: false) { _ in
        while state.lines.count < 5 { _ = FoundationLoop.current.run(mode: .default, before: late) }
        state.isDone = true
    }
    RunLoop.current.add(nested, forMode: .init(name))
    while !state.isDone { _ = FoundationLoop.current.run(mode: .init(name), before: late) }
    let (count, other) = (state.count, state.other)
    while state.count < count + 3 || state.other < other + 3 { _ = FoundationLoop.current.run(mode: .init(name), before: late) }
    for end in [one.invalidate, two.invalidate, inDefault.invalidate, ours.invalidate] { end() }
    return kept
}

@Sendable private func stopOurs(_ state: State) -> Bool {
    // Called in a wait of Foundation's, a stop of ours ends that run.
    let (ours, theirs) = (keep(), keepTheirs())
    let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
        state.isDone = true
        RunLoop.current.stop()
    }
    while !state.isDone { _ = FoundationLoop.current.run(mode: .default, before: late) }
    ours.invalidate()
    theirs.invalidate()
    return !timer.isValid
}

@Sendable private func stopTheirs(_ state: State) -> Bool {
    let (ours, theirs) = (keep(), keepTheirs())
    defer {
        ours.invalidate()
        theirs.invalidate()
    }
    _ = FoundationTimer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in FoundationLoop.current._stop() }
    return RunLoop.current.run(mode: .default) == .stopped
}

@Sendable private func emptiness(_ state: State) -> Bool {
    // The main loop serves the main queue and never is.
    if Thread.isMainThread { return true }
    guard RunLoop.current.run(mode: .default) == .finished else { return false }
    guard !RunLoop.current.run(mode: .default, before: late) else { return false }
    _ = FoundationTimer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in state.count += 1 }
    guard RunLoop.current.run(mode: .default) == .finished, state.count == 1 else { return false }
    _ = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
        state.count += 1
        _ = FoundationTimer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
            state.count += 1
            _ = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in state.count += 1 }
        }
    }
    guard RunLoop.current.run(mode: .default) == .finished, state.count == 4 else { return false }
    // What empties the mode is served just before the wait.
    FoundationLoop.current.perform { state.other += 1 }
    guard RunLoop.current.run(mode: .default) == .finished, state.other == 1 else { return false }
    // A last timer of ours in whose callback Foundation's loop runs, and something of Foundation's that is left.
    _ = Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
        _ = FoundationTimer.scheduledTimer(withTimeInterval: 0.002, repeats: false) { _ in state.count += 1 }
        _ = FoundationTimer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in FoundationLoop.current._stop() }
        _ = FoundationLoop.current.run(mode: .default, before: late)
    }
    guard RunLoop.current.run(mode: .default) == .finished, state.count == 5 else { return false }
    // With nothing of Foundation's, a run of Foundation's ends at once as ever.
    let kept = keep()
    defer { kept.invalidate() }
    return !FoundationLoop.current.run(mode: .default, before: late)
}

@Sendable private func returning(_ state: State) -> Bool {
    let kept = keep()
    let theirs = keepTheirs()
    defer {
        kept.invalidate()
        theirs.invalidate()
    }
    // A source of Foundation's that is signalled before the run, by a timer of Foundation's in a wait, and by another thread.
    let source = TheirSource(state)
    FoundationLoop.current._add(source, forMode: .default)
    source.signal()
    while state.count == 0 { RunLoop.current.run(mode: .default, before: late) }
    for _ in 0..<3 {
        // Due before the run begins, so that it is served before the port that ends the pass.
        nonisolated(unsafe) let signalled = source
        _ = FoundationTimer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in signalled.signal() }
        usleep(1000)
        let count = state.count
        while state.count == count { RunLoop.current.run(mode: .default, before: late) }
    }
    state.count = 1
    nonisolated(unsafe) let loop = FoundationLoop.current
    nonisolated(unsafe) let other = source
    for count in 1...20 {
        Thread {
            other.signal()
            loop.perform {}
            loop._wake()
        }.start()
        while state.count == count { RunLoop.current.run(mode: .default, before: late) }
    }
    FoundationLoop.current._remove(source, for: .default)
    return true
}

@Sendable private func tellings(_ state: State) -> Bool {
    let kept = keep()
    let theirs = keepTheirs()
    defer {
        kept.invalidate()
        theirs.invalidate()
    }
    let source = TheirSource(state)
    FoundationLoop.current._add(source, forMode: .default)
    nonisolated(unsafe) let loop = FoundationLoop.current
    nonisolated(unsafe) let other = source
    let ours = RunLoop.current
    @Sendable func tell(_ wakeUp: @escaping @Sendable () -> Void) {
        Thread {
            // Whoever has served the source has served the block, which does not end a run.
            loop.perform { state.other += 1 }
            other.signal()
            wakeUp()
        }.start()
    }
    // While this loop waits, a wake-up of its own makes a pass of Foundation's.
    for count in 1...50 {
        tell { ours.wakeUp() }
        while state.count < count || state.other < count { ours.run(mode: .default, before: late) }
    }
    // While Foundation's waits, its own does.
    typealias WakeUp = @convention(c) (UnsafeMutableRawPointer) -> Void
    typealias Current = @convention(c) () -> UnsafeMutableRawPointer
    guard let wakeUp = dlsym(nil, "CFRunLoopWakeUp"), let current = dlsym(nil, "CFRunLoopGetCurrent") else { return false }
    nonisolated(unsafe) let reference = unsafeBitCast(current, to: Current.self)()
    let wake = unsafeBitCast(wakeUp, to: WakeUp.self)
    for count in 51...100 {
        tell { wake(reference) }
        while state.count < count || state.other < count { _ = loop.run(mode: .default, before: late) }
    }
    FoundationLoop.current._remove(source, for: .default)
    return true
}

private final class TheirSource: FoundationLoop._Source {
    let state: State
    init(_ state: State) {
        self.state = state
        super.init(order: 0)
    }
    override func perform() { state.count += 1 }
}

extension FoundationLoop {
    /// Wakes the loop, which Foundation's class has no function for: its own module is asked.
    func _wake() {
        let timer = FoundationTimer(fire: Date(), interval: 0, repeats: false) { _ in }
        add(timer, forMode: .default)
    }
}

@Sendable private func wakeUps(_ state: State) -> Bool {
    let kept = keep()
    defer { kept.invalidate() }
    nonisolated(unsafe) let theirs = FoundationLoop.current
    let ours = RunLoop.current
    // Nothing of Foundation's is there when this loop begins to wait.
    for round in 0..<50 {
        Thread {
            let timer = FoundationTimer(fire: Date(), interval: 0, repeats: false) { _ in
                state.count += 1
                ours.stop()
            }
            theirs.add(timer, forMode: .default)
        }.start()
        _ = ours.run(mode: .default)
        if state.count != round + 1 { return false }
    }
    let keeps = keepTheirs()
    defer { keeps.invalidate() }
    for round in 0..<50 {
        Thread {
            ours.perform {
                state.other += 1
                ours.stop()
            }
            ours.wakeUp()
        }.start()
        while state.other == round { _ = theirs.run(mode: .default, before: late) }
    }
    return true
}

@Sendable private func notificationQueue(_ state: State) -> Bool {
    let name = Notification.Name("hosting \(Thread.isMainThread)")
    let observer = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
        state.count += 1
        RunLoop.current.stop()
    }
    defer { NotificationCenter.default.removeObserver(observer) }
    let (ours, theirs) = (keep(), keepTheirs())
    defer {
        ours.invalidate()
        theirs.invalidate()
    }
    let timer = Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
        Foundation.NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .asap)
    }
    guard RunLoop.current.run(mode: .default) == .stopped, state.count == 1, !timer.isValid else { return false }
    // RunLoopKit's queue posts while Foundation's loop waits.
    NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .asap)
    while state.count < 2 { _ = FoundationLoop.current.run(mode: .default, before: late) }
    return true
}

@Sendable private func sources(_ state: State) -> Bool {
    let pipe = Pipe()
    let source = RunLoop.Source(descriptor: pipe.fileHandleForReading.fileDescriptor) { source in
        state.lines.append(String(decoding: pipe.fileHandleForReading.availableData, as: UTF8.self))
    }
    let custom = RunLoop.Source { _ in state.count += 1 }
    RunLoop.current.add(source, forMode: .default)
    RunLoop.current.add(custom, forMode: .common)
    let theirs = keepTheirs()
    for text in ["one", "two", "three"] {
        let count = state.count
        let loop = RunLoop.current
        Thread {
            pipe.fileHandleForWriting.write(Data(text.utf8))
            custom.signal()
            loop.wakeUp()
        }.start()
        while state.lines.last != text || state.count == count { _ = FoundationLoop.current.run(mode: .default, before: late) }
    }
    source.invalidate()
    custom.invalidate()
    theirs.invalidate()
    return state.lines == ["one", "two", "three"]
}

/// A notification is enqueued and posted in a wait of Foundation's that a callback of this loop begins.
@Sendable private func notificationsInOurCallback(_ state: State) -> Bool {
    let name = Notification.Name("hosting in a callback \(Thread.isMainThread)")
    let observer = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
        state.count += 1
        FoundationLoop.current.perform { state.other += 1 }
        // It alone makes no further pass.
        if state.count < 100 { NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .whenIdle) }
    }
    defer { NotificationCenter.default.removeObserver(observer) }
    let theirs = keepTheirs()
    defer { theirs.invalidate() }
    Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
        Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
            NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .whenIdle)
        }
        // A run of theirs goes on after a block, which is no source.
        while state.other == 0 { _ = FoundationLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.02)) }
        RunLoop.current.stop()
    }
    return RunLoop.current.run(mode: .default) == .stopped && state.count < 10
}

/// Work that an observer of ours marks in each pass makes no passes, wherever theirs waits: S-NQ-15.
@Sendable private func markedWork(_ state: State) -> Bool {
    nonisolated(unsafe) let queue = NotificationQueue(notificationCenter: NotificationCenter())
    let name = Notification.Name("hosting, marked")
    let theirs = keepTheirs()
    defer { theirs.invalidate() }
    let timer = Timer.scheduledTimer(withTimeInterval: 0.02, repeats: true) { _ in }
    defer { timer.invalidate() }
    let marks = RunLoop.Observer(activities: [.entry, .beforeTimers], order: .min) { _, stage in
        if stage == .beforeTimers { state.count += 1 }
        queue.enqueue(Notification(name: name), postingStyle: .whenIdle)
        for mode in [.default, RunLoop.Mode("hosting, never run")] {
            queue.enqueue(Notification(name: name, object: stage), postingStyle: .asap, coalesceMask: [.onName, .onSender], forModes: [mode])
        }
    }
    RunLoop.current.add(marks, forMode: .default)
    defer { marks.invalidate() }
    @Sendable func wait() -> Bool {
        state.count = 0
        let until = Date(timeIntervalSinceNow: 0.2)
        while Date() < until { _ = FoundationLoop.current.run(mode: .default, before: until) }
        // There are ten calls of the timer, of two passes each, and more on a busy machine.
        return state.count < 100
    }
    let isQuietOutside = wait()
    Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
        state.isDone = wait()
        RunLoop.current.stop()
    }
    return RunLoop.current.run(mode: .default) == .stopped && isQuietOutside && state.isDone
}

/// Urgent notifications that go on for ever leave their turn to timers, also while theirs waits in a callback of ours: S-HOST-2, S-NQ-4.
@Sendable private func urgentChain(_ state: State) -> Bool {
    let center = NotificationCenter()
    nonisolated(unsafe) let queue = NotificationQueue(notificationCenter: center)
    let name = Notification.Name("hosting, urgent")
    let observer = center.addObserver(forName: name, object: nil, queue: nil) { _ in
        state.count += 1
        if state.other < 5 { queue.enqueue(Notification(name: name), postingStyle: .asap) }
    }
    defer { center.removeObserver(observer) }
    let theirs = keepTheirs()
    defer { theirs.invalidate() }
    Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in
        let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in state.other += 1 }
        queue.enqueue(Notification(name: name), postingStyle: .asap)
        let limit = Date(timeIntervalSinceNow: 10)
        while state.other < 5 && Date() < limit { _ = FoundationLoop.current.run(mode: .default, before: limit) }
        timer.invalidate()
        RunLoop.current.stop()
    }
    return RunLoop.current.run(mode: .default) == .stopped && state.count > 1 && state.other >= 5
}

/// A run of ours in a callback of theirs is the first to use a queue, for the mode in which theirs waits: S-NQ-5, S-NQ-15.
@Sendable private func firstUse(_ state: State) -> Bool {
    let modal = RunLoop.Mode("hosting.modal")
    let center = NotificationCenter()
    nonisolated(unsafe) let queue = NotificationQueue(notificationCenter: center)
    let name = Notification.Name("hosting, first use")
    let observer = center.addObserver(forName: name, object: nil, queue: nil) { _ in state.count += 1 }
    defer { center.removeObserver(observer) }
    let (ours, theirs, modals) = (keep(), keepTheirs(), keep(modal))
    defer {
        ours.invalidate()
        theirs.invalidate()
        modals.invalidate()
    }
    let call = FoundationTimer(timeInterval: 0.005, repeats: false) { _ in
        RunLoop.current.perform(inModes: [modal]) { queue.enqueue(Notification(name: name), postingStyle: .whenIdle) }
        RunLoop.current.run(mode: modal, for: .milliseconds(1))
    }
    FoundationLoop.current.add(call, forMode: .default)
    FoundationLoop.current.run(until: Date(timeIntervalSinceNow: 0.05))
    return state.count == 1
}

/// What is posted in a nested run in a private mode makes no pass of Foundation's loop in the mode around it.
@Sendable private func privateModes(_ state: State) -> Bool {
    let name = Notification.Name("hosting in private \(Thread.isMainThread)")
    let observer = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in state.count += 1 }
    defer { NotificationCenter.default.removeObserver(observer) }
    let hidden = RunLoop.Mode("hosting.private")
    Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
        FoundationLoop.current.perform { state.other += 1 }
        RunLoop.current.add(Timer(timeInterval: 0, repeats: false) { _ in
            NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .asap, coalesceMask: .none, forModes: [hidden])
            NotificationQueue.default.enqueue(Notification(name: name), postingStyle: .whenIdle, coalesceMask: .none, forModes: [hidden])
        }, forMode: hidden)
        RunLoop.current.add(Timer(timeInterval: 0.05, repeats: false) { _ in RunLoop.current.stop() }, forMode: hidden)
        let keeps = keep(hidden)
        RunLoop.current.run(mode: hidden)
        keeps.invalidate()
        if state.count != 2 || state.other != 0 { state.lines.append("served in the private mode") }
    }
    let keeps = keep()
    defer { keeps.invalidate() }
    while state.other == 0 { RunLoop.current.run(mode: .default, for: .milliseconds(5)) }
    return state.lines.isEmpty
}

/// A mode begins to take part in the middle of a nested run of it.
@Sendable private func modesThatJoin(_ state: State) -> Bool {
    let joining = RunLoop.Mode("hosting.joining \(Thread.isMainThread)")
    Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
        let default_ = FoundationTimer(timeInterval: 0.001, repeats: true) { _ in state.other += 1 }
        FoundationLoop.current.add(default_, forMode: .default)
        let own = FoundationTimer(timeInterval: 0.001, repeats: true) { timer in
            state.count += 1
            // The end of the run is a pass of Foundation's too, for which the timer may be due again.
            if state.count == 5 {
                timer.invalidate()
                RunLoop.current.stop()
            }
        }
        FoundationLoop.current.add(own, forMode: FoundationLoop.Mode(joining.rawValue))
        RunLoop.current.perform(inModes: [joining]) { _ = RunLoop.hostsFoundation(inModes: [joining]) }
        let keeps = keep(joining)
        RunLoop.current.run(mode: joining)
        keeps.invalidate()
        default_.invalidate()
        RunLoop.current.stop()
    }
    return RunLoop.current.run(mode: .default) == .stopped && state.count == 5 && state.other == 0
}

/// The observer of the last notification gives Foundation's loop a timer, for which the run goes on.
@Sendable private func postingAtTheEnd(_ state: State) -> Bool {
    let name = Notification.Name("hosting at the end \(Thread.isMainThread)")
    let mode = RunLoop.Mode("hosting.end")
    guard RunLoop.hostsFoundation(inModes: [mode]) else { return false }
    let observer = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
        let timer = FoundationTimer(timeInterval: 0.02, repeats: false) { _ in state.count += 1 }
        FoundationLoop.current.add(timer, forMode: FoundationLoop.Mode(mode.rawValue))
    }
    defer { NotificationCenter.default.removeObserver(observer) }
    for style: NotificationQueue.PostingStyle in [.asap, .whenIdle] {
        RunLoop.current.perform(inModes: [mode]) {
            NotificationQueue.default.enqueue(Notification(name: name), postingStyle: style, coalesceMask: .none, forModes: [mode])
        }
        guard RunLoop.current.run(mode: mode) == .finished else { return false }
    }
    return state.count == 2
}
