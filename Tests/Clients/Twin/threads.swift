// SPDX-License-Identifier: MIT
// Ordinary Foundation code with threads and locks, in the ways that Foundation's documentation shows. Built with Foundation and with
// RunLoopKit it prints the same, except for the lines that expected-threads.txt marks with the rule that Foundation on Linux breaks.
// Locks are S-NSLK-1 and S-NSLK-3, threads S-NSTH-1 to S-NSTH-11.
#if RUNLOOPKIT
import RunLoopKit

// What Foundation has for times.
typealias Date = ContinuousClock.Instant
typealias TimeInterval = Duration
extension Date {
    init(timeIntervalSinceNow seconds: Double) { self = .now + .seconds(seconds) }
    init() { self = .now }
}
func interval(_ seconds: Double) -> TimeInterval { .seconds(seconds) }
#else
import Foundation

func interval(_ seconds: Double) -> TimeInterval { seconds }
#endif

// MARK: - Classes of the kind that programs have

/// Something to wait for, as often as it was signalled.
final class Semaphore {
    private let condition = NSCondition()
    private var count: Int

    init(_ count: Int = 0) { self.count = count }

    func signal() {
        condition.lock()
        count += 1
        condition.signal()
        condition.unlock()
    }

    func wait() {
        condition.lock()
        defer { condition.unlock() }
        while count == 0 { condition.wait() }
        count -= 1
    }

    /// Whether it was signalled in time.
    func wait(until limit: Date) -> Bool {
        condition.lock()
        defer { condition.unlock() }
        while count == 0 {
            if !condition.wait(until: limit) { return false }
        }
        count -= 1
        return true
    }
}

/// Values that wait for room, and for somebody who takes them.
final class BoundedBuffer<Element> {
    private let condition = NSCondition()
    private var elements: [Element] = []
    private let capacity: Int

    init(capacity: Int) { self.capacity = capacity }

    func put(_ element: Element) {
        condition.lock()
        while elements.count == capacity { condition.wait() }
        elements.append(element)
        condition.broadcast()
        condition.unlock()
    }

    func take() -> Element {
        condition.lock()
        defer {
            condition.broadcast()
            condition.unlock()
        }
        while elements.isEmpty { condition.wait() }
        return elements.removeFirst()
    }
}

/// A value with its lock, for any lock there is.
final class Protected<Value, Lock: NSLocking> {
    private let lock: Lock
    private var value: Value

    init(_ value: Value, _ lock: Lock) {
        self.value = value
        self.lock = lock
    }

    func read() -> Value {
        lock.lock()
        defer { lock.unlock() }
        return value
    }

    func update(_ body: (inout Value) -> Void) {
        lock.lock()
        body(&value)
        lock.unlock()
    }
}

/// Threads that do jobs until they are told to end.
final class Workers {
    private let jobs = BoundedBuffer<(() -> Void)?>(capacity: 4)
    private let ended = Semaphore()
    private let count: Int

    init(count: Int) {
        self.count = count
        for number in 0..<count {
            let thread = Thread { [self] in
                while let job = jobs.take() { job() }
                ended.signal()
            }
            thread.name = "worker \(number)"
            thread.start()
        }
    }

    func perform(_ job: @escaping () -> Void) { jobs.put(job) }

    func end() {
        for _ in 0..<count { jobs.put(nil) }
        for _ in 0..<count { ended.wait() }
    }
}

/// A tree whose functions call each other with the lock held.
final class Tree {
    private let lock = NSRecursiveLock()
    private var children: [Tree] = []
    private var value = 0

    init(depth: Int) {
        if depth > 0 { children = [Tree(depth: depth - 1), Tree(depth: depth - 1)] }
    }

    func add(_ amount: Int) {
        lock.lock()
        defer { lock.unlock() }
        value += amount
        for child in children { child.add(amount) }
    }

    var sum: Int {
        lock.withLock { value + children.reduce(0) { $0 + $1.sum } }
    }

    func addAndSum(_ amount: Int) -> Int {
        lock.lock()
        defer { lock.unlock() }
        add(amount)
        return sum
    }
}

/// A lock of the program's own that counts.
final class CountingLock: NSLocking {
    private let inner = NSLock()
    private(set) var count = 0

    func lock() {
        inner.lock()
        count += 1
    }

    func unlock() { inner.unlock() }
}

// MARK: - Helpers

func chapter(_ title: String, _ body: () -> Void) {
    print("== \(title)")
    body()
}

/// Calls the body on new threads, with their numbers, and waits for their ends.
func onThreads(_ count: Int, _ body: @escaping (Int) -> Void) {
    let done = Semaphore()
    for number in 0..<count {
        Thread.detachNewThread {
            body(number)
            done.signal()
        }
    }
    for _ in 0..<count { done.wait() }
}

final class Box<Value> { var result: Value? }

/// What another thread sees.
func elsewhere<Result>(_ body: @escaping () -> Result) -> Result {
    let box = Box<Result>()
    onThreads(1) { _ in box.result = body() }
    return box.result!
}

/// Waits until a thread is finished; whether that was in a minute.
func finishes(_ thread: Thread) -> Bool {
    let limit = Date(timeIntervalSinceNow: 60)
    while !thread.isFinished, Date() < limit { Thread.sleep(forTimeInterval: interval(0.001)) }
    return thread.isFinished
}

/// `lock(whenCondition:)`, which ends the program on Linux if it has to wait: Foundation cannot convert the distant future there.
func take(_ lock: NSConditionLock, when condition: Int) {
    while !lock.lock(whenCondition: condition, before: Date(timeIntervalSinceNow: 60)) {}
}

final class Log {
    private let lock = NSLock()
    private var entries: [String] = []

    func add(_ entry: String) { lock.withLock { entries.append(entry) } }
    var all: String { lock.withLock { entries.joined(separator: ", ") } }
}

// MARK: - Locks

chapter("a lock") {
    let lock = NSLock()
    print(lock.name ?? "no name")
    lock.name = "accounts"
    print(lock.name!)
    print(lock.try(), lock.try(), lock.lock(before: Date(timeIntervalSinceNow: 0.005)), lock.lock(before: .distantPast))
    print(elsewhere { lock.try() }, elsewhere { lock.lock(before: Date(timeIntervalSinceNow: 0.005)) })
    lock.unlock()
    print(elsewhere { () -> Bool in
        defer { lock.unlock() }
        return lock.lock(before: .distantPast)
    })
    print(lock.withLock { "inside" })
    struct Refusal: Error {}
    do { try lock.withLock { throw Refusal() } } catch { print("thrown \(error)") }
    print(lock.try())
    lock.unlock()
}

chapter("four threads count") {
    let plain = Protected(0, NSLock())
    let recursive = Protected(0, NSRecursiveLock())
    let condition = Protected(0, NSCondition())
    onThreads(4) { _ in
        for _ in 0..<1000 {
            plain.update { $0 += 1 }
            recursive.update { $0 += 1 }
            condition.update { $0 += 1 }
        }
    }
    print(plain.read(), recursive.read(), condition.read())
}

chapter("a lock of the program's own") {
    let lock = CountingLock()
    let total = Protected(0, lock)
    onThreads(2) { _ in for _ in 0..<50 { total.update { $0 += 2 } } }
    print(total.read(), lock.count)
    print(lock.withLock { lock.count })
}

chapter("a working loop that only tries") {
    let lock = NSLock()
    let begun = Semaphore()
    let mayEnd = Semaphore()
    Thread.detachNewThread {
        lock.lock()
        begun.signal()
        mayEnd.wait()
        lock.unlock()
    }
    begun.wait()
    var other = 0
    while !lock.try() {
        other += 1
        if other == 3 { mayEnd.signal() }
        Thread.sleep(forTimeInterval: interval(0.001))
    }
    lock.unlock()
    print(other >= 3)
}

chapter("a recursive lock") {
    let tree = Tree(depth: 3)
    onThreads(3) { number in for _ in 0..<10 { tree.add(number) } }
    print(tree.sum, tree.addAndSum(1))
    let lock = NSRecursiveLock()
    lock.lock()
    print(lock.try(), lock.lock(before: .distantPast))
    print(elsewhere { lock.try() })
    lock.unlock()
    lock.unlock()
    print(elsewhere { lock.try() })
    lock.unlock()
    print(elsewhere { () -> Bool in
        defer { lock.unlock() }
        return lock.try()
    })
}

chapter("a condition") {
    let buffer = BoundedBuffer<Int>(capacity: 3)
    let sums = Protected(0, NSLock())
    onThreads(4) { number in
        if number < 2 {
            for value in 1...500 { buffer.put(value) }
        } else {
            for _ in 1...500 {
                let value = buffer.take()
                sums.update { $0 += value }
            }
        }
    }
    print(sums.read())
    let semaphore = Semaphore(1)
    print(semaphore.wait(until: .distantPast), semaphore.wait(until: .distantPast))
    print(semaphore.wait(until: Date(timeIntervalSinceNow: 0.005)))
    Thread.detachNewThread { semaphore.signal() }
    print(semaphore.wait(until: Date(timeIntervalSinceNow: 60)))
    let condition = NSCondition()
    condition.name = "ready"
    condition.signal()
    condition.lock()
    print(condition.wait(until: Date(timeIntervalSinceNow: 0.005)), condition.name!)
    condition.unlock()
}

chapter("a lock with a number") {
    let (empty, full) = (0, 1)
    let lock = NSConditionLock(condition: empty)
    let slot = Protected(0, NSLock())
    let log = Log()
    Thread.detachNewThread {
        for number in 1...4 {
            take(lock, when: empty)
            slot.update { $0 = number }
            lock.unlock(withCondition: full)
        }
    }
    for _ in 1...4 {
        take(lock, when: full)
        log.add("\(slot.read())")
        lock.unlock(withCondition: empty)
    }
    print(log.all)
    print(lock.condition, lock.tryLock(whenCondition: full), lock.tryLock(whenCondition: empty), lock.try())
    lock.unlock(withCondition: 9)
    print(lock.condition, lock.lock(whenCondition: 9, before: .distantPast), lock.lock(before: .distantPast))
    lock.unlock()
    print(lock.lock(whenCondition: 3, before: Date(timeIntervalSinceNow: 0.005)), lock.lock(before: .distantPast))
    lock.unlock(withCondition: 2)
    print(lock.condition, NSConditionLock(condition: -4).condition, lock.name ?? "no name")
}

chapter("three threads take turns") {
    let lock = NSConditionLock(condition: 0)
    let log = Log()
    onThreads(3) { number in
        for round in 0..<3 {
            take(lock, when: number)
            log.add("\(number)\(round)")
            lock.unlock(withCondition: (number + 1) % 3)
        }
    }
    print(log.all)
}

// MARK: - Threads

chapter("the life of a thread") {
    let mayEnd = Semaphore()
    let begun = Semaphore()
    let thread = Thread {
        begun.signal()
        mayEnd.wait()
    }
    print(thread.isExecuting, thread.isFinished, thread.isCancelled, thread.isMainThread)
    thread.start()
    begun.wait()
    print(thread.isExecuting, thread.isFinished)
    mayEnd.signal()
    print(finishes(thread), thread.isExecuting)
    thread.cancel()
    print(thread.isCancelled, thread.isFinished)
}

chapter("who is executing") {
    print(Thread.isMainThread, Thread.current.isMainThread, Thread.current === Thread.mainThread)
    print(Thread.current.isExecuting, Thread.current.isFinished, Thread.current.isCancelled)
    let thread = Thread.current
    print(elsewhere { Thread.isMainThread || Thread.current === thread }, elsewhere { Thread.mainThread === thread })
    let log = Log()
    let known = Box<Thread>()
    let done = Semaphore()
    known.result = Thread {
        log.add("\(Thread.current === known.result!) \(Thread.current.isExecuting)")
        done.signal()
    }
    known.result!.start()
    done.wait()
    print(log.all)
    print(elsewhere { Thread.current === Thread.current })
}

chapter("a name") {
    let long = "a name that is rather long"
    let names = Log()
    let done = Semaphore()
    let thread = Thread {
        names.add("\(Thread.current.name == "short")")
        Thread.current.name = long
        names.add("\(Thread.current.name == long)")
        done.signal()
    }
    thread.name = "short"
    names.add("\(thread.name == "short")")
    thread.start()
    done.wait()
    print("is as it was set: \(names.all)")
}

chapter("cancellation") {
    let polls = Protected(0, NSLock())
    let thread = Thread {
        while !Thread.current.isCancelled {
            polls.update { $0 += 1 }
            Thread.sleep(forTimeInterval: interval(0.001))
        }
    }
    thread.start()
    while polls.read() < 3 { Thread.sleep(forTimeInterval: interval(0.001)) }
    thread.cancel()
    print(finishes(thread), thread.isCancelled)
    let never = Thread { print("not called") }
    never.cancel()
    never.start()
    print(finishes(never), never.isExecuting)
}

chapter("an end in the middle") {
    let log = Log()
    @Sendable func leave() { Thread.exit() }
    let thread = Thread {
        log.add("before")
        leave()
        log.add("after")
    }
    thread.start()
    print(finishes(thread), log.all)
}

chapter("the values of a thread") {
    let seen = Log()
    let done = Semaphore()
    let thread = Thread {
        seen.add("\(Thread.current.threadDictionary["number"] as? Int ?? 0)")
        Thread.current.threadDictionary["text"] = "left"
        done.signal()
    }
    thread.threadDictionary["number"] = 7
    thread.start()
    done.wait()
    print(seen.all, thread.threadDictionary["text"] as? String ?? "none", Thread.current.threadDictionary["number"] == nil)
}

chapter("attributes") {
    let thread = Thread {}
    print(thread.stackSize > 0, thread.qualityOfService == .default)
    thread.stackSize = 1 << 20
    thread.qualityOfService = .utility
    print(thread.stackSize == 1 << 20, thread.qualityOfService == .utility)
    thread.start()
    print(finishes(thread), thread.stackSize == 1 << 20)
}

chapter("notifications") {
    let log = Log()
    let centre = NotificationCenter.default
    let names: [Notification.Name] = [.NSWillBecomeMultiThreaded, .NSDidBecomeSingleThreaded, .NSThreadWillExit]
    print(names.map { $0.rawValue })
    let observer = centre.addObserver(forName: .NSThreadWillExit, object: nil, queue: nil) { note in
        guard let thread = note.object as? Thread, thread.threadDictionary["twin"] != nil else { return }
        log.add("\(thread === Thread.current) \(thread.isFinished)")
    }
    let thread = Thread {}
    thread.threadDictionary["twin"] = true
    thread.start()
    print(finishes(thread), "told: \(log.all)")
    centre.removeObserver(observer)
    print(Thread.isMultiThreaded())
}

chapter("workers") {
    let workers = Workers(count: 3)
    let squares = Protected([Int](), NSLock())
    for number in 1...20 { workers.perform { squares.update { $0.append(number * number) } } }
    workers.end()
    print(squares.read().sorted().reduce(0, +), squares.read().count)
}

chapter("sleep and the stack") {
    let begin = Date()
    Thread.sleep(until: Date(timeIntervalSinceNow: 0.01))
    print(Date() >= begin + interval(0.01))
    Thread.sleep(until: .distantPast)
    Thread.sleep(forTimeInterval: interval(-1))
    print(!Thread.callStackSymbols.isEmpty, Thread.callStackReturnAddresses.count == Thread.callStackSymbols.count)
}
