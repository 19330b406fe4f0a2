@testable import RunLoopCore
import Testing

/// The stack of the batches of sources that are being performed.
@Suite struct BatchStackTests {
    private static func makeSource(order: Int) -> SourcePointer {
        SourcePointer.make(order: order, info: nil, functions: SourceFunctions(), isPort: false)
    }

    @Test("A batch is sorted by order, equal orders stay as they were signalled, outer batches stay: S-SRC-31, S-NEST-1",
          arguments: 0..<60 as Range<UInt64>)
    func sorting(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let range = 1 + generator.below(20)
        var stack = BatchStack()
        var levels: [[SourcePointer]] = []
        for _ in 0..<1 + generator.below(4) {
            let batch = (0..<generator.below(1 << generator.below(9))).map { _ in
                BatchStackTests.makeSource(order: generator.below(range) - range / 2)
            }
            let start = stack.count
            for source in batch { stack.push(source) }
            stack.sort(from: start)
            let sorted = batch.enumerated().sorted { one, other in
                let (first, second) = (one.element.pointee.order, other.element.pointee.order)
                return first != second ? first < second : one.offset < other.offset
            }
            levels.append(sorted.map(\.element))
            #expect((0..<stack.count).map { stack[$0] } == levels.flatMap { $0 })
        }
        // The innermost batch goes first, and what lies below it is as it was.
        while let innermost = levels.popLast() {
            stack.truncate(to: stack.count - innermost.count)
            #expect((0..<stack.count).map { stack[$0] } == levels.flatMap { $0 })
            for source in innermost { source.release() }
        }
        stack.free()
    }
}
