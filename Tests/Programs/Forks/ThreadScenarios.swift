// SPDX-License-Identifier: MIT
// Thread's objects and locks in the child of a fork, and a main thread that ends before the others.
import Glibc
import RunLoopKit
import Synchronization

/// A thread that stays until it may end, with a lock that it holds.
final class Holder: Sendable {
    let lock = NSLock()
    private let holds = Flag()
    private let mayEnd = Flag()
    private let ended = Flag()
    private let known = Mutex<Thread?>(nil)

    init() {
        let thread = Thread { [self] in
            lock.withLock {
                holds.set()
                while !mayEnd.isSet { Thread.sleep(forTimeInterval: .milliseconds(1)) }
            }
            ended.set()
        }
        known.withLock { $0 = thread }
        thread.start()
        while !holds.isSet { Thread.sleep(forTimeInterval: .milliseconds(1)) }
    }

    var thread: Thread { known.withLock { $0! } }

    func end() {
        mayEnd.set()
        while !ended.isSet { Thread.sleep(forTimeInterval: .milliseconds(1)) }
    }
}

/// Waits for a thread of the class, which calls the closure.
func onThreadObject(_ body: @escaping @Sendable () -> String) -> String {
    let result = Mutex("")
    let isDone = Flag()
    Thread.detachNewThread {
        let text = body()
        result.withLock { $0 = text }
        isDone.set()
    }
    while !isDone.isSet { Thread.sleep(forTimeInterval: .milliseconds(1)) }
    return result.withLock { $0 }
}

/// The thread that forks is the main one in the child, and the others have finished; locks are as they were.
func threadObjects() -> String {
    let main = Thread.main
    let holder = Holder()
    let end = onThreadObject {
        let own = Thread.current
        let ownLock = NSLock()
        let guarded = Guarded(0)
        let once = Once()
        ownLock.lock()
        return inChild {
            guard Thread.current === own, own.isMainThread, Thread.isMainThread, Thread.main === own else { return 1 }
            guard own.isExecuting, !own.isFinished else { return 2 }
            guard main.isFinished, !main.isExecuting, !main.isMainThread else { return 3 }
            guard holder.thread.isFinished, !holder.thread.isExecuting else { return 4 }
            holder.thread.name = "vanished"
            main.name = "vanished"
            holder.thread.cancel()
            if holder.lock.try() { return 5 }
            ownLock.unlock()
            guard ownLock.try() else { return 6 }
            once.call { guarded.withLock { $0 = 1 } }
            // A new thread finds them.
            let result = onThreadObject { "\(Thread.main === own) \(Thread.isMainThread) \(guarded.withLock { $0 })" }
            return result == "true false 1" ? 0 : 7
        }
    }
    holder.end()
    return end
}

/// The same where the main thread forks.
func mainThreadObject() -> String {
    let main = Thread.main
    let holder = Holder()
    let end = inChild {
        guard Thread.main === main, Thread.current === main, main.isExecuting, !main.isFinished else { return 1 }
        return holder.thread.isFinished ? 0 : 2
    }
    holder.end()
    return end
}

/// The main thread ends, and another one ends the process.
func endOfMain() -> String {
    inChild {
        let main = Thread.main
        Thread {
            while !main.isFinished { Thread.sleep(forTimeInterval: .milliseconds(1)) }
            _exit(0)
        }.start()
        Thread.exit()
    }
}

/// A lock that is a file: taken by a child that is killed, awaited by this process and by another child.
func fileLock(_ placement: Placement) -> String {
    let path = "/tmp/RunLoopKit.Forks.\(getpid())"
    guard let lock = try? DistributedLock(path: path) else { return "no lock" }
    defer { unlink(path) }
    let isOver = Flag()
    func take() -> CInt {
        let result = Mutex<CInt>(1)
        let isDone = Flag()
        placement.start { _ in
            let isTaken = (try? await lock.locked { true }) == true
            result.withLock { $0 = isTaken ? 0 : 2 }
            isDone.set()
        }
        while !isDone.isSet { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
        return result.withLock { $0 }
    }
    // Uses the thread that takes locks here before there is a child.
    if take() != 0 { return "not taken" }
    var ends: (read: CInt, write: CInt) = (0, 0)
    withUnsafeMutableBytes(of: &ends) { _ = pipe($0.assumingMemoryBound(to: CInt.self).baseAddress!) }
    let holder = makeChild()
    if holder == 0 {
        alarm(60)
        let own = try? DistributedLock(path: path)
        _ = try? own?.tryLock()
        _ = write(ends.write, "x", 1)
        while true { pause() }
    }
    var byte: UInt8 = 0
    _ = read(ends.read, &byte, 1)
    if (try? lock.tryLock()) != false { return "not held" }
    Thread.detachNewThread {
        Thread.sleep(forTimeInterval: .milliseconds(5))
        kill(holder, SIGKILL)
        isOver.set()
    }
    let status = take()
    while !isOver.isSet { Thread.sleep(forTimeInterval: .milliseconds(1)) }
    waitpid(holder, nil, 0)
    close(ends.read)
    close(ends.write)
    return "\(status), \(inChild(take))"
}

/// A thread that is told to end while the process has no descriptors, and whose body begins run after run without asking: each run
/// ends, also one that ends by nothing else, and the thread sleeps between them.
func toldWithoutDescriptors() -> String {
    let ends = [false, true].map { endsBySource in
        inChild {
            let runs = Counter()
            let isOver = Flag()
            let thread = onThread {
                while !isOver.isSet {
                    if endsBySource {
                        RunLoop.current.run(mode: .default, before: .distantFuture)
                    } else {
                        RunLoop.current.run(mode: .default, for: .seconds(1_000_000), returnAfterSourceHandled: false)
                    }
                    runs.add()
                }
            }
            while !thread.loop.isWaiting { usleep(1000) }
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            var none = rlimit(rlim_cur: 0, rlim_max: limit.rlim_max)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
            let start = ContinuousClock.now
            thread.stop()
            while runs.value < 1200 { usleep(1000) }
            let time = ContinuousClock.now - start
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            isOver.set()
            thread.join()
            // The first thousand begin at once, and of the others each a millisecond after the one before.
            return time >= .milliseconds(190) ? 0 : 1
        }
    }
    return ends.joined(separator: ", ")
}
