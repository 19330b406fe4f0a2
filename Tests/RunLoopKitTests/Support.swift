// SPDX-License-Identifier: MIT
// What the tests share. A loop belongs to a thread, so a test makes a thread, runs its scenario there
// and checks what the scenario reports on its own thread, where the testing library expects it.
import RunLoopKit
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A thread that runs one closure; `join` waits for it and gives the closure's result.
final class TestThread<Result: Sendable>: Sendable {
    private let body: @Sendable () -> Result
    private let result = Mutex<Result?>(nil)
    private let thread = Mutex<pthread_t>(0)

    init(_ body: @escaping @Sendable () -> Result) {
        self.body = body
        let start: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { info in
            let run = Unmanaged<AnyObject>.fromOpaque(info!).takeRetainedValue() as! any Runnable
            run.execute()
            return nil
        }
        let info = Unmanaged.passRetained(self as AnyObject).toOpaque()
        thread.withLock { thread in
            let status = pthread_create(&thread, nil, start, info)
            precondition(status == 0, "no thread to be had")
        }
    }

    /// Waits until the thread, with its thread-specific values, is gone.
    @discardableResult
    func join() -> Result {
        let thread = thread.withLock { $0 }
        let status = pthread_join(thread, nil)
        precondition(status == 0, "a thread is joined once")
        return result.withLock { $0! }
    }
}

private protocol Runnable { func execute() }

extension TestThread: Runnable {
    fileprivate func execute() {
        let value = body()
        result.withLock { $0 = value }
    }
}

/// Runs a scenario on a new thread, which has a loop of its own, and waits for its result.
func onNewThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) -> Result {
    TestThread(body).join()
}

// Of the C library, for threads whose loop Swift code knows for a moment only: the module does not export them.
@_silgen_name("RLGetCurrent")
func RLGetCurrent() -> OpaquePointer
@_silgen_name("RLRunInMode")
func RLRunInMode(_ mode: UnsafePointer<CChar>, _ seconds: Double, _ returnsAfterSource: Bool) -> Int32

/// Sanitized code does a part of the usual work, as the stress programs do.
func scaled(_ rounds: Int) -> Int {
    let scale = getenv("RL_STRESS_SCALE").flatMap { Int(String(cString: $0)) } ?? 1
    return max(rounds / max(scale, 1), 20)
}

/// The address sanitizer makes frames many times as large, and keeps freed memory for a while; what is lost it finds by itself.
let isAddressSanitized = dlsym(nil, "__asan_init") != nil
let isThreadSanitized = dlsym(nil, "__tsan_init") != nil
/// Each of the sanitizers keeps memory for what the program has made and ended.
let isSanitized = isAddressSanitized || isThreadSanitized

/// The tests and what they test are built one way.
var isOptimized: Bool {
    #if DEBUG
    false
    #else
    true
    #endif
}

/// Processor time of this thread.
func threadTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// What happened, in order; any thread may add to it.
final class Trace: Sendable {
    private let entries = Mutex<[String]>([])

    func add(_ entry: String) { entries.withLock { $0.append(entry) } }

    var all: [String] { entries.withLock { $0 } }

    var count: Int { entries.withLock { $0.count } }
}

/// A value that one thread waits for and another provides, once; later offers change nothing.
final class Promise<Value: Sendable>: @unchecked Sendable {
    // Sendable: the condition guards the value, and both live in memory of their own.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var provided: Value?

    init() {
        pthread_mutex_init(mutex, nil)
        pthread_cond_init(condition, nil)
    }

    func fulfil(_ value: Value) {
        pthread_mutex_lock(mutex)
        if provided == nil { provided = value }
        pthread_cond_broadcast(condition)
        pthread_mutex_unlock(mutex)
    }

    /// The value, as soon as there is one.
    var value: Value {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while provided == nil { pthread_cond_wait(condition, mutex) }
        return provided!
    }

    /// Lets go of the value, so that one that leads back here can die.
    func forget() {
        pthread_mutex_lock(mutex)
        let forgotten = provided
        provided = nil
        pthread_mutex_unlock(mutex)
        _ = forgotten
    }

    deinit {
        pthread_cond_destroy(condition)
        pthread_mutex_destroy(mutex)
        condition.deallocate()
        mutex.deallocate()
    }
}

/// Says whether the object it hands to a closure still exists.
final class Canary: Sendable {
    private let died: Atomic<Int>
    init() { died = Atomic(0) }

    /// How many of the objects made by `capture` have died.
    var deaths: Int { died.load(ordering: .acquiring) }

    /// An object whose death is counted.
    func capture() -> Captured { Captured(self) }

    final class Captured: Sendable {
        private let canary: Canary
        init(_ canary: Canary) { self.canary = canary }
        func touch() {}
        deinit { canary.died.add(1, ordering: .acquiringAndReleasing) }
    }
}

extension RunLoop.Activities {
    /// The short names that the reference traces of the specification use.
    var letter: String {
        switch self {
        case .entry: "E"
        case .beforeTimers: "BT"
        case .beforeSources: "BS"
        case .beforeWaiting: "BW"
        case .afterWaiting: "AW"
        case .exit: "X"
        default: "?"
        }
    }
}

extension RunLoop {
    /// An observer on all activities of the default mode that writes them down.
    @discardableResult
    func traceActivities(to trace: Trace, forMode mode: Mode = .default) -> Observer {
        let observer = Observer(activities: .allActivities) { _, activity in trace.add(activity.letter) }
        add(observer, forMode: mode)
        return observer
    }

    /// A custom source in the mode that does nothing; it keeps the mode from being empty.
    @discardableResult
    func keepAlive(forMode mode: Mode = .default) -> Source {
        let source = Source { _ in }
        add(source, forMode: mode)
        return source
    }
}

/// A thread whose loop goes by the clock until it is stopped.
func startedThread(with clock: TestClock) async throws -> RunLoopThread {
    let thread = RunLoopThread { thread in
        RunLoop.current.setClock(clock)
        RunLoop.current.keepAlive()
        thread.loop.run(mode: .default, for: nil)
    }
    try thread.start()
    // It runs when this is called, and so has the clock.
    try await thread.loop.call {}
    return thread
}

/// A pipe whose ends are closed at the end.
final class Pipe: Sendable {
    let readEnd: CInt
    let writeEnd: CInt

    init() {
        var ends: [CInt] = [-1, -1]
        let status = pipe(&ends)
        precondition(status == 0, "no pipe to be had")
        (readEnd, writeEnd) = (ends[0], ends[1])
    }

    /// Whether a descriptor is of this pipe. One that was closed is not, though another test may have its number by now.
    func has(_ descriptor: CInt) -> Bool {
        var (own, other) = (stat(), stat())
        return fstat(readEnd, &own) == 0 && fstat(descriptor, &other) == 0 && own.st_dev == other.st_dev && own.st_ino == other.st_ino
    }

    func write(_ bytes: Int) {
        let buffer = [UInt8](repeating: 7, count: bytes)
        precondition(Glibc.write(writeEnd, buffer, bytes) == bytes, "the pipe is full")
    }

    /// Reads up to so many bytes and says how many there were.
    func read(_ bytes: Int) -> Int {
        var buffer = [UInt8](repeating: 0, count: bytes)
        return Glibc.read(readEnd, &buffer, bytes)
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }
}
