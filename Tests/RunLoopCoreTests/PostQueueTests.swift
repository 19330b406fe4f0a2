// SPDX-License-Identifier: MIT
import CRunLoop
@testable import RunLoopCore
import Synchronization
import Testing

/// The queue of performed functions: many producers, one consumer.
@Suite struct PostQueueTests {
    @Test("Posts come out once and in order, over many chunks: S-BLK-3, S-BLK-6", arguments: 0..<50 as Range<UInt64>)
    func againstModel(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        withQueue { queue in
            var posted = 0
            var taken = 0
            for _ in 0..<200 {
                let burst = generator.below(1 << generator.below(9))
                for _ in 0..<burst {
                    posted += 1
                    let accepted = queue.pointee.append(PostQueueTests.post(posted))
                    #expect(accepted)
                }
                if generator.below(3) == 0 {
                    let hasNews = queue.pointee.hasNews
                    #expect(hasNews == (posted > taken))
                    PostQueueTests.drain(queue) { number in
                        #expect(number == taken + 1)
                        taken = number
                    }
                    #expect(taken == posted)
                    let stillHasNews = queue.pointee.hasNews
                    #expect(!stillHasNews)
                    queue.pointee.reclaim()
                }
            }
            PostQueueTests.drain(queue) { taken = $0 }
            #expect(taken == posted)
        }
    }

    @Test("What was posted after a round began waits for the next: S-BLK-6")
    func roundEnd() {
        withQueue { queue in
            for number in 1...3 { _ = queue.pointee.append(PostQueueTests.post(number)) }
            var position = queue.pointee.cursor
            let end = queue.pointee.end()
            queue.pointee.cursor = end
            _ = queue.pointee.append(PostQueueTests.post(4))
            var first: [Int] = []
            while let slot = PostQueue.advance(&position, to: end) {
                guard case .post(let post) = slot.content else { continue }
                first.append(PostQueueTests.number(post))
            }
            #expect(first == [1, 2, 3])
            let hasNews = queue.pointee.hasNews
            #expect(hasNews)
            var second: [Int] = []
            PostQueueTests.drain(queue) { second.append($0) }
            #expect(second == [4])
        }
    }

    @Test("A closed queue refuses posts and keeps those it has: S-LOOP-10, S-LOOP-13")
    func closed() {
        withQueue { queue in
            for number in 1...200 { _ = queue.pointee.append(PostQueueTests.post(number)) }
            queue.pointee.close()
            for number in 201...210 {
                let accepted = queue.pointee.append(PostQueueTests.post(number))
                #expect(!accepted)
            }
            var taken: [Int] = []
            PostQueueTests.drain(queue) { taken.append($0) }
            #expect(taken == Array(1...200))
        }
    }

    @Test("Posts of several threads all arrive, each thread's in its order: S-BLK-3, S-THR-1", arguments: [2, 3, 5])
    func producers(threads: Int) {
        let each = 3000
        withQueue { queue in
            let shared = Shared(queue)
            let producers = (0..<threads).map { thread in
                CoreThread {
                    for number in 0..<each {
                        while !shared.queue.pointee.append(PostQueueTests.post(thread * each + number + 1)) {}
                    }
                }
            }
            var next = [Int](repeating: 0, count: threads)
            var total = 0
            var inOrder = true
            while total < threads * each {
                var holes = 0
                PostQueueTests.drain(queue, holes: &holes) { number in
                    let thread = (number - 1) / each
                    if (number - 1) % each != next[thread] { inOrder = false }
                    next[thread] = (number - 1) % each + 1
                    total += 1
                }
                queue.pointee.reclaim()
            }
            for producer in producers { producer.join() }
            #expect(inOrder)
            #expect(next == [Int](repeating: each, count: threads))
        }
    }

    @Test("Posts wait on the lists of all their modes in the order of posting, however they got there: S-BLK-3, S-BLK-5, S-BLK-16",
          arguments: 0..<50 as Range<UInt64>)
    func lists(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let lists = makeArray(WaitingList.self, count: 3)
        var model: [(number: Int, modes: [Int])] = []
        func expectLists() {
            for index in 0..<3 {
                var place = lists[index].last
                var numbers: [Int] = []
                while let current = place {
                    numbers.append(Int(current.pointee.waiting.pointee.sequence))
                    place = current.pointee.previous
                }
                #expect(numbers == model.filter { $0.modes.contains(index) }.map(\.number).sorted(by: >))
            }
        }
        for number in Array(1...60).shuffled(using: &generator) {
            let modes = (0..<3).filter { _ in generator.below(2) == 0 }
            let waiting = makeRecord(Waiting.self, tail: 3 * MemoryLayout<WaitingPlace>.stride)
            waiting.initialize(
                PostQueueTests.post(number), sequence: UInt64(number),
                places: UnsafeMutableRawPointer(waiting + 1).assumingMemoryBound(to: WaitingPlace.self), count: modes.count)
            for (index, mode) in modes.enumerated() {
                waiting.pointee.places[index].list = lists + mode
                lists[mode].insert(waiting.pointee.places + index)
            }
            if modes.isEmpty { freeRecord(waiting) } else { model.append((number, modes)) }
            expectLists()
            if generator.below(8) == 0 {
                let list = generator.below(3)
                let floor = generator.below(60)
                var chain = (lists + list).takeAll(from: UInt64(floor))
                for taken in model.filter({ $0.modes.contains(list) && $0.number >= floor }).map(\.number).sorted() {
                    #expect(chain.map { PostQueueTests.number($0.pointee.post) } == taken)
                    let next = chain?.pointee.next
                    if let chain { freeRecord(chain) }
                    chain = next
                }
                #expect(chain == nil)
                model.removeAll { $0.modes.contains(list) && $0.number >= floor }
                expectLists()
            }
        }
        for list in 0..<3 {
            var chain = (lists + list).takeAll(from: 0)
            while let waiting = chain {
                chain = waiting.pointee.next
                freeRecord(waiting)
            }
        }
        freeRecord(lists)
    }

    @Test("A list of holes forgets what was filled and keeps the order of the rest: S-BLK-3", arguments: 0..<20 as Range<UInt64>)
    func holes(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var holes = GrowingArray<SlotPointer>()
        var model: [SlotPointer] = []
        for number in 1...100 {
            // A pointer that stands for a slot; nothing lies behind it.
            let slot = SlotPointer(bitPattern: number * 64)!
            holes.append(slot)
            model.append(slot)
            while generator.below(3) == 0, !model.isEmpty {
                let index = generator.below(model.count)
                holes.remove(at: index)
                model.remove(at: index)
            }
            #expect(holes.count == model.count)
            #expect((0..<holes.count).map { holes[$0] } == model)
            #expect(holes.isEmpty == model.isEmpty)
        }
        holes.free()
    }

    // MARK: What the tests use

    private struct Shared: @unchecked Sendable {
        // Sendable: append is for any thread, and the test joins all threads before the queue goes.
        let queue: UnsafeMutablePointer<PostQueue>
        init(_ queue: UnsafeMutablePointer<PostQueue>) { self.queue = queue }
    }

    private func withQueue(_ body: (UnsafeMutablePointer<PostQueue>) -> Void) {
        let queue = makeRecord(PostQueue.self)
        queue.pointee.open()
        body(queue)
        queue.pointee.close()
        queue.pointee.free()
        // The one that is kept for the next loop.
        queue.pointee.first?.free()
        freeRecord(queue)
    }

    /// A post that is nothing but a number.
    private static func post(_ number: Int) -> Post {
        Post(perform: { _ in }, release: nil, info: UnsafeMutableRawPointer(bitPattern: number), modes: PostModes(mode: nil))
    }

    private static func number(_ post: Post) -> Int { Int(bitPattern: post.info) }

    /// Takes everything posted so far; nothing is being posted meanwhile.
    private static func drain(_ queue: UnsafeMutablePointer<PostQueue>, _ body: (Int) -> Void) {
        var holes = 0
        drain(queue, holes: &holes, body)
        precondition(holes == 0)
    }

    /// Takes everything posted so far; waits at a slot that a producer has claimed and not filled yet.
    private static func drain(_ queue: UnsafeMutablePointer<PostQueue>, holes: inout Int, _ body: (Int) -> Void) {
        var position = queue.pointee.cursor
        let end = queue.pointee.end()
        queue.pointee.cursor = end
        var sequence = position.sequence
        while let slot = PostQueue.advance(&position, to: end) {
            // The numbers that order what is kept for later grow from chunk to chunk.
            precondition(position.sequence > sequence)
            sequence = position.sequence
            while !slot.isFilled {
                holes += 1
                yieldProcessor()
            }
            if case .post(let post) = slot.content { body(number(post)) }
        }
    }
}
