import CLinux
@testable import RunLoopCore
import Synchronization
import Testing

/// What the child of `fork` gets.
@Suite struct ForkTests {
    @Test("A fork waits for a thread that is inside one of the loop's queues of requests: S-FORK-1", arguments: [false, true])
    func waitsForRequests(ordered: Bool) {
        let loop = RunLoop.current()
        let shared = SharedQueue(ordered ? loop.orderedRequests : loop.requests)
        let thread = CoreThread {
            shared.queue.pointee.lock.lockWord()
            shared.isInside.store(true, ordering: .sequentiallyConsistent)
            for _ in 0..<2000 { sched_yield() }
            shared.isInside.store(false, ordering: .sequentiallyConsistent)
            shared.queue.pointee.lock.unlockWord()
        }
        while !shared.isInside.load(ordering: .sequentiallyConsistent) { sched_yield() }
        Fork.prepare()
        let isInside = shared.isInside.load(ordering: .sequentiallyConsistent)
        Fork.parent()
        thread.join()
        #expect(!isInside)
    }
}

private final class SharedQueue: @unchecked Sendable {
    let queue: RequestQueuePointer
    let isInside = Atomic(false)

    init(_ queue: RequestQueuePointer) { self.queue = queue }
}
