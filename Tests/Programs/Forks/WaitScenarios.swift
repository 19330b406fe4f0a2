// SPDX-License-Identifier: MIT
// What tasks of the main loop wait for when the main thread forks: in the child each wait is over, whatever other threads were doing (S-FORK-6).
import Glibc
import RunLoopKit
import Synchronization

private func pass() { RunLoop.main.run(mode: .default, for: .milliseconds(1)) }

/// Set when a task of the main loop has done this.
private func onMain(_ placement: Placement, _ body: @escaping @Sendable (isolated (any Actor)?) async -> Void) -> Flag {
    let isOver = Flag()
    placement.start { actor in
        await body(actor)
        isOver.set()
    }
    return isOver
}

private func passUntil(_ isOver: Flag) -> CInt {
    while !isOver.isSet { pass() }
    return 0
}

/// The ends of two threads: one that is held up in its loop, and one in what its loop calls at the end.
func waitingForThreads(_ placement: Placement) -> String {
    var ends: [String] = []
    for isEnding in [false, true] {
        let (isHeld, mayEnd, isWaiting) = (Flag(), Flag(), Flag())
        let hold: @Sendable () -> Void = {
            isHeld.set()
            while !mayEnd.isSet { usleep(1000) }
        }
        let thread = RunLoopThread()
        try! thread.start()
        if isEnding {
            thread.loop.add(RunLoop.Source(cancel: { _, _ in hold() }, perform: { _ in }), forMode: .default)
        } else {
            thread.loop.perform(hold)
            thread.loop.wakeUp()
        }
        let isOver = onMain(placement) { _ in
            isWaiting.set()
            await thread.finish()
        }
        while !isHeld.isSet || !isWaiting.isSet || isEnding && thread.isExecuting { pass() }
        // The task goes on to the second half of its wait.
        for _ in 0..<20 { pass() }
        ends.append(inChild { passUntil(isOver) })
        mayEnd.set()
        _ = passUntil(isOver)
    }
    return ends.joined(separator: ", ")
}

/// Requests to a port that nobody serves and whose queue is full in the end: with a time in the child, waiting for room at the fork, and both.
func waitingForRoom(_ placement: Placement) -> String {
    let name = "RunLoopKit.Forks.room.\(placement).\(getpid())"
    let port = MessagePort()
    guard MessagePortNameServer.sharedInstance().registerPort(port, name: name) else { return "no port" }
    @Sendable func remote() -> MessagePort? { MessagePortNameServer.sharedInstance().port(forName: name) as? MessagePort }
    func request() -> CInt {
        guard let remote = remote() else { return 1 }
        let isTimeout = Flag()
        let isOver = onMain(placement) { _ in
            do { _ = try await remote.request([1], timeout: .milliseconds(20), on: .main) } catch {
                if error as? MessagePort.RequestError == .receiveTimeout || error as? MessagePort.RequestError == .sendTimeout { isTimeout.set() }
            }
        }
        return passUntil(isOver) + (isTimeout.isSet ? 0 : 2)
    }
    var ends = [inChild(request)]
    guard let own = remote() else { return "no port" }
    while (try? own.post([UInt8](repeating: 0, count: 8192), timeout: .zero)) != nil {}
    let isOver = onMain(placement) { _ in _ = try? await own.request([1], on: .main) }
    for _ in 0..<20 { pass() }
    if isOver.isSet { return "over before the fork" }
    ends.append(inChild { passUntil(isOver) })
    ends.append(inChild(request))
    port.invalidate()
    _ = passUntil(isOver)
    return ends.joined(separator: ", ")
}

/// In the child a sequence of connections that has had no descriptor takes them when there are some again.
func waitingForDescriptors(_ placement: Placement) -> String {
    inChild {
        guard let connections = try? RunLoop.main.connections(at: .ipv4("127.0.0.1", port: 0)!), let address = connections.address
        else { return 1 }
        let isOver = onMain(placement) { _ in for await connection in connections { close(connection.descriptor); break } }
        let client = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        pass()
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        var none = rlimit(rlim_cur: 0, rlim_max: limit.rlim_max)
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none)
        let status = address.bytes.withUnsafeBytes { bytes in
            connect(client, bytes.baseAddress!.assumingMemoryBound(to: sockaddr.self), socklen_t(bytes.count))
        }
        if status != 0 { return 2 }
        for _ in 0..<20 { pass() }
        if isOver.isSet { return 3 }
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        return passUntil(isOver)
    }
}

/// Tasks of the global executor in a child, and what actors on loops await there beside this module's functions. One of the loops is that of
/// a thread which the main thread waits for without running its own.
func globalExecutor() -> String {
    actor Counter {
        var value = 0
        func add() { value += 1 }
    }
    actor OnLoop {
        private let executor: RunLoopExecutor
        nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
        init(_ loop: RunLoop) { executor = loop.executor }
        func awaitMany() async -> Int {
            let counter = Counter()
            await counter.add()
            await Task { await counter.add() }.value
            await Task.detached { await counter.add() }.value
            await withTaskGroup(of: Void.self) { group in for _ in 0..<3 { group.addTask { await counter.add() } } }
            await Task.yield()
            for await _ in AsyncStream<Void>(unfolding: { nil }) {}
            return await counter.value
        }
    }
    return inChild {
        let (isOver, isDone) = (Flag(), Flag())
        let actor = OnLoop(.main)
        Task {
            if await actor.awaitMany() != 6 { _exit(1) }
            isOver.set()
        }
        _ = passUntil(isOver)
        let thread = RunLoopThread { thread in
            let actor = OnLoop(.current)
            Task {
                if await actor.awaitMany() != 6 { _exit(2) }
                isDone.set()
                thread.stop()
            }
            while !isDone.isSet { RunLoop.current.run(mode: .default, for: .milliseconds(1)) }
        }
        guard (try? thread.start()) != nil else { return 3 }
        thread.join()
        return isDone.isSet ? 0 : 4
    }
}

/// More bytes than go through a stream without others having their turn, in a child.
func manyBytes(_ placement: Placement) -> String {
    inChild {
        var ends: [CInt] = [0, 0]
        guard socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0, &ends) == 0 else { return 1 }
        let (writer, reader) = (
            RunLoop.ByteStream(takingOver: ends[0], on: .main), RunLoop.ByteStream(takingOver: ends[1], on: .main)
        )
        let count = 3 << 20
        let isWritten = onMain(placement) { _ in
            guard (try? await writer.write([UInt8](repeating: 1, count: count))) != nil else { _exit(2) }
            await writer.finish()
        }
        let isRead = onMain(placement) { _ in
            var read = 0
            do { for try await bytes in reader { read += bytes.count } } catch { _exit(3) }
            if read != count { _exit(4) }
            await reader.finish()
        }
        return passUntil(isWritten) + passUntil(isRead)
    }
}

/// Sequences, requests and calls whose elements, answers and values another thread brings all the time while the main thread forks.
func elementsOnTheirWay(_ placement: Placement) -> String {
    actor Caller {
        func call(_ loop: RunLoop) async -> Bool { (try? await loop.call { true }) == true }
    }
    let parent = getpid()
    let (server, thread) = (RunLoopThread(), RunLoopThread())
    try! server.start()
    try! thread.start()
    let loop = thread.loop
    let name = "RunLoopKit.Forks.elements.\(placement).\(parent)"
    let port = MessagePort()
    port.setRequestHandler { _, _ in [1] }
    server.loop.add(port, forMode: .common)
    guard MessagePortNameServer.sharedInstance().registerPort(port, name: name),
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as? MessagePort
    else { return "no port" }
    var pipeEnds: (read: CInt, write: CInt) = (0, 0)
    withUnsafeMutableBytes(of: &pipeEnds) { _ = pipe($0.assumingMemoryBound(to: CInt.self).baseAddress!) }
    _ = write(pipeEnds.write, "x", 1)
    let readEnd = pipeEnds.read

    let isEnd = Flag()
    let (begun, over) = (Counter(), Counter())
    func wait(_ body: @escaping @Sendable (isolated (any Actor)?) async -> Void) {
        placement.start { actor in
            begun.add()
            await body(actor)
            over.add()
        }
    }
    let caller = Caller()
    for _ in 0..<4 {
        // They go to another thread on their way to an actor, and at a fork they may be there.
        if placement != .actor { wait { _ in while await caller.call(loop), !isEnd.isSet {} } }
        wait { _ in for await _ in loop.ticks(every: .microseconds(100)) where isEnd.isSet && getpid() == parent { break } }
        wait { _ in for await _ in loop.readiness(of: readEnd) where isEnd.isSet && getpid() == parent { break } }
        wait { _ in while (try? await loop.call { true }) == true, !isEnd.isSet {} }
        wait { _ in while (try? await remote.request([2], on: loop)) != nil, !isEnd.isSet {} }
    }
    let count = placement == .actor ? 16 : 20
    while begun.value < count { pass() }
    var ends: Set<String> = []
    for _ in 0..<250 {
        RunLoop.main.run(mode: .default, for: .microseconds(100))
        ends.insert(inChild {
            isEnd.set()
            while over.value < count { pass() }
            return 0
        })
        if ends != ["exit 0"] { break }
    }
    isEnd.set()
    while over.value < count { pass() }
    port.invalidate()
    for thread in [thread, server] {
        thread.stop()
        thread.join()
    }
    close(pipeEnds.read)
    close(pipeEnds.write)
    return ends.sorted().joined(separator: ", ")
}

/// Sequences of the main loop and of others whose consumers are on other threads, where they begin, take elements and end while the main
/// thread forks: the child's loop does not wait for them.
func consumersOnOtherThreads(_ placement: Placement) -> String {
    let threads = (0..<6).map { _ in RunLoopThread() }
    let isEnd = Flag()
    let (begun, over) = (Counter(), Counter())
    for thread in threads {
        try! thread.start()
        let loop = thread.loop
        Task.detached {
            while !isEnd.isSet {
                for await _ in loop.ticks(every: .microseconds(100)) { break }
                for await _ in RunLoop.main.ticks(every: .microseconds(10)) { break }
                begun.add()
            }
            over.add()
        }
    }
    while begun.value < 200 { pass() }
    var ends: Set<String> = []
    for _ in 0..<250 {
        RunLoop.main.run(mode: .default, for: .microseconds(300))
        ends.insert(inChild {
            let isOver = onMain(placement) { _ in for await _ in RunLoop.main.ticks(every: .milliseconds(1)) { break } }
            return passUntil(isOver)
        })
        if ends != ["exit 0"] { break }
    }
    isEnd.set()
    while over.value < threads.count { pass() }
    for thread in threads {
        thread.stop()
        thread.join()
    }
    return ends.sorted().joined(separator: ", ")
}

@_silgen_name("malloc_info") private func writeMallocInfo(_ options: CInt, _ stream: UnsafeMutablePointer<FILE>) -> CInt

/// What malloc(3) has given out, in bytes: all that it has, without what is free.
private func memoryInUse() -> Int {
    var (text, length): (UnsafeMutablePointer<CChar>?, Int) = (nil, 0)
    guard let stream = open_memstream(&text, &length) else { return 0 }
    _ = writeMallocInfo(0, stream)
    fclose(stream)
    defer { free(text) }
    // The sums of all arenas come last.
    var sizes: [Substring: Int] = [:]
    for element in String(cString: text!).split(separator: "<") {
        let parts = element.split(separator: "\"")
        if parts.count > 3, let size = Int(parts[parts.count - 2]) { sizes[parts[0] + parts[1]] = size }
    }
    return sizes["system type=current", default: 0] - sizes["total type=fast", default: 0] - sizes["total type=rest", default: 0]
}

/// Memory of requests whose limit is far away when they are answered.
func answeredRequests() -> String {
    let server = RunLoopThread()
    try! server.start()
    let name = "RunLoopKit.Forks.answered.\(getpid())"
    let port = MessagePort()
    port.setRequestHandler { _, _ in [1] }
    server.loop.add(port, forMode: .common)
    guard MessagePortNameServer.sharedInstance().registerPort(port, name: name),
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as? MessagePort
    else { return "no port" }
    func make(_ count: Int) {
        _ = passUntil(onMain(.preference) { _ in
            for _ in 0..<count { _ = try? await remote.request([2], timeout: .seconds(100_000), on: .main) }
        })
    }
    make(200)
    // What is kept is kept in each round; an arena for a thread that comes late is made in one.
    let count = 3000
    var grown = 0
    for _ in 0..<3 {
        let before = memoryInUse()
        make(count)
        // What a request takes while it waits may stay for a moment.
        let end = ContinuousClock.now + .seconds(7)
        grown = memoryInUse() - before
        while grown > 50 * count && end > .now {
            pass()
            grown = memoryInUse() - before
        }
        if grown <= 50 * count { break }
    }
    port.invalidate()
    server.stop()
    server.join()
    return grown > 50 * count ? "\(grown / count) bytes each" : "not kept"
}
