// SPDX-License-Identifier: MIT
@testable import RunLoopCore
import Testing

/// The set of a mode's sources, which goes by the client's equality, and the lists of signalled ones.
@Suite struct SourceSetTests {
    /// A source that says its hash is its info and that sources are equal whose infos agree in the tens.
    private static func makeSource(info: Int) -> SourcePointer {
        var functions = SourceFunctions()
        functions.hash = { info in UInt(bitPattern: info) / 10 }
        functions.equal = { one, other in UInt(bitPattern: one) / 10 == UInt(bitPattern: other) / 10 }
        let source = SourcePointer.make(
            order: 0, info: UnsafeMutableRawPointer(bitPattern: info), functions: functions, isVersionOne: false)
        source.prepareHashCode()
        return source
    }

    @Test("The set holds its members and finds those that could equal another source: S-SRC-5, S-SRC-7, S-SRC-8",
          arguments: 0..<50 as Range<UInt64>)
    func againstModel(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let range = 10 * (1 + generator.below(30))
        let sources = (0..<range).map { SourceSetTests.makeSource(info: 10 + $0) }
        var set = SourceSet()
        var model: Set<SourcePointer> = []
        for _ in 0..<600 {
            let source = sources[generator.below(range)]
            let changes = set.changes
            if model.contains(source) {
                set.remove(source)
                model.remove(source)
            } else {
                set.insert(source)
                model.insert(source)
            }
            #expect(set.changes != changes)
            #expect(set.count == model.count)
            #expect(set.contains(source) == model.contains(source))

            let other = sources[generator.below(range)]
            var candidates: [SourcePointer] = []
            while let candidate = set.candidate(for: other, skip: candidates.count) { candidates.append(candidate) }
            let expected = model.filter { $0 != other && $0.isEqual(other) }
            #expect(Set(candidates) == expected)
            #expect(candidates.count == expected.count)

            var seen: Set<SourcePointer> = []
            set.forEach { #expect(seen.insert($0).inserted) }
            #expect(seen == model)
        }
        var hint = 0
        while let source = set.any(from: &hint) {
            #expect(model.remove(source) != nil)
            set.remove(source)
        }
        #expect(model.isEmpty && set.count == 0)
        set.free()
        for source in sources { source.release() }
    }

    @Test("A list of links keeps its order, and older signals go in front: S-SRC-31", arguments: 0..<50 as Range<UInt64>)
    func linkList(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let sources = (0..<40).map { SourceSetTests.makeSource(info: 100 + $0) }
        var list = LinkList()
        var model: [SourceLinkPointer] = []
        var free = sources.map(\.firstLink)
        for _ in 0..<300 {
            switch generator.below(4) {
            case 0, 1:
                guard let link = free.popLast() else { continue }
                list.append(link, mark: LinkList.pendingMark)
                model.append(link)
            case 2:
                guard !model.isEmpty else { continue }
                let link = model.remove(at: generator.below(model.count))
                list.remove(link)
                #expect(link.pointee.list == 0)
                free.append(link)
            default:
                var older = LinkList()
                var olderModel: [SourceLinkPointer] = []
                for _ in 0..<generator.below(4) {
                    guard let link = free.popLast() else { break }
                    older.append(link, mark: LinkList.parkedMark)
                    olderModel.append(link)
                }
                list.prepend(&older, mark: LinkList.pendingMark)
                model = olderModel + model
                #expect(older.isEmpty)
            }
            var forward: [SourceLinkPointer] = []
            var link = list.first
            var previous: SourceLinkPointer?
            while let current = link {
                #expect(current.pointee.previous == previous)
                #expect(current.pointee.list == LinkList.pendingMark)
                forward.append(current)
                previous = current
                link = current.pointee.next
            }
            #expect(forward == model)
            #expect(list.isEmpty == model.isEmpty)
        }
        for source in sources { source.release() }
    }

    @Test("Sources made with the same functions share one record of them: S-SRC-5")
    func sharedCallbacks() {
        let one = SourceSetTests.makeSource(info: 1)
        let two = SourceSetTests.makeSource(info: 2)
        #expect(one.pointee.callbacks == two.pointee.callbacks)
        #expect(one.pointee.callbacks.pointee.users >= 2)
        one.release()
        two.release()
    }
}
