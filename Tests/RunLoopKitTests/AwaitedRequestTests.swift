// SPDX-License-Identifier: MIT
import Dispatch
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// A port of a name of this process's, served by a thread of its own.
private final class Server: Sendable {
    let port = MessagePort()
    let name: String
    private let thread = RunLoopThread()

    init(_ handler: @escaping @Sendable (MessagePort, MessagePort.Request) -> [UInt8]?) throws {
        name = "awaited.\(getpid()).\(UInt64.random(in: .min ... .max))"
        precondition(MessagePortNameServer.sharedInstance().registerPort(port, name: name))
        port.setRequestHandler(handler)
        try thread.start()
        thread.loop.add(port, forMode: .default)
    }

    var remote: MessagePort { MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort }

    func end() async {
        port.invalidate()
        await thread.finish()
    }
}

/// Says whether somebody is inside already.
private final class Turn: Sendable {
    private let inside = Mutex(())

    func alone(_ body: () -> [UInt8]) -> [UInt8]? {
        let result = inside.withLockIfAvailable { _ in
            sched_yield()
            return body()
        }
        #expect(result != nil)
        return result
    }
}

private func startedThread() throws -> RunLoopThread {
    let thread = RunLoopThread()
    try thread.start()
    return thread
}

/// How a request ends to which no answer comes. On a busy machine a short time may be over before the request is sent.
private func errorOfTimeout(_ remote: MessagePort, on loop: RunLoop) async -> MessagePort.RequestError? {
    var timeout = Duration.milliseconds(5)
    while true {
        do {
            _ = try await remote.request([1], timeout: timeout, on: loop)
            return nil
        } catch MessagePort.RequestError.sendTimeout where timeout < .seconds(60) {
            timeout *= 4
        } catch { return error as? MessagePort.RequestError }
    }
}

@Suite struct AwaitedRequestTests {
    @Test("An awaited request gets its answer, any number of them at once and each its own: S-MSG-48 S-MSG-49")
    func answers() async throws {
        let server = try Server { _, request in request.bytes + [UInt8(truncatingIfNeeded: request.msgid)] }
        let client = try startedThread()
        let remote = server.remote
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<500 {
                group.addTask {
                    let text = Array("\(number)".utf8)
                    let answer = try await remote.request(text, msgid: Int32(number), on: client.loop)
                    #expect(answer == text + [UInt8(truncatingIfNeeded: number)])
                }
            }
            try await group.waitForAll()
        }
        // A port of one's own is asked by its name, and long data take a thread.
        let long = [UInt8](repeating: 7, count: 3_000_000)
        #expect(try await server.port.request(long, msgid: 1, timeout: .seconds(60), on: client.loop).count == long.count + 1)
        await client.finish()
        await server.end()
    }

    @Test("An actor on the loop that receives may ask, and so may the loop that answers")
    func onOneLoop() async throws {
        actor Asker {
            private let executor: RunLoopExecutor
            nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
            init(_ loop: RunLoop) { executor = loop.executor }
            func ask(_ port: MessagePort, on loop: RunLoop) async throws -> [UInt8] {
                let answer = try await port.request([1, 2], on: loop)
                self.assertIsolated()
                return answer
            }
        }
        let thread = try startedThread()
        let port = MessagePort()
        port.setRequestHandler { _, request in request.bytes.reversed() }
        thread.loop.add(port, forMode: .default)
        #expect(try await Asker(thread.loop).ask(port, on: thread.loop) == [2, 1])
        port.invalidate()
        await thread.finish()
    }

    @Test("The time that is over, a cancellation, the end of the loop and of the port end the wait: S-MSG-48 S-MSG-50")
    func ends() async throws {
        // It takes nothing.
        let silent = MessagePort()
        let name = "silent.\(getpid())"
        #expect(MessagePortNameServer.sharedInstance().registerPort(silent, name: name))
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort
        let client = try startedThread()
        #expect(await errorOfTimeout(remote, on: client.loop) == .receiveTimeout)
        for timeout in [Duration.zero, .seconds(-5), Duration(secondsComponent: .min, attosecondsComponent: 0)] {
            await #expect(throws: MessagePort.RequestError.self) { try await remote.request(timeout: timeout, on: client.loop) }
        }
        let cancelled = Task { try await remote.request([1], timeout: Duration(secondsComponent: .max, attosecondsComponent: 0), on: client.loop) }
        await Task.yield()
        cancelled.cancel()
        await #expect(throws: CancellationError.self) { try await cancelled.value }
        let earlier = Task { () throws -> [UInt8] in
            withUnsafeCurrentTask { $0?.cancel() }
            return try await remote.request([1], on: client.loop)
        }
        await #expect(throws: CancellationError.self) { try await earlier.value }

        let ofLoop = Task { try await remote.request([1], on: client.loop) }
        await Task.yield()
        await client.finish()
        await #expect(throws: RunLoop.ThreadEndedError.self) { try await ofLoop.value }
        await #expect(throws: RunLoop.ThreadEndedError.self) { try await remote.request([1], on: client.loop) }

        silent.invalidate()
        let other = try startedThread()
        await #expect(throws: MessagePort.RequestError.isInvalid) { try await remote.request([1], on: other.loop) }
        let server = try Server { port, _ in
            port.invalidate()
            return nil
        }
        await #expect(throws: MessagePort.RequestError.becameInvalid) { try await server.remote.request([1], on: other.loop) }
        await server.end()
        await other.finish()
    }

    @Test("A full queue is waited for within the time, and requests that wait for room go on when there is some: S-MSG-23")
    func fullQueue() async throws {
        let port = MessagePort()
        port.setRequestHandler { _, request in request.bytes }
        let name = "full.\(getpid())"
        #expect(MessagePortNameServer.sharedInstance().registerPort(port, name: name))
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort
        let client = try startedThread()
        while (try? remote.post([0], timeout: .zero)) != nil {}
        await #expect(throws: MessagePort.RequestError.sendTimeout) {
            try await remote.request([1], timeout: .milliseconds(10), on: client.loop)
        }
        let waiting = Task { try await remote.request([3], on: client.loop) }
        await Task.yield()
        let server = try startedThread()
        server.loop.add(port, forMode: .default)
        #expect(try await waiting.value == [3])
        port.invalidate()
        await server.finish()
        await client.finish()
    }

    @Test("Descriptors travel with an awaited request, and one that is none is refused: S-MSG-22")
    func descriptors() async throws {
        let pipe = Pipe()
        let server = try Server { _, request in
            for descriptor in request.takeDescriptors() {
                _ = [UInt8]([9]).withUnsafeBytes { write(descriptor, $0.baseAddress, 1) }
                close(descriptor)
            }
            return []
        }
        let client = try startedThread()
        #expect(try await server.remote.request(descriptors: [pipe.writeEnd], on: client.loop) == [])
        #expect(pipe.read(1) == 1)
        await #expect(throws: MessagePort.RequestError.transportError) {
            try await server.remote.request(descriptors: [-1], on: client.loop)
        }
        await server.end()
        await client.finish()
    }

    @Test("Nothing is left of requests that were cancelled at any moment: S-MSG-50")
    func cancelledAtAnyMoment() async throws {
        let server = try Server { _, request in request.bytes }
        let client = try startedThread()
        let remote = server.remote
        let trace = Trace()
        for round in 0..<300 {
            let task = Task {
                do {
                    _ = try await remote.request([1, 2, 3], on: client.loop)
                    trace.add("answered")
                } catch is CancellationError { trace.add("cancelled") }
            }
            for _ in 0..<round % 7 { await Task.yield() }
            if round % 3 != 0 { task.cancel() }
            try await task.value
        }
        #expect(trace.count == 300)
        #expect(trace.all.count(where: { $0 == "answered" }) >= 100)
        await client.finish()
        await server.end()
    }

    @Test("A dispatch queue serves a port, its handler and its delegate, one message after the other: S-MSG-12")
    func dispatchQueue() async throws {
        let key = DispatchSpecificKey<String>()
        let queue = DispatchQueue(label: "serves", attributes: .concurrent)
        queue.setSpecific(key: key, value: "serves")
        let port = MessagePort()
        let name = "queue.\(getpid())"
        #expect(MessagePortNameServer.sharedInstance().registerPort(port, name: name))
        let turn = Turn()
        port.setRequestHandler { _, _ in
            turn.alone { Array((DispatchQueue.getSpecific(key: key) ?? "elsewhere").utf8) }
        }
        port.setDispatchQueue(queue)
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort
        let client = try startedThread()
        try await withThrowingTaskGroup(of: [UInt8].self) { group in
            for _ in 0..<50 { group.addTask { try await remote.request(on: client.loop) } }
            for try await answer in group { #expect(answer == Array("serves".utf8)) }
        }
        // Another queue takes its place, and without one messages wait.
        let second = DispatchQueue(label: "second")
        second.setSpecific(key: key, value: "second")
        port.setDispatchQueue(second)
        #expect(try await remote.request(on: client.loop) == Array("second".utf8))
        port.setDispatchQueue(nil)
        #expect(await errorOfTimeout(remote, on: client.loop) == .receiveTimeout)
        client.loop.add(port, forMode: .default)
        #expect(try await remote.request(on: client.loop) == Array("elsewhere".utf8))
        port.invalidate()
        await client.finish()
    }

    @Test("A handler on a queue takes the descriptors of its message, and what it leaves is closed: S-MSG-12")
    func descriptorsOnAQueue() async throws {
        let port = MessagePort()
        let name = "queue.descriptors.\(getpid())"
        #expect(MessagePortNameServer.sharedInstance().registerPort(port, name: name))
        port.setRequestHandler { _, request in
            if request.msgid == 0 { return [] }
            let taken = request.takeDescriptors()
            for descriptor in taken { close(descriptor) }
            return [UInt8(taken.count), UInt8(request.takeDescriptors().count)]
        }
        let remote = MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort
        let client = try startedThread()
        // That the main queue's thread is another one is a scenario of RunLoopTestMainQueue: here no thread has that queue.
        for queue in [DispatchQueue.main, DispatchQueue(label: "own")] {
            port.setDispatchQueue(queue)
            // Twice, because a receiver's duplicates are closed with what is left of the message.
            for msgid in [1, 0] as [Int32] {
                var ends: [CInt] = [-1, -1]
                #expect(pipe(&ends) == 0)
                let sockets = SocketPair()
                let answer = try await remote.request(
                    msgid: msgid, descriptors: [ends[1], sockets.one], on: client.loop)
                #expect(answer == (msgid == 0 ? [] : [2, 0]))
                close(ends[1])
                sockets.closeOne()
                // The end comes when nobody has the other ends any more.
                let (end, other) = (ends[0], sockets.other)
                await Task.detached {
                    var byte: UInt8 = 0
                    #expect(read(end, &byte, 1) == 0)
                    #expect(read(other, &byte, 1) == 0)
                }.value
                close(ends[0])
                sockets.closeOther()
            }
        }
        port.setDispatchQueue(nil)
        port.invalidate()
        await client.finish()
    }

    @Test("A queue that served a port is let go of")
    func queueIsReleased() async throws {
        weak var released: DispatchQueue?
        let port = MessagePort()
        do {
            let queue = DispatchQueue(label: "short-lived")
            released = queue
            port.setDispatchQueue(queue)
        }
        #expect(released != nil)
        port.setDispatchQueue(nil)
        port.invalidate()
        while released != nil { await Task.yield() }
    }
}

/// Two local sockets.
private struct SocketPair {
    let one: CInt
    let other: CInt

    init() {
        var both: [CInt] = [-1, -1]
        let status = socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &both)
        precondition(status == 0)
        (one, other) = (both[0], both[1])
    }

    func closeOne() { close(one) }
    func closeOther() { close(other) }
}
