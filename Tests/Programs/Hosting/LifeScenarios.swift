// SPDX-License-Identifier: MIT
import RunLoopKitFoundation

/// Foundation on Linux calls no delegates of streams, but they may be scheduled and read.
@Sendable func streams(_ state: State) -> Bool {
    let stream = InputStream(data: Data("text".utf8))
    stream.schedule(in: RunLoop.current, forMode: RunLoop.Mode.default)
    stream.schedule(in: .current, forMode: .default)
    stream.open()
    _ = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in RunLoop.current.stop() }
    _ = RunLoop.current.run(mode: .default)
    var bytes = [UInt8](repeating: 0, count: 8)
    let count = stream.read(&bytes, maxLength: 8)
    stream.remove(from: RunLoop.current, forMode: RunLoop.Mode.default)
    stream.close()
    return bytes.prefix(count).elementsEqual("text".utf8)
}

@Sendable func replacements(_ state: State) -> Bool {
    let pipe = Pipe()
    let handle = pipe.fileHandleForReading
    let reader = RunLoop.Source(descriptor: handle.fileDescriptor) { reader in
        let data = handle.availableData
        if data.isEmpty { reader.invalidate() } else { state.lines.append(String(decoding: data, as: UTF8.self)) }
    }
    RunLoop.current.add(reader, forMode: .default)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/sh")
    process.arguments = ["-c", "printf text; exit 3"]
    process.standardOutput = pipe
    let loop = RunLoop.current
    process.terminationHandler = { process in
        let status = process.terminationStatus
        loop.perform {
            state.count = Int(status)
            loop.stop()
        }
        loop.wakeUp()
    }
    guard (try? process.run()) != nil else { return false }
    try? pipe.fileHandleForWriting.close()
    let kept = keep()
    defer { kept.invalidate() }
    while reader.isValid || state.count == 0 { RunLoop.current.run(mode: .default, before: late) }
    return state.lines == ["text"] && state.count == 3
}

/// Nothing is left over and nothing grows.
@Sendable func rounds(_ state: State) -> Bool {
    func descriptors() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0 }
    let (ours, theirs) = (keep(), keepTheirs())
    func round() {
        _ = Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in state.count += 1 }
        _ = FoundationTimer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in state.other += 1 }
        let (count, other) = (state.count + 1, state.other + 1)
        while state.count < count || state.other < other { _ = FoundationLoop.current.run(mode: .default, before: late) }
        _ = FoundationTimer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
            state.other += 1
            RunLoop.current.stop()
        }
        _ = RunLoop.current.run(mode: .default)
    }
    round()
    let before = descriptors()
    for _ in 0..<300 { round() }
    ours.invalidate()
    theirs.invalidate()
    return descriptors() < before + 20 && state.count == 301 && state.other == 602
}

@Sendable func endsOfThreads(_ state: State) -> Bool {
    func descriptors() -> Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0 }
    func live(_ round: Int) {
        var thread = pthread_t()
        let body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { info in
            let round = Int(bitPattern: info)
            // The frames of Foundation's loop, which such an end leaves, own memory: the leak sanitizer disregards what this thread allocates.
            if round % 5 == 4, let disregard = dlsym(nil, "__lsan_disable") {
                unsafeBitCast(disregard, to: (@convention(c) () -> Void).self)()
            }
            RunLoop.hostsFoundation()
            if round % 5 == 0 { return nil }
            _ = Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
                if round % 5 == 1 { pthread_exit(nil) }
            }
            _ = FoundationTimer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
                if round % 5 == 4 { pthread_exit(nil) }
            }
            let kept = keepTheirs()
            if round % 5 == 2 {
                _ = FoundationLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.002))
            } else {
                _ = RunLoop.current.run(mode: .default, before: Date(timeIntervalSinceNow: 0.002))
            }
            _ = kept
            return nil
        }
        pthread_create(&thread, nil, body, UnsafeMutableRawPointer(bitPattern: round))
        pthread_join(thread, nil)
    }
    for round in 0..<8 { live(round) }
    let before = descriptors()
    for round in 0..<200 { live(round) }
    // What Foundation and libdispatch open in the meantime is not much, but Foundation's loop leaves its own three where a callback of
    // its ends the thread.
    return descriptors() < before + 200 / 5 * 3 + 20
}

@Sendable func childOfFork(_ state: State) -> Bool {
    typealias Fork = @convention(c) () -> pid_t
    // Swift hides fork, for good reasons.
    let fork = unsafeBitCast(dlsym(nil, "fork"), to: Fork.self)
    let kept = keepTheirs()
    defer { kept.invalidate() }
    RunLoop.current.run(mode: .default, before: Date())
    let child = fork()
    if child == 0 {
        alarm(20)
        _ = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in RunLoop.current.stop() }
        let result = RunLoop.current.run(mode: .default)
        _exit(result == .stopped ? 0 : 1)
    }
    var status: Int32 = 0
    waitpid(child, &status, 0)
    // The parent's loops have lost nothing.
    _ = FoundationTimer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in RunLoop.current.stop() }
    return status == 0 && RunLoop.current.run(mode: .default) == .stopped
}

/// A callback of ours forks inside of a wait of theirs, in whose mode ours keeps something meanwhile.
@Sendable func childInWaitOfTheirs(_ state: State) -> Bool {
    onThread {
        typealias Fork = @convention(c) () -> pid_t
        let fork = unsafeBitCast(dlsym(nil, "fork"), to: Fork.self)
        let kept = keepTheirs()
        defer { kept.invalidate() }
        guard RunLoop.hostsFoundation() else { return false }
        nonisolated(unsafe) var status: Int32 = -1
        RunLoop.current.perform {
            let child = fork()
            if child == 0 {
                alarm(20)
                _ = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: false) { _ in }
                let result = RunLoop.current.run(mode: .default)
                // Nothing is left of the host's, neither in the mode nor on the loop.
                let run = try? RunLoop.ForeignRun()
                _exit(result == .finished && run != nil ? 0 : 1)
            }
            waitpid(child, &status, 0)
            RunLoop.current.stop()
        }
        _ = FoundationLoop.current.run(mode: .default, before: Date() + 20)
        return status == 0
    }
}

/// Runs the body without room for descriptors, which comes back in the middle of it.
private func withoutDescriptors(_ body: () -> Void) {
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    var none = rlimit(rlim_cur: 0, rlim_max: limit.rlim_max)
    let back = Thread { [limit] in
        var limit = limit
        usleep(20_000)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
    back.start()
    body()
    setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
}

/// Ours waits in a mode that became a common one after the call.
@Sendable func descriptorsForTheirs(_ state: State) -> Bool {
    onThread {
        let (loop, theirs, mode) = (RunLoop.current, FoundationLoop.current, RunLoop.Mode("late"))
        guard RunLoop.hostsFoundation() else { return false }
        loop.addCommonMode(mode)
        loop.add(Timer(timeInterval: 1000, repeats: false) { _ in }, forMode: mode)
        let timer = FoundationTimer(timeInterval: 0.001, repeats: true) { _ in
            state.count += 1
            RunLoop.current.stop()
        }
        theirs.add(timer, forMode: FoundationLoop.Mode("late"))
        _ = theirs.run(mode: FoundationLoop.Mode("late"), before: Date() + 20)
        state.count = 0
        var result: RunLoop.RunResult?
        withoutDescriptors { result = loop.run(mode: mode, for: .seconds(20)) }
        timer.invalidate()
        // It may be due once more at the end of the run.
        return state.count >= 1 && result == .stopped
    }
}

@Sendable func descriptorsForOurs(_ state: State) -> Bool {
    onThread {
        let loop = RunLoop.current
        let kept = keepTheirs()
        defer { kept.invalidate() }
        guard RunLoop.hostsFoundation() else { return false }
        _ = FoundationLoop.current.run(mode: .default, before: Date() + 0.001)
        let timer = Timer(timeInterval: 0.001, repeats: true) { _ in
            state.count += 1
            RunLoop.current.stop()
        }
        loop.add(timer, forMode: .default)
        withoutDescriptors { _ = FoundationLoop.current.run(mode: .default, before: Date() + 20) }
        timer.invalidate()
        return state.count >= 1
    }
}

@Sendable func noDescriptors(_ state: State) -> Bool {
    onThread {
        // Foundation's loop itself cannot do without.
        let theirs = FoundationLoop.current
        _ = RunLoop.current
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        var none = rlimit(rlim_cur: 0, rlim_max: limit.rlim_max)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
        let refused = !RunLoop.hostsFoundation()
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return refused && RunLoop.hostsFoundation() && theirTimers(State()) && theirs === FoundationLoop.current
    }
}
