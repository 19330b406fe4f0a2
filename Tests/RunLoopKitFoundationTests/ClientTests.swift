// SPDX-License-Identifier: MIT
import RunLoopKitFoundation
import Testing

/// How often something was done.
private final class Count: @unchecked Sendable {
    private let lock = NSLock()
    private var number = 0
    func add() { lock.withLock { number += 1 } }
    var value: Int { lock.withLock { number } }
}

/// Counts the loops that it is scheduled in.
private final class CountingStream: InputStream {
    var count: Count?

    override func schedule(in aRunLoop: Foundation.RunLoop, forMode mode: Foundation.RunLoop.Mode) { count?.add() }
}

/// Foundation's classes that take a run loop.
@Suite struct ClientTests {
    @Test("A stream is scheduled in the calling thread's loop; another thread, which would use it beside this one, does not get it: S-HOST-1")
    func streams() throws {
        let count = Count()
        let thread = RunLoopThread()
        try thread.start()
        let stream = CountingStream(data: Data())
        stream.count = count
        stream.schedule(in: thread.loop, forMode: RunLoop.Mode.default)
        // Comes after whatever that has queued there.
        #expect(thread.loop.perform(waitUntilDone: true) {})
        #expect(count.value == 0)
        thread.stop()
        thread.join()
        let own = RunLoopThread { _ in
            let stream = CountingStream(data: Data())
            stream.count = count
            stream.schedule(in: RunLoop.current, forMode: RunLoop.Mode.default)
        }
        try own.start()
        own.join()
        #expect(count.value == 1)
    }
}
