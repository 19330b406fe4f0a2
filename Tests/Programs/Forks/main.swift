// SPDX-License-Identifier: MIT
// What needs a process of its own: the children of `fork`, threads that must not get a loop, and what is measured in memory. Prints a line for each scenario; the
// test knows what has to be printed.
import Glibc
import RunLoopKit
import Synchronization

@_silgen_name("fork") func makeChild() -> pid_t

/// Asked by the leak sanitizer. In the children of `fork` threads are lost with all that they own.
@_cdecl("__lsan_is_turned_off") public func isLeakSanitizerOff() -> CInt { 1 }

/// Nil where the file cannot be read, and then nothing is looked for. Made with a fork before, in whose course the library prepares for all
/// that follow.
nonisolated(unsafe) let typeCaches: TypeCaches? = {
    let child = makeChild()
    if child == 0 { _exit(0) }
    waitpid(child, nil, 0)
    let caches = TypeCaches()
    caches?.note()
    _ = caches?.firstUse
    return caches
}()

/// From here on each child looks first at what there was at the fork: until then other threads go on with first uses of their own.
nonisolated(unsafe) var isNoted = false
isNoted = true

/// Handlers of children run in the order of registration, and this one is registered before the library's.
@section(".init_array.00150") @used
private let noteConstructor: @convention(c) () -> Void = { pthread_atfork(nil, nil, { if isNoted { typeCaches?.note() } }) }

/// How a child ended that does this, and then 0; a child that hangs ends by SIGALRM, and one in which the library's own handlers of `fork`
/// made the first use of a type with 99.
func inChild(_ body: () -> CInt) -> String {
    let child = makeChild()
    if child == 0 {
        alarm(20)
        if let type = typeCaches?.firstUse {
            print("first used in a child: \(type)")
            fflush(nil)
            _exit(99)
        }
        _exit(body())
    }
    var status: CInt = 0
    waitpid(child, &status, 0)
    return status & 0x7F == 0 ? "exit \(status >> 8 & 0xFF)" : "signal \(status & 0x7F)"
}

func onThread(_ body: @escaping @Sendable () -> Void) -> RunLoopThread {
    let thread = RunLoopThread { _ in body() }
    try! thread.start()
    return thread
}

/// A thread whose loop does not run before it may end. It does nothing when this is made: what it used for the first time at a fork, the
/// Swift runtime's locks included, would be counted as the child's.
final class IdleThread: Sendable {
    private let isIdle = Atomic(false)
    private let mayEnd = Atomic(false)
    let thread: RunLoopThread

    init() {
        thread = RunLoopThread()
        try! thread.start()
        let loop = thread.loop
        loop.perform { [self] in
            isIdle.store(true, ordering: .releasing)
            while !mayEnd.load(ordering: .acquiring) { usleep(1000) }
        }
        loop.wakeUp()
        while !isIdle.load(ordering: .acquiring) { usleep(1000) }
    }

    func end(joins: Bool = true) {
        mayEnd.store(true, ordering: .releasing)
        thread.stop()
        if joins { thread.join() }
    }
}

/// The tables, while other threads change them.
func tables() -> String {
    @Sendable func makeAndDrop() {
        // Made and dropped, or found.
        _ = RunLoop.wrapping(RunLoop.current.getRLRunLoop()).executor
        NotificationCenter.default.post(name: .init("Forks"), object: nil)
        SocketPort(remoteWithProtocolFamily: 2, socketType: 1, protocol: 0, address: [1, 2, 3]).invalidate()
        let port = MachPort()
        _ = MachPort.wrapping(port.getRLMachPort()).isValid
        Timer(timeInterval: .seconds(1), repeats: false) { _ in }.invalidate()
    }
    func find() -> CInt {
        let loop = RunLoop.current
        guard RunLoop.wrapping(loop.getRLRunLoop()) === loop else { return 1 }
        NotificationCenter.default.post(name: .init("Forks"), object: nil)
        let port = MachPort()
        guard MachPort.wrapping(port.getRLMachPort()) === port else { return 2 }
        SocketPort(remoteWithProtocolFamily: 2, socketType: 1, protocol: 0, address: [1, 2, 3]).invalidate()
        for _ in 0..<100 where RunLoop.wrapping(loop.getRLRunLoop()).executor !== loop.executor { return 3 }
        return 0
    }

    // The Swift runtime makes what it knows of a type at the first use. A child may wait for ever for that if another thread was making
    // it at the fork, so the first uses come before, those of a thread of ours as well.
    makeAndDrop()
    onThread { makeAndDrop() }.join()
    guard find() == 0 else { return "not found in the parent" }
    let isOver = Flag()
    let workers = (0..<2).map { _ in onThread { while !isOver.isSet { makeAndDrop() } } }
    var ends: Set<String> = []
    for _ in 0..<60 { ends.insert(inChild(find)) }
    isOver.set()
    for worker in workers { worker.join() }
    return ends.sorted().joined(separator: ", ")
}

final class Flag: Sendable {
    private let value = Atomic(false)
    var isSet: Bool { value.load(ordering: .acquiring) }
    func set() { value.store(true, ordering: .releasing) }
}

final class Text: Sendable {
    private let text = Mutex("")
    var value: String { text.withLock { $0 } }
    func set(_ value: String) { text.withLock { $0 = value } }
}

final class Counter: Sendable {
    private let count = Atomic(0)
    var value: Int { count.load(ordering: .acquiring) }
    func add() { count.add(1, ordering: .releasing) }
}

/// Calls that are made in the child to a loop that vanished.
func vanishedLoop(_ placement: Placement) -> String {
    let idle = IdleThread()
    let loop = idle.thread.loop
    _ = loop.executor
    let end = inChild {
        placement.start { _ in
            do {
                try await loop.call {}
                _exit(1)
            } catch is RunLoop.ThreadEndedError {
                for await _ in loop.ticks(every: .seconds(1000)) { _exit(2) }
                // A job of the loop is done here.
                await Task(executorPreference: loop.executor) {}.value
                _exit(0)
            } catch { _exit(3) }
        }
        RunLoop.main.run(mode: .default, for: .seconds(15))
        return 4
    }
    idle.end()
    return end
}

/// Calls that a task of this loop waits for when it forks.
func waitingCall(_ placement: Placement) -> String {
    let idle = IdleThread()
    let loop = idle.thread.loop
    let isWaiting = Flag()
    let isChild = Flag()
    placement.start { _ in
        isWaiting.set()
        do { try await loop.call {} } catch { if isChild.isSet { _exit(error is RunLoop.ThreadEndedError ? 0 : 2) } }
    }
    while !isWaiting.isSet { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
    let end = inChild {
        isChild.set()
        RunLoop.main.run(mode: .default, for: .seconds(15))
        return 1
    }
    idle.end()
    RunLoop.main.run(mode: .default, for: .zero)
    return end
}

/// Calls that a thread had taken out of its mail when the main thread forks: one whose closure is under way, and those behind it.
func takenCalls(_ placement: Placement) -> String {
    let thread = RunLoopThread()
    try! thread.start()
    let loop = thread.loop
    let (mayGoOn, isUnderWay, mayEnd) = (Flag(), Flag(), Flag())
    let (begun, failed, over) = (Counter(), Counter(), Counter())
    // All of them are in the mail when the thread looks.
    loop.perform { while !mayGoOn.isSet { usleep(1000) } }
    loop.wakeUp()
    for index in 0..<5 {
        placement.start { _ in
            begun.add()
            do {
                try await loop.call {
                    if index > 0 { return }
                    isUnderWay.set()
                    while !mayEnd.isSet { usleep(1000) }
                }
            } catch { failed.add() }
            over.add()
        }
    }
    while begun.value < 5 { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
    RunLoop.main.run(mode: .default, for: .zero)
    mayGoOn.set()
    while !isUnderWay.isSet { usleep(1000) }
    let end = inChild {
        while over.value < 5 { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
        return failed.value == 5 ? 0 : 1
    }
    mayEnd.set()
    while over.value < 5 { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
    thread.stop()
    thread.join()
    return failed.value == 0 ? end : "failed in the parent"
}

/// Calls whose closures return, one after the other, while the main thread forks: in the child each is over, with its value or because the
/// loop vanished.
func returningCalls(_ placement: Placement) -> String {
    let thread = RunLoopThread()
    try! thread.start()
    let loop = thread.loop
    let isOver = Flag()
    let over = Counter()
    let count = 16
    func pass() { RunLoop.main.run(mode: .default, for: .microseconds(100)) }
    for index in 0..<count {
        placement.start { _ in
            while !isOver.isSet {
                do {
                    guard try await loop.call({ index }) == index else { _exit(2) }
                } catch { break }
            }
            over.add()
        }
    }
    for _ in 0..<100 { pass() }
    var ends: Set<String> = []
    for _ in 0..<300 {
        pass()
        ends.insert(inChild {
            while over.value < count { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
            return 0
        })
        if ends != ["exit 0"] { break }
    }
    isOver.set()
    while over.value < count { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
    thread.stop()
    thread.join()
    return ends.sorted().joined(separator: ", ")
}

/// A port that listens takes connections when there are descriptors again, and waits without spinning until then. In a child, so that nobody
/// else is without.
func noDescriptors() -> String {
    inChild {
        let port = SocketPort()
        let passes = Counter()
        let loop = RunLoop.current
        // The default mode of the main loop is never empty.
        let mode = RunLoop.Mode("port")
        loop.add(port, forMode: mode)
        loop.add(RunLoop.Observer(activities: .afterWaiting) { _, _ in passes.add() }, forMode: mode)
        let client = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        var none = rlimit(rlim_cur: 0, rlim_max: limit.rlim_max)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
        let address = port.address
        let status = address.withUnsafeBytes { bytes in
            connect(client, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
        guard status == 0 else { return 1 }
        loop.run(mode: mode, for: .milliseconds(300))
        if passes.value > 100 { return 2 }
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        // No message is so long: the port closes such a connection.
        let bytes = [UInt8](repeating: 0xFF, count: 64)
        _ = bytes.withUnsafeBytes { write(client, $0.baseAddress, $0.count) }
        var byte: UInt8 = 0
        while recv(client, &byte, 1, CInt(MSG_DONTWAIT)) < 0 && errno == EAGAIN { loop.run(mode: mode, for: .milliseconds(10)) }
        port.invalidate()
        // Nothing of the port's is left in the mode.
        return loop.run(mode: mode, for: .zero) == .finished ? 0 : 3
    }
}

/// What waits for a loop when that vanishes: sequences of all kinds, and a request whose answer the loop was to receive.
func waitingThings(_ placement: Placement) -> String {
    let idle = IdleThread()
    let loop = idle.thread.loop
    var ends: (read: CInt, write: CInt) = (0, 0)
    withUnsafeMutableBytes(of: &ends) { _ = pipe($0.assumingMemoryBound(to: CInt.self).baseAddress!) }
    let readEnd = ends.read
    let listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
    listen(listener, 1)
    let name = "RunLoopKit.Forks.\(placement).\(getpid())"
    let port = MessagePort()
    guard MessagePortNameServer.sharedInstance().registerPort(port, name: name),
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as? MessagePort
    else { return "no port" }

    let begun = Counter()
    let over = Counter()
    func wait(_ body: @escaping @Sendable (isolated (any Actor)?) async -> Void) {
        placement.start { actor in
            begun.add()
            await body(actor)
            over.add()
        }
    }
    wait { _ in for await _ in loop.ticks(every: .seconds(1000)) {} }
    wait { _ in for await _ in loop.signals(SIGUSR2) {} }
    wait { _ in for await _ in loop.readiness(of: readEnd) {} }
    wait { _ in for await _ in loop.connections(takingOver: listener) {} }
    // Nobody serves the port.
    wait { _ in _ = try? await remote.request([1], on: loop) }
    while begun.value < 5 { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
    RunLoop.main.run(mode: .default, for: .zero)
    if over.value > 0 { return "over before the fork" }
    let end = inChild {
        while over.value < 5 { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
        // New ones are over at once, and those of the loop that goes on are not.
        wait { _ in for await _ in loop.ticks(every: .milliseconds(1)) {} }
        wait { _ in for await _ in RunLoop.main.ticks(every: .milliseconds(1)) { break } }
        while over.value < 7 { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
        return 0
    }
    port.invalidate()
    idle.end()
    while over.value < 5 { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }
    close(ends.read)
    close(ends.write)
    return end
}

/// The main loop of a child is that of the thread that forked.
func mainLoop() -> String {
    let former = RunLoop.main
    let result = Mutex("")
    let thread = onThread {
        let own = RunLoop.current
        let end = inChild {
            if RunLoop.main !== own || RunLoop.main == former { return 1 }
            if !RunLoop.isMainThread { return 2 }
            if RunLoop.current !== own { return 3 }
            own.perform { own.stop() }
            return RunLoop.main.run(mode: .default) == .stopped ? 0 : 4
        }
        result.withLock { $0 = end }
    }
    thread.join()
    return result.withLock { $0 }
}

/// A thread that asks whether it is a loop's has no loop by that: the memory of the loop that ended last goes to the next one.
func foreignThread() -> String {
    let thread = RunLoopThread()
    try! thread.start()
    let executor = thread.loop.executor
    let address: @Sendable () -> UInt = { UInt(bitPattern: RunLoop.current.getRLRunLoop()) }
    let first = onPlainThread(address)
    let isIsolated = Flag()
    let next = onPlainThread {
        if executor.isIsolatingCurrentContext() != false { isIsolated.set() }
        return onPlainThread(address)
    }
    thread.stop()
    thread.join()
    return "\(isIsolated.isSet ? "isolated" : "not isolated"), \(next == first ? "no loop" : "a loop")"
}

/// Waits for a thread that does this.
func onPlainThread(_ body: @escaping @Sendable () -> UInt) -> UInt {
    final class Body: Sendable {
        let body: @Sendable () -> UInt
        init(_ body: @escaping @Sendable () -> UInt) { self.body = body }
    }
    var thread = pthread_t()
    pthread_create(
        &thread, nil, { UnsafeMutableRawPointer(bitPattern: Unmanaged<Body>.fromOpaque($0!).takeRetainedValue().body()) },
        Unmanaged.passRetained(Body(body)).toOpaque())
    var result: UnsafeMutableRawPointer?
    pthread_join(thread, &result)
    return UInt(bitPattern: result)
}

// A child that hangs ends by SIGALRM, which whoever begins this program may have blocked.
var alarms = sigset_t()
sigemptyset(&alarms)
sigaddset(&alarms, SIGALRM)
pthread_sigmask(SIG_UNBLOCK, &alarms, nil)
useGlobalExecutor()
print("tables: \(tables())")
print("a loop that vanished: \(Placement.each(vanishedLoop))")
print("a call that waits: \(Placement.each(waitingCall))")
print("calls that were taken: \(Placement.each(takenCalls))")
print("calls that return: \(Placement.each(returningCalls))")
print("what waits for a loop: \(Placement.each(waitingThings))")
print("the ends of threads: \(Placement.each(waitingForThreads))")
print("requests that wait: \(Placement.each(waitingForRoom))")
print("connections without descriptors: \(Placement.each(waitingForDescriptors))")
print("elements on their way: \(Placement.each(elementsOnTheirWay))")
print("consumers on other threads: \(Placement.each(consumersOnOtherThreads))")
print("tasks that are being cancelled: \(Placement.each(cancelledTasks))")
print("tasks that are getting a priority: \(Placement.each(escalatedTasks))")
print("bytes of a stream: \(Placement.each(manyBytes))")
print("the global executor: \(globalExecutor())")
print("a job that forks: \(forkingJob())")
print("a job that waits for a fork: \(jobWaitsForFork())")
print("a job that ends its thread: \(jobEndsThread())")
print("the main loop: \(mainLoop())")
print("a port without descriptors: \(noDescriptors())")
print("told without descriptors: \(toldWithoutDescriptors())")
print("a foreign thread: \(foreignThread())")
print("the objects of threads: \(threadObjects())")
print("the main thread's object: \(mainThreadObject())")
print("the end of the main thread: \(endOfMain())")
print("a lock that is a file: \(Placement.each(fileLock))")

print("answered requests: \(answeredRequests())")

let worker = RunLoopThread()
try worker.start()
let sum = try await worker.loop.call { 3 + 4 }
print("a value at top level: \(sum)")
await worker.finish()
