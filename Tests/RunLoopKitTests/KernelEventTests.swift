// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Starts a shell and gives its process id.
private func startShell(_ command: String) -> pid_t {
    var process: pid_t = -1
    let arguments = ["/bin/sh", "-c", command].map { (word: String) in strdup(word) }
    let status = posix_spawn(&process, "/bin/sh", nil, nil, arguments + [nil], environ)
    arguments.forEach { free($0) }
    precondition(status == 0, "no process to be had")
    return process
}

/// The error that something throws.
private func code(_ body: () throws(RunLoop.SystemError) -> Void) -> CInt? {
    do throws(RunLoop.SystemError) { try body() } catch { return error.code }
    return nil
}

/// Sources for what the kernel tells.
@Suite struct KernelEventTests {
    @Test("A signal is told with how often it came, and ends a run as a source: S-KEV-1, S-KEV-2, S-KEV-9")
    func signals() {
        // Nobody else in this process uses this one.
        let number: CInt = 45
        let counts = onNewThread { () -> [Int] in
            let counts = Locked<[Int]>([])
            let source = try! RunLoop.Source(onSignal: number) { _, count in counts.change { $0.append(count) } }
            for _ in 0..<3 { raise(number) }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.run(mode: .default, before: .distantFuture)
            kill(getpid(), number)
            RunLoop.current.run(mode: .default, before: .distantFuture)
            source.invalidate()
            return counts.value
        }
        #expect(counts == [3, 1])
        #expect(code { () throws(RunLoop.SystemError) in _ = try RunLoop.Source(onSignal: SIGKILL) { _, _ in } } == EINVAL)
    }

    @Test("The end of a child is told once, with how it came: S-KEV-4, S-KEV-8, S-KEV-9")
    func processes() {
        let ends = onNewThread { () -> [RunLoop.Source.ProcessEnd] in
            let ends = Locked<[RunLoop.Source.ProcessEnd]>([])
            for command in ["exit 7", "kill -9 $$"] {
                let source = try! RunLoop.Source(onExitOf: startShell(command), reaps: true) { _, end in
                    ends.change { $0.append(end) }
                }
                RunLoop.current.add(source, forMode: .default)
                RunLoop.current.run(mode: .default, before: .distantFuture)
                #expect(!source.isValid)
            }
            return ends.value
        }
        #expect(ends == [.exited(7), .signalled(9)])
        // Nobody has a process with the largest number there is.
        #expect(code { () throws(RunLoop.SystemError) in _ = try RunLoop.Source(onExitOf: .max) { _, _ in } } == ESRCH)
    }

    @Test("Changes of a file and of a name are told: S-KEV-13, S-KEV-14")
    func files() {
        let told = onNewThread { () -> [RunLoop.Source.FileChanges] in
            let told = Locked<[RunLoop.Source.FileChanges]>([])
            let path = "/tmp/runloopkit-\(getpid())-\(UInt32.random(in: .min ... .max))"
            let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            let open = try! RunLoop.Source(watchingFile: descriptor, for: [.written, .extended]) { _, changes in
                told.change { $0.append(changes) }
            }
            RunLoop.current.add(open, forMode: .default)
            #expect(write(descriptor, "x", 1) == 1)
            RunLoop.current.run(mode: .default, before: .distantFuture)
            open.invalidate()
            let named = try! RunLoop.Source(watchingPath: path, for: .replaced) { _, changes in
                told.change { $0.append(changes) }
            }
            RunLoop.current.add(named, forMode: .default)
            let other = Glibc.open(path + ".new", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            #expect(rename(path + ".new", path) == 0)
            RunLoop.current.run(mode: .default, before: .distantFuture)
            named.invalidate()
            unlink(path)
            close(descriptor)
            close(other)
            return told.value
        }
        #expect(told == [[.written, .extended], [.replaced]])
        let missing = code { () throws(RunLoop.SystemError) in
            _ = try RunLoop.Source(watchingPath: "/tmp/no-such-folder/file", for: .written) { _, _ in }
        }
        #expect(missing == ENOENT)
        let noFile = code { () throws(RunLoop.SystemError) in
            _ = try RunLoop.Source(watchingFile: -1, for: .written) { _, _ in }
        }
        #expect(noFile == EBADF || noFile == EINVAL)
    }

    @Test("Kernel timers count by their clocks and are not early: S-KEV-5, S-KEV-6, S-KEV-9")
    func clocks() {
        let (count, time) = onNewThread { () -> (Int, Duration) in
            let count = Locked(0)
            let start = ContinuousClock.now
            let source = try! RunLoop.Source(every: .milliseconds(5), by: .boot) { _, passed in count.change { $0 += passed } }
            RunLoop.current.add(source, forMode: .default)
            while count.value < 3, RunLoop.current.run(mode: .default, before: .distantFuture) {}
            source.invalidate()
            return (count.value, ContinuousClock.now - start)
        }
        #expect(count >= 3)
        #expect(time >= .milliseconds(15))
        let wall = onNewThread { () -> Bool in
            let source = try! RunLoop.Source(whenWallClockShows: .seconds(1)) { _ in }
            let change = try! RunLoop.Source.whenClockIsSet { _ in }
            RunLoop.current.add(source, forMode: .default)
            RunLoop.current.run(mode: .default, before: .distantFuture)
            let isSpent = !source.isValid
            change.invalidate()
            return isSpent
        }
        #expect(wall)
        #expect(code { () throws(RunLoop.SystemError) in _ = try RunLoop.Source(every: .seconds(-1)) { _, _ in } } == EINVAL)
    }

    @Test("Triggers join their bits, wake the loop, and wait while reports are off: S-KEV-7, S-KEV-8, S-KEV-12, S-KEV-10")
    func triggers() {
        let canary = Canary()
        let waiting = Promise<RunLoop>()
        let trace = Trace()
        let make = { () -> RunLoop.Source in
            let captured = canary.capture()
            return try! RunLoop.Source.whenTriggered { [captured] _, bits, data in
                captured.touch()
                trace.add("\(bits) \(data)")
                RunLoop.current.stop()
            }
        }
        do {
            let source = make()
            let thread = TestThread { () -> RunLoop.RunResult in
                RunLoop.current.add(source, forMode: .default)
                let ready = RunLoop.Observer(activities: .beforeWaiting) { _, _ in waiting.fulfil(RunLoop.current) }
                RunLoop.current.add(ready, forMode: .default)
                source.setReportsEnabled(false)
                return RunLoop.current.run(mode: .default)
            }
            _ = waiting.value
            source.trigger(bits: 1, data: 10)
            source.trigger(bits: 4, data: 11)
            #expect(source.areReportsEnabled == false)
            source.setReportsEnabled(true)
            #expect(source.areReportsEnabled == true)
            #expect(thread.join() == .stopped)
        }
        #expect(trace.all == ["5 11"])
        #expect(canary.deaths == 1)
        let plain = RunLoop.Source { _ in }
        plain.trigger()
        plain.setReportsEnabled(false)
        #expect(plain.areReportsEnabled == nil && !plain.isSignalled)
    }
}

/// A value behind a lock, for closures that add to it.
private final class Locked<Value: Sendable>: @unchecked Sendable {
    // Sendable: the value is touched under the lock only.
    private let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private var stored: Value

    init(_ value: Value) {
        stored = value
        pthread_mutex_init(lock, nil)
    }

    func change(_ body: (inout Value) -> Void) {
        pthread_mutex_lock(lock)
        body(&stored)
        pthread_mutex_unlock(lock)
    }

    var value: Value {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return stored
    }

    deinit {
        pthread_mutex_destroy(lock)
        lock.deallocate()
    }
}
