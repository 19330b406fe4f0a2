// SPDX-License-Identifier: MIT
import CRunLoopLinux
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
            shared.hasEntered.store(true, ordering: .sequentiallyConsistent)
            for _ in 0..<300 { sched_yield() }
            shared.hasLeft.store(true, ordering: .sequentiallyConsistent)
            shared.queue.pointee.lock.unlockWord()
        }
        while !shared.hasEntered.load(ordering: .sequentiallyConsistent) { sched_yield() }
        Fork.prepare()
        let hasLeft = shared.hasLeft.load(ordering: .sequentiallyConsistent)
        Fork.parent()
        thread.join()
        #expect(hasLeft)
    }

    @Test("A fork in a performed function gives up the posts of that round whose producers do not exist in the child: S-FORK-1")
    func abandonsClaimsOfTheRound() {
        CoreThread {
            let loop = RunLoop.current()
            let mode = loop.pointee.defaultMode
            func post(_ perform: @escaping PerformFunction) {
                _ = loop.post(Post(perform: perform, release: nil, info: loop, modes: PostModes(mode: mode)))
            }
            post { info in
                let loop = info!.assumingMemoryBound(to: RunLoop.self)
                loop.pointee.posts.abandonClaims()
                loop.abandonClaimsOfRounds()
            }
            // A producer that is between its claim and its post.
            _ = loop.pointee.posts.word.wrappingAdd(1, ordering: .sequentiallyConsistent)
            post { info in info!.assumingMemoryBound(to: RunLoop.self).pointee.timerSlack = 4711 }
            loop.performPosts(in: mode)
            #expect(loop.pointee.timerSlack == 4711)
            #expect(loop.pointee.posts.holes.count == 0)
            let hasNews = loop.pointee.posts.hasNews
            #expect(!hasNews)
        }.join()
    }
}

private final class SharedQueue: @unchecked Sendable {
    let queue: RequestQueuePointer
    let hasEntered = Atomic(false)
    let hasLeft = Atomic(false)

    init(_ queue: RequestQueuePointer) { self.queue = queue }
}
