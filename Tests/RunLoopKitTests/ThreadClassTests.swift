// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

private final class WeakObject<Object: AnyObject & Sendable>: Sendable {
    weak let object: Object?
    init(_ object: Object?) { self.object = object }
}

/// Waits until an object says so; a test's time limit ends one that never does.
private func wait(for thread: Thread) {
    while !thread.isFinished { Thread.sleep(forTimeInterval: .milliseconds(1)) }
}

/// Threads with Foundation's shape.
@Suite(.timeLimit(.minutes(10))) struct ThreadClassTests {
    @Test("A thread is new, executes from start to the end of its closure, and is finished: S-NSTH-1")
    func phases() {
        let mayEnd = Promise<Void>()
        let thread = Thread { mayEnd.value }
        #expect(!thread.isExecuting && !thread.isFinished && !thread.isCancelled && !thread.isMainThread)
        thread.start()
        #expect(thread.isExecuting && !thread.isFinished)
        mayEnd.fulfil(())
        wait(for: thread)
        #expect(!thread.isExecuting && thread.isFinished)
    }

    @Test("The closure finds the thread's object as the current one, and a loop: S-NSTH-1 S-NSTH-3")
    func current() {
        let seen = Promise<(Thread, Bool, Bool)>()
        let thread = Thread {
            RunLoop.current.run(mode: .default, for: .zero)
            seen.fulfil((Thread.current, Thread.isMainThread, Thread.current.isExecuting))
        }
        thread.start()
        let (current, isMain, isExecuting) = seen.value
        #expect(current === thread && !isMain && isExecuting && current == thread)
        seen.forget()
    }

    @Test("The stack of a thread that has ended goes, though its object is kept: S-NSTH-1 S-THREAD-6")
    func stacksGo() {
        // Of addresses, in kilobytes. What other tests have beside this one is far less than a few of these stacks.
        func mapped() -> Int {
            guard let file = fopen("/proc/self/statm", "r") else { return 0 }
            defer { fclose(file) }
            var line = [CChar](repeating: 0, count: 100)
            fgets(&line, CInt(line.count), file)
            return strtol(line, nil, 10) * sysconf(CInt(_SC_PAGESIZE)) / 1024
        }
        let before = mapped()
        let threads = (0..<40).map { _ in
            let thread = Thread {}
            thread.stackSize = 1 << 30
            thread.start()
            wait(for: thread)
            return thread
        }
        // The last ones may be on their way out.
        while mapped() - before > 20 << 20 { Thread.sleep(forTimeInterval: .milliseconds(1)) }
        let areFinished = threads.allSatisfy { $0.isFinished }
        #expect(areFinished)
    }

    @Test("A subclass does its own in main, and may call the closure: S-NSTH-1")
    func subclass() {
        final class Worker: Thread, @unchecked Sendable {
            let trace = Trace()
            override func main() {
                trace.add("before")
                super.main()
                trace.add(Thread.current === self ? "after" : "another")
            }
        }
        let worker = Worker {}
        worker.start()
        wait(for: worker)
        #expect(worker.trace.all == ["before", "after"])
        let nothing = Thread()
        nothing.start()
        wait(for: nothing)
    }

    @Test("Starting a thread again stops the program: S-NSTH-1")
    func startedTwice() async {
        await #expect(processExitsWith: .failure) {
            let thread = Thread {}
            thread.start()
            thread.start()
        }
    }

    @Test("A thread that is cancelled before its start is finished by it, without its closure: S-NSTH-2")
    func cancelledBefore() {
        let trace = Trace()
        let thread = Thread { trace.add("called") }
        thread.cancel()
        #expect(thread.isCancelled && !thread.isFinished)
        thread.start()
        #expect(thread.isFinished && !thread.isExecuting && trace.count == 0)
    }

    @Test("Cancel sets a flag for good, and wakes the loop: S-NSTH-2")
    func cancel() {
        let mayRun = Promise<Void>()
        let thread = Thread {
            RunLoop.current.keepAlive()
            // Nothing else ends the wait of a pass.
            let observer = RunLoop.Observer(activities: .beforeWaiting) { _, _ in mayRun.fulfil(()) }
            RunLoop.current.add(observer, forMode: .default)
            RunLoop.current.add(RunLoop.Observer(activities: .afterWaiting) { _, _ in RunLoop.current.stop() }, forMode: .default)
            while !Thread.current.isCancelled { RunLoop.current.run(mode: .default) }
        }
        thread.start()
        mayRun.value
        thread.cancel()
        wait(for: thread)
        #expect(thread.isCancelled)
        let ended = Thread {}
        ended.start()
        wait(for: ended)
        ended.cancel()
        #expect(ended.isCancelled && ended.isFinished)
    }

    @Test("Each thread has one object, also one that this class has not made, until it ends: S-NSTH-3")
    func foreign() {
        let foreign = onNewThread { Thread.current === Thread.current ? Thread.current : nil }
        #expect(foreign?.isFinished == true && foreign?.isExecuting == false)
        let isExecuting = onNewThread { Thread.current.isExecuting && !Thread.current.isMainThread && !Thread.current.isCancelled }
        #expect(isExecuting)
        #expect(onNewThread { Thread.main !== Thread.current && Thread.main === Thread.mainThread })
        #expect(Thread.main.isMainThread && Thread.main.isExecuting)
    }

    @Test("A thread that lives in its loop has such an object too, with its name: S-NSTH-3 S-NSTH-6")
    func loopThread() async throws {
        let thread = RunLoopThread(name: "of the loop")
        try thread.start()
        #expect(try await thread.loop.call { Thread.current.name } == "of the loop")
        await thread.finish()
    }

    @Test("Exit ends the thread, by whatever it was called, and does not return: S-NSTH-4")
    func exit() {
        let trace = Trace()
        let thread = Thread {
            trace.add("before")
            let end = { Thread.exit() }
            end()
        }
        thread.start()
        wait(for: thread)
        // In a callback of the loop.
        let inLoop = Thread {
            RunLoop.current.perform { Thread.exit() }
            RunLoop.current.run(mode: .default, for: .zero)
            trace.add("after")
        }
        inLoop.start()
        wait(for: inLoop)
        // By the system's call.
        let bySystem = Thread { pthread_exit(nil) }
        bySystem.start()
        wait(for: bySystem)
        #expect(trace.all == ["before"])
    }

    @Test("A thread's object is let go of when the thread has ended, also one that ended by exit: S-NSTH-4")
    func lifetime() async throws {
        final class Counted: Thread, @unchecked Sendable {
            let captured: Canary.Captured
            let exits: Bool
            init(_ captured: Canary.Captured, exits: Bool) {
                self.captured = captured
                self.exits = exits
                super.init()
            }
            override func main() {
                if exits { Thread.exit() }
            }
        }
        let canary = Canary()
        func start(exits: Bool) { Counted(canary.capture(), exits: exits).start() }
        start(exits: false)
        start(exits: true)
        while canary.deaths < 2 { try await Task.sleep(for: .milliseconds(1)) }
        // One that was never started.
        _ = Counted(canary.capture(), exits: false)
        #expect(canary.deaths == 3)
    }

    @Test("Observers are told once that a thread will exit, on it, before it is finished, however it ends: S-NSTH-5")
    func willExit() {
        let trace = Trace()
        let observation = NotificationCenter.default.addObserver(forName: .NSThreadWillExit, object: nil, queue: nil) { note in
            // Threads of other tests end too.
            guard let thread = note.object as? Thread, let name = thread.name, name.hasPrefix("told: ") else { return }
            trace.add("\(name) \(thread === Thread.current) \(thread.isFinished) \(thread.isExecuting)")
        }
        defer { NotificationCenter.default.removeObserver(observation) }
        let ends: [(String, @Sendable () -> Void)] = [
            ("told: returns", {}), ("told: exits", { Thread.exit() }), ("told: ended by the system", { pthread_exit(nil) }),
        ]
        for (name, end) in ends {
            let thread = Thread(block: end)
            thread.name = name
            thread.start()
            wait(for: thread)
        }
        #expect(trace.all == ends.map { "\($0.0) true false true" })
    }

    @Test("Observers are told before the library starts its first thread, once: S-NSTH-5 S-THREAD-17")
    func becomesMultiThreaded() async {
        await #expect(processExitsWith: .exitCode(1)) {
            let trace = Trace()
            _ = NotificationCenter.default.addObserver(forName: .NSWillBecomeMultiThreaded, object: nil, queue: nil) { note in
                trace.add("\(note.object == nil) \(Thread.isMultiThreaded())")
            }
            if Thread.isMultiThreaded() || trace.count > 0 { _exit(3) }
            Thread.detachNewThread {}
            Thread {}.start()
            _exit(Thread.isMultiThreaded() && trace.all == ["true false"] ? 1 : 2)
        }
    }

    @Test("A thread has no name until it gets one, keeps it whole, and shows 15 bytes of it to the system, now or later: S-NSTH-6")
    func name() {
        @Sendable func shown() -> String {
            var name = [UInt8](repeating: 0, count: 64)
            let file = open("/proc/thread-self/comm", O_RDONLY)
            let count = read(file, &name, name.count)
            close(file)
            return String(decoding: name.prefix(max(count - 1, 0)), as: UTF8.self)
        }
        let (first, renamed, second) = (Promise<String>(), Promise<Void>(), Promise<String>())
        let thread = Thread {
            first.fulfil(shown())
            renamed.value
            let byOther = shown()
            Thread.current.name = "and again"
            second.fulfil(byOther + ", " + shown())
        }
        #expect(thread.name == nil)
        thread.name = "a rather long name"
        #expect(thread.name == "a rather long name")
        thread.start()
        #expect(first.value == "a rather long n")
        thread.name = "another"
        renamed.fulfil(())
        #expect(second.value == "another, and again")
        wait(for: thread)
        #expect(thread.name == "and again")
        thread.name = nil
        #expect(thread.name == nil)
    }

    @Test("A stack size is rounded up to what a thread needs, and is fixed at the start: S-NSTH-7 S-THREAD-11")
    func stackSize() throws {
        let standard = Thread {}.stackSize
        #expect(standard > 0)
        let (inside, depth) = (Promise<Int>(), Promise<Int>())
        let thread = Thread {
            inside.fulfil(Thread.current.stackSize)
            depth.fulfil(
                withUnsafeTemporaryAllocation(byteCount: 2 << 20, alignment: 16) { buffer in
                    buffer.initializeMemory(as: UInt8.self, repeating: 1)
                    return buffer.count
                })
        }
        thread.stackSize = 3_000_001
        #expect(thread.stackSize >= 3_000_001 && thread.stackSize % 4096 == 0)
        let size = thread.stackSize
        thread.start()
        thread.stackSize = 1 << 16
        #expect(inside.value == size && thread.stackSize == size && depth.value == 2 << 20)
        thread.stackSize = -5
        let small = Thread {}
        small.stackSize = 1
        #expect(small.stackSize >= 1 << 16)
        small.stackSize = 0
        #expect(small.stackSize == standard)
        // The sanitized library needs more.
        if !isAddressSanitized {
            let (smallest, least) = (RunLoopThread(stackSize: 1), Promise<Int>())
            try smallest.start()
            smallest.loop.perform { least.fulfil(Thread.current.stackSize) }
            smallest.loop.wakeUp()
            #expect(least.value >= 1 << 16)
            smallest.stop()
            smallest.join()
        }
        #expect(onNewThread { Thread.current.stackSize } >= 1 << 16)
    }

    @Test("Quality of service and priority become a nice value, at the start or at once: S-NSTH-7 S-THREAD-12")
    func priority() {
        @Sendable func nice() -> CInt { getpriority(.init(0), 0) }
        let (begun, mayGoOn, changed) = (Promise<CInt>(), Promise<Void>(), Promise<[CInt]>())
        let thread = Thread {
            begun.fulfil(nice())
            mayGoOn.value
            var values = [nice()]
            Thread.current.qualityOfService = .background
            values.append(nice())
            Thread.setThreadPriority(0)
            values.append(nice())
            changed.fulfil(values + [Thread.threadPriority() < 0.03 ? 1 : 0])
        }
        let own = nice()
        #expect(thread.qualityOfService == .default && thread.threadPriority == 0.5)
        thread.qualityOfService = .utility
        #expect(thread.threadPriority == 0.375)
        thread.start()
        #expect(begun.value == max(5, own))
        thread.threadPriority = 0.3
        #expect(thread.threadPriority == 0.3)
        mayGoOn.fulfil(())
        #expect(changed.value == [8, 10, 19, 1])
        let other = Thread {}
        other.threadPriority = 7
        #expect(other.threadPriority == 1)
        other.threadPriority = .nan
        #expect(other.threadPriority == 0.5)
    }

    @Test("What another thread sets for one that the class has not started, the main thread too, holds at once: S-NSTH-6 S-NSTH-7")
    func setForOthers() async {
        let (begun, isSet) = (Promise<Thread>(), Promise<Void>())
        let setter = Thread {
            let thread = begun.value
            thread.qualityOfService = .background
            thread.name = "of another"
            isSet.fulfil(())
        }
        setter.start()
        let nice = onNewThread {
            begun.fulfil(Thread.current)
            isSet.value
            return getpriority(.init(0), 0)
        }
        #expect(nice == 10)
        wait(for: setter)
        begun.forget()
        await #expect(processExitsWith: .exitCode(1)) {
            let setter = Thread {
                Thread.main.name = "main as a process"
                Thread.main.qualityOfService = .background
            }
            setter.start()
            wait(for: setter)
            var name = [UInt8](repeating: 0, count: 64)
            let file = open("/proc/self/comm", O_RDONLY)
            let count = read(file, &name, name.count)
            close(file)
            let isShown = String(decoding: name.prefix(max(count, 0)), as: UTF8.self) == "main as a proce\n"
            _exit(isShown && getpriority(.init(0), id_t(getpid())) == 10 ? 1 : 2)
        }
    }

    @Test("A thread's dictionary holds what one of the standard library holds, and its copies change apart: S-NSTH-8")
    func dictionaryOfManyValues() {
        /// Of few hashes, so that many keys have the same.
        struct Key: Hashable {
            let number: Int
            func hash(into hasher: inout Hasher) { hasher.combine(number % 5) }
        }
        for seed in 1...scaled(40) {
            var state = UInt64(seed)
            var (values, model) = (ThreadDictionary(), [Int: Int]())
            var (copy, modelOfCopy) = (values, model)
            for step in 0..<400 {
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                let number = Int(state >> 33) % 60
                let value = Int(state >> 60) < 7 + step / 200 * 4 ? nil : step
                if seed % 2 == 0 { values[Key(number: number)] = value } else { values[number] = value }
                model[number] = value
                if step == 150 { (copy, modelOfCopy) = (values, model) }
                #expect(values.count == model.count && values.isEmpty == model.isEmpty)
            }
            for (values, model) in [(values, model), (copy, modelOfCopy)] {
                for number in 0..<60 {
                    let value = seed % 2 == 0 ? values[Key(number: number)] : values[number]
                    #expect(value as? Int == model[number])
                }
            }
            values.removeAll()
            #expect(values.isEmpty && values[1] == nil && copy.count == modelOfCopy.count)
        }
    }

    @Test("The values of a thread are there before its start and after its end: S-NSTH-8")
    func dictionary() {
        let seen = Promise<String>()
        let thread = Thread {
            seen.fulfil(Thread.current.threadDictionary["a"] as! String)
            Thread.current.threadDictionary["b"] = 2
        }
        thread.threadDictionary["a"] = "one"
        thread.start()
        #expect(seen.value == "one")
        wait(for: thread)
        #expect(thread.threadDictionary["b"] as? Int == 2 && thread.threadDictionary.count == 2)
        #expect(onNewThread { Thread.current.threadDictionary.isEmpty })
    }

    @Test("A sleep lasts until its date, and a date that is past needs none: S-NSTH-9 S-THREAD-14")
    func sleep() {
        let before = ContinuousClock.now
        Thread.sleep(until: before + .milliseconds(20))
        #expect(ContinuousClock.now >= before + .milliseconds(20))
        Thread.sleep(forTimeInterval: .milliseconds(5))
        #expect(ContinuousClock.now >= before + .milliseconds(25))
        Thread.sleep(until: .distantPast)
        Thread.sleep(forTimeInterval: .seconds(-5))
    }

    @Test("A thread that performs a selector: S-NSTH-10")
    func selector() {
        final class Worker: Performer {
            let trace = Trace()
            let isDone = Promise<Void>()
        }
        let work = Selector<Worker>("work") { worker, argument in
            worker.trace.add("\(argument as! Int)")
            if argument as! Int == 2 { worker.isDone.fulfil(()) }
        }
        let worker = Worker()
        let thread = Thread(target: worker, selector: work, object: 1)
        thread.start()
        wait(for: thread)
        Thread.detachNewThreadSelector(work, toTarget: worker, with: 2)
        worker.isDone.value
        #expect(worker.trace.all == ["1", "2"])
    }

    @Test("A target that has its thread goes when that has performed: S-NSTH-10")
    func targetWithThread() {
        final class Worker: Performer {
            let thread = Mutex<Thread?>(nil)
            let isGone: Promise<Void>
            init(_ isGone: Promise<Void>) { self.isGone = isGone }
            deinit { isGone.fulfil(()) }
        }
        let isGone = Promise<Void>()
        do {
            let worker = Worker(isGone)
            let thread = Thread(target: worker, selector: Selector<Worker>("work") { _, _ in }, object: nil)
            worker.thread.withLock { $0 = thread }
            thread.start()
        }
        isGone.value
    }

    @Test("What a thread performs goes when it has ended, though its object is kept: S-NSTH-10")
    func work() async throws {
        final class Worker: Performer {
            let captured: Canary.Captured
            init(_ captured: Canary.Captured) { self.captured = captured }
        }
        let canary = Canary()
        let work = Selector<Worker>("work") { _, argument in (argument as! Canary.Captured).touch() }
        let threads = [
            Thread { [captured = canary.capture()] in captured.touch() },
            Thread(target: Worker(canary.capture()), selector: work, object: canary.capture()),
        ]
        for thread in threads { thread.start() }
        while canary.deaths < 3 { try await Task.sleep(for: .milliseconds(1)) }
        // One that is finished by its start.
        let cancelled = Thread { [captured = canary.capture()] in captured.touch() }
        cancelled.cancel()
        cancelled.start()
        #expect(canary.deaths == 4)
        withExtendedLifetime(threads) {}
    }

    // Code without optimisation retains the closures that it calls, and the frames' references are lost with them.
    @Test("What a thread performs goes also if it ends the thread: S-NSTH-4 S-NSTH-10", .enabled(if: isOptimized))
    func workThatExits() async throws {
        final class Worker: Performer {
            let captured: Canary.Captured
            init(_ captured: Canary.Captured) { self.captured = captured }
        }
        let canary = Canary()
        let exit = Selector<Worker>("exit") { _, _ in Thread.exit() }
        Thread(target: Worker(canary.capture()), selector: exit, object: canary.capture()).start()
        Thread { [captured = canary.capture()] in
            captured.touch()
            Thread.exit()
        }.start()
        try RunLoopThread { [captured = canary.capture()] _ in
            captured.touch()
            Thread.exit()
        }.start()
        while canary.deaths < 4 { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test("The call stack leads from the caller outwards: S-NSTH-11")
    func callStack() {
        let (addresses, symbols) = (Thread.callStackReturnAddresses, Thread.callStackSymbols)
        #expect(addresses.count > 3 && symbols.count > 3 && !addresses.contains(0))
        // The file of the program, which has the test.
        let program = CommandLine.arguments.first { $0.contains(".xctest") } ?? CommandLine.arguments[0]
        #expect(symbols.contains { $0.contains(program.split(separator: "/").last!) })
    }

    @Test("A loop is told of a thread's end, also of one that has ended, and not of one that is not started: S-KEV-18")
    func endSource() throws {
        let loopThread = RunLoopThread()
        let thread = Thread {}
        #expect(throws: RunLoop.SystemError(code: ESRCH)) { try RunLoop.Source(onEndOf: thread) { _ in } }
        #expect(throws: RunLoop.SystemError(code: ESRCH)) { try RunLoop.Source(onEndOf: Thread.main) { _ in } }
        let told = onNewThread {
            let trace = Trace()
            do {
                // This one is waited for before its start.
                RunLoop.current.add(
                    try RunLoop.Source(onEndOf: loopThread) { _ in
                        trace.add("\(loopThread.isFinished)")
                        RunLoop.current.stop()
                    }, forMode: .default)
                try loopThread.start()
                loopThread.stop()
                RunLoop.current.run(mode: .default, for: .seconds(60))
                thread.start()
                wait(for: thread)
                RunLoop.current.add(
                    try RunLoop.Source(onEndOf: thread) { _ in
                        trace.add("\(thread.isFinished)")
                        RunLoop.current.stop()
                    }, forMode: .default)
                RunLoop.current.run(mode: .default, for: .seconds(60))
            } catch {
                trace.add("\(error)")
            }
            return trace.all
        }
        #expect(told == ["true", "true"])
    }

    @Test("What a loop calls at the end of its thread finds the thread's object, which dies later: S-NSTH-3")
    func endOfLoop() async throws {
        let canary = Canary()
        let (atEnd, classAtEnd) = (Promise<Bool>(), Promise<Bool>())
        func start() throws {
            try RunLoopThread { [captured = canary.capture()] _ in
                captured.touch()
                let known = WeakObject(RunLoopThread.current)
                // Nobody else holds the object.
                addSource { atEnd.fulfil(known.object != nil && RunLoopThread.current === known.object) }
            }.start()
            let thread = Thread { [captured = canary.capture()] in
                captured.touch()
                let known = WeakObject(Thread.current)
                addSource { classAtEnd.fulfil(known.object != nil && Thread.current === known.object) }
            }
            thread.start()
        }
        @Sendable func addSource(cancel: @escaping @Sendable () -> Void) {
            RunLoop.current.add(RunLoop.Source(cancel: { _, _ in cancel() }, perform: { _ in }), forMode: .default)
        }
        try start()
        #expect(atEnd.value && classAtEnd.value)
        while canary.deaths < 2 { try await Task.sleep(for: .milliseconds(1)) }
    }

    @Test("The latest destructors of a thread's values find no object of a thread that is gone: S-NSTH-3")
    func lateDestructors() throws {
        let result = Promise<Bool>()
        @Sendable func watch() {
            // Called in every round.
            final class Watch: Sendable {
                let rounds = Atomic(0)
                let key: pthread_key_t
                let result: Promise<Bool>
                init(_ key: pthread_key_t, _ result: Promise<Bool>) { (self.key, self.result) = (key, result) }
            }
            var key = pthread_key_t()
            pthread_key_create(&key) { info in
                let watch = Unmanaged<Watch>.fromOpaque(info!)
                let round = watch.takeUnretainedValue().rounds.add(1, ordering: .relaxed).newValue
                if round < 3 {
                    pthread_setspecific(watch.takeUnretainedValue().key, info)
                } else {
                    watch.takeRetainedValue().result.fulfil(RunLoopThread.current == nil)
                }
            }
            pthread_setspecific(key, Unmanaged.passRetained(Watch(key, result)).toOpaque())
        }
        try RunLoopThread { _ in watch() }.start()
        #expect(result.value)
    }
}
