// SPDX-License-Identifier: MIT
@testable import RunLoopCore
import Testing

/// The stack of what a loop's thread is in the middle of.
@Suite struct CallStackTests {
    private static func makeSource(order: Int) -> SourcePointer {
        SourcePointer.make(order: order, info: nil, functions: SourceFunctions(), isVersionOne: false)
    }

    private static func push<Record: CallRecord>(_ record: Record, on stack: inout CallStack) -> CallPlace<Record> {
        if !stack.hasRoom(for: Record.size) { stack.grow(by: Record.size) }
        return stack.push(record)
    }

    private static func pushBatch(_ batch: [SourcePointer], on stack: inout CallStack) -> Int {
        let start = stack.count
        for source in batch { stack.pushMember(source) }
        stack.makeRoomForSorting(from: start)
        stack.closeBatch(from: start)
        return start
    }

    @Test("A batch is sorted by order, equal orders stay as they were signalled, outer batches stay: S-SRC-31, S-NEST-1",
          arguments: 0..<60 as Range<UInt64>)
    func batches(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let range = 1 + generator.below(20)
        var stack = CallStack()
        var levels: [(start: Int, members: [SourcePointer])] = []
        for _ in 0..<1 + generator.below(4) {
            let batch = (0..<generator.below(1 << generator.below(9))).map { _ in
                CallStackTests.makeSource(order: generator.below(range) - range / 2)
            }
            let start = CallStackTests.pushBatch(batch, on: &stack)
            let sorted = batch.enumerated().sorted { one, other in
                let (first, second) = (one.element.pointee.order, other.element.pointee.order)
                return first != second ? first < second : one.offset < other.offset
            }
            levels.append((start, sorted.map(\.element)))
            for level in levels { #expect(level.members.indices.map { stack.member(level.start + $0) } == level.members) }
        }
        // What the end of the thread does: the members of the innermost batch, the last first, but for those that are forgotten.
        while let innermost = levels.popLast() {
            #expect(stack.innermost == .sourceBatch)
            var left: [SourcePointer?] = innermost.members
            for index in left.indices where generator.below(3) == 0 {
                stack.forgetMember(innermost.start + index)
                left[index] = nil
            }
            while let last = left.popLast() { #expect(stack.popMember()?.source == last) }
            #expect(stack.popMember()?.source == nil)
            #expect(stack.count == innermost.start)
            for source in innermost.members { source.release() }
        }
        #expect(stack.innermost == nil)
        stack.free()
    }

    @Test("Records of all sizes are found from the innermost outwards, beside batches, and come off in the order of nesting: S-LOOP-19",
          arguments: 0..<60 as Range<UInt64>)
    func records(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let source = CallStackTests.makeSource(order: 0)
        var stack = CallStack()
        var kinds: [CallKind] = []
        var starts: [Int] = []
        var infos: [Int] = []
        for number in 1...1 + generator.below(100) {
            starts.append(stack.count)
            switch generator.below(4) {
            case 0:
                _ = CallStackTests.pushBatch(Array(repeating: source, count: generator.below(5)), on: &stack)
                kinds.append(.sourceBatch)
            case 1:
                _ = CallStackTests.push(WatchCall(source: source), on: &stack)
                kinds.append(.watch)
            case 2:
                _ = CallStackTests.push(MainQueueCall(), on: &stack)
                kinds.append(.mainQueue)
            default:
                _ = CallStackTests.push(Bracket(release: nil, info: UnsafeMutableRawPointer(bitPattern: number)), on: &stack)
                kinds.append(.bracket)
                infos.append(number)
            }
            #expect(stack.innermost == kinds.last)
        }
        var found: [Int] = []
        #expect(!stack.contains(Bracket.self) {
            found.append(Int(bitPattern: $0.pointee.info))
            return false
        })
        #expect(found == infos.reversed())
        #expect(stack.contains(WatchCall.self) { $0.pointee.source == source } == kinds.contains(.watch))
        #expect(!stack.contains(TimerCall.self) { _ in true })
        while let kind = kinds.popLast(), let start = starts.popLast() {
            #expect(stack.innermost == kind)
            switch kind {
            case .sourceBatch: while stack.count > start { _ = stack.popMember() }
            case .watch: #expect(stack.popLast(WatchCall.self).source == source)
            case .mainQueue: _ = stack.popLast(MainQueueCall.self)
            default: #expect(Int(bitPattern: stack.popLast(Bracket.self).info) == infos.popLast())
            }
            #expect(stack.count == start)
        }
        stack.free()
        source.release()
    }

    @Test("Another thread sees the sources and timers that are called, whatever lies above and between them: S-SRC-14, S-TMR-55")
    func shared() {
        let source = CallStackTests.makeSource(order: 0)
        var stack = CallStack()
        _ = CallStackTests.push(WatchCall(source: source), on: &stack)
        #expect(!CallStack.contains(SourceCall.self, in: stack.words, below: stack.shared) { _ in true })
        let outer = CallStackTests.push(SourceCall(source), on: &stack)
        stack.shared = stack.count
        let between = CallStackTests.push(MainQueueCall(), on: &stack)
        let inner = CallStackTests.push(SourceCall(source), on: &stack)
        stack.shared = stack.count
        _ = CallStackTests.push(MainQueueCall(), on: &stack)
        var seen: [Int] = []
        _ = CallStack.contains(SourceCall.self, in: stack.words, below: stack.shared) {
            seen.append($0 == stack[inner] ? 2 : $0 == stack[outer] ? 1 : 0)
            return false
        }
        #expect(seen == [2, 1])
        _ = stack.popLast(MainQueueCall.self)
        _ = stack.popLast(SourceCall.self)
        stack.findShared()
        #expect(stack.shared == between.start)
        _ = stack.pop(between)
        _ = stack.popLast(SourceCall.self)
        stack.findShared()
        #expect(stack.shared == 0)
        stack.free()
        source.release()
    }
}
