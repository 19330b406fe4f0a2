// SPDX-License-Identifier: MIT
@testable import RunLoopCore
import Testing

/// The timers of one mode: heap, wheel and the batch that is firing.
@Suite struct TimerStoreTests {
    @Test("Batches take the due timers in firing order, and no wake-up is too late: S-TMR-20, S-TMR-21, S-TMR-23, S-TMR-55",
          arguments: 0..<100 as Range<UInt64>)
    func againstModel(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var store = TimerStore()
        var model: [ModelTimer] = []
        // The store's first timer reads the clock, so the test's time starts there.
        var now = Clock.now()
        var sequence = 0
        var batch: UInt32 = 0
        // Half of them have one of a few instants, so that many are due at the same one.
        func anyInstant() -> Int64 {
            let distance = Int64(1000) << Int64(generator.below(30))
            return generator.below(2) == 0
                ? now + Int64(generator.below(3)) * 500
                : now + Int64.random(in: -1000..<distance, using: &generator)
        }
        for _ in 0..<600 {
            switch generator.below(10) {
            case 0, 1, 2, 3:
                let instant = anyInstant()
                let timer = makeTimer(instant: instant)
                store.insert(timer.firstNode)
                model.append(ModelTimer(timer: timer, instant: instant, sequence: sequence))
                sequence += 1
            case 4:
                guard !model.isEmpty else { continue }
                let entry = model.remove(at: generator.below(model.count))
                store.remove(entry.node)
                store.remove(entry.node)
                #expect(entry.node.pointee.place == .nowhere)
                entry.timer.release()
            case 5, 6:
                guard !model.isEmpty else { continue }
                let entry = model.remove(at: generator.below(model.count))
                let instant = anyInstant()
                entry.timer.pointee.instant = instant
                store.remove(entry.node, dueAt: entry.instant)
                store.insert(entry.node)
                model.append(ModelTimer(timer: entry.timer, instant: instant, sequence: sequence))
                sequence += 1
            default:
                now += Int64.random(in: 0..<(Int64(1000) << Int64(generator.below(25))), using: &generator)
                let due = model.filter { $0.instant <= now }.inOrder
                let hasDue = store.hasDue(now)
                #expect(hasDue == !due.isEmpty)
                if due.isEmpty, let least = model.inOrder.first {
                    // Without tolerance the loop may sleep to the earliest timer at the most.
                    let wake = store.nextWake()
                    #expect(wake <= least.instant)
                    #expect(wake > now - Int64(1 << TimerWheel.tickBits))
                }
                batch += 1
                store.collectDue(now, batch: batch)
                for entry in due {
                    let first = store.firstMemberDue
                    #expect(first == entry.node)
                    let earliest = store.earliest()
                    #expect(earliest == entry.node)
                    #expect(entry.node.pointee.place == .due)
                    #expect(entry.node.pointee.batch == batch)
                    store.remove(entry.node)
                }
                let left = store.firstMemberDue
                #expect(left == nil)
                model.removeAll { $0.instant <= now }
                due.release()
            }
            #expect(store.checkInvariants())
            #expect(store.isEmpty == model.isEmpty)
            let earliest = store.earliest()
            #expect(earliest == model.inOrder.first?.node)
            let any = store.anyNode()
            #expect(any.map { node in model.contains { $0.node == node } } ?? model.isEmpty)
        }
        for entry in model { store.remove(entry.node) }
        model.release()
        store.free()
    }

    @Test("The loop does not wake for timers that were removed or put off: S-PASS-16, S-TMR-36", arguments: [1, 16, 17, 300])
    func needlessWakes(count: Int) {
        var store = TimerStore()
        let now = Clock.now()
        let soon = now + 5_000_000_000
        let late = now + 500_000_000_000
        let timers = (0..<count).map { _ in makeTimer(instant: soon) }
        for timer in timers { store.insert(timer.firstNode) }
        let last = makeTimer(instant: late)
        store.insert(last.firstNode)
        for (index, timer) in timers.enumerated() {
            store.remove(timer.firstNode)
            if index % 2 == 0 { continue }
            timer.pointee.instant = late * 1000
            store.insert(timer.firstNode)
        }
        let hasDue = store.hasDue(now)
        #expect(!hasDue)
        let wake = store.nextWake()
        #expect(wake == late)
        store.remove(last.firstNode)
        last.release()
        for timer in timers {
            store.remove(timer.firstNode)
            timer.release()
        }
        #expect(store.isEmpty)
        store.free()
    }

    @Test("Any number of timers is taken out one after the other: S-LOOP-14", arguments: [1, 5, 3000])
    func takingAll(count: Int) {
        var generator = SeededGenerator(seed: UInt64(count))
        var store = TimerStore()
        let now = Clock.now()
        var timers = Set((0..<count).map { _ in makeTimer(instant: now + Int64(generator.below(1 << 40))) })
        for timer in timers { store.insert(timer.firstNode) }
        for timer in timers where generator.below(3) == 0 {
            store.remove(timer.firstNode)
            timers.remove(timer)
            timer.release()
        }
        while let node = store.anyNode() {
            store.remove(node)
            #expect(timers.remove(node.timer) != nil)
            node.timer.release()
        }
        #expect(timers.isEmpty && store.isEmpty)
        store.free()
    }

    @Test("With tolerances the loop sleeps past no timer's last moment: S-TMR-53, S-CLK-5, S-CLK-8", arguments: 0..<200 as Range<UInt64>)
    func tolerances(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var store = TimerStore()
        let now = Clock.now()
        var model: [ModelTimer] = []
        for sequence in 0..<generator.below(60) + 1 {
            let distance = Int64(100_000) << Int64(generator.below(16))
            let instant = now + 1 + Int64.random(in: 0..<distance, using: &generator)
            let tolerance = generator.below(3) == 0 ? 0 : Double(distance) * 1e-9 * Double(generator.below(100)) / 50
            let timer = makeTimer(instant: instant, tolerance: tolerance)
            store.insert(timer.firstNode)
            model.append(ModelTimer(timer: timer, instant: instant, sequence: sequence))
        }
        if !store.hasDue(now) {
            let wake = store.nextWake()
            #expect(wake <= model.map(\.timer.latestInstant).min()!)
        }
        // A clock that the program moves goes there exactly, and from a time that the loop has not reached yet.
        for time in [Int64.min, now] + model.map(\.instant) {
            let exact = store.exactWake(after: time)
            #expect(exact == model.filter { $0.instant > time }.map { $0.timer.tolerance == 0 ? $0.instant : $0.timer.latestInstant }.min() ?? Clock.never)
        }
        for entry in model { store.remove(entry.node) }
        #expect(store.isEmpty)
        model.release()
        store.free()
    }

    @Test("A crowd that is due at once fires by instant, then by insertion, without those removed on the way: S-TMR-20, S-TMR-21",
          arguments: [2, 32, 33, 500, 5000], [1, 3, 1 << 16, 1 << 22, 1 << 45] as [Int64])
    func crowd(count: Int, range: Int64) {
        var generator = SeededGenerator(seed: UInt64(count) &+ UInt64(range))
        var store = TimerStore()
        let now = Clock.now()
        var model: [ModelTimer] = []
        for sequence in 0..<count {
            let timer = makeTimer(instant: now + 2_000_000 + Int64.random(in: 0..<range, using: &generator))
            store.insert(timer.firstNode)
            model.append(ModelTimer(timer: timer, instant: timer.pointee.instant, sequence: sequence))
        }
        let end = now + 2_000_000 + range
        _ = store.hasDue(end)
        for _ in 0..<count / 4 {
            let entry = model.remove(at: generator.below(model.count))
            store.remove(entry.node)
            entry.timer.release()
        }
        let isRight = store.checkInvariants()
        #expect(isRight)
        store.collectDue(end, batch: 1)
        for entry in model.inOrder {
            let first = store.firstMemberDue
            #expect(first == entry.node)
            store.remove(entry.node)
        }
        #expect(store.isEmpty)
        model.release()
        store.free()
    }

    @Test("A nested batch joins the timers of the outer one in firing order: S-TMR-21, S-TMR-27")
    func nestedBatches() {
        var store = TimerStore()
        let now = Clock.now()
        let timers = [30, 10, 20, 40].map { makeTimer(instant: now + $0) }
        for timer in timers[0...1] { store.insert(timer.firstNode) }
        store.collectDue(now + 50, batch: 1)
        for timer in timers[2...3] { store.insert(timer.firstNode) }
        store.collectDue(now + 50, batch: 2)
        var order: [Int64] = []
        while let node = store.firstMemberDue {
            order.append(node.instant - now)
            store.remove(node)
        }
        #expect(order == [10, 20, 30, 40])
        for timer in timers { timer.release() }
        store.free()
    }

    @Test("In a nested batch members that were added back or got other dates fire by their instants, tombstones apart: S-TMR-21, S-TMR-23, S-TMR-26",
          arguments: 0..<200 as Range<UInt64>)
    func returnedMembers(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var store = TimerStore()
        let now = Clock.now()
        let timers = (0..<40).map { makeTimer(instant: now - 1000 + Int64($0)) }
        for timer in timers { store.insert(timer.firstNode) }
        store.collectDue(now, batch: 1)
        var turns = timers
        var members = timers
        for number in 0..<Int64(60) {
            let timer = timers[generator.below(timers.count)]
            let node = timer.firstNode
            switch generator.below(5) {
            case 0, 1:
                if node.pointee.isTombstone { break }
                node.pointee.isTombstone = true
                members.removeAll { $0 == timer }
                if node.pointee.isIn(.returned) { store.pass(node) }
            case 2:
                if !node.pointee.isTombstone { break }
                node.pointee.isTombstone = false
                members.append(timer)
                store.keepTurn(node)
            case 3:
                timer.pointee.instant = now + number
                if !node.pointee.isTombstone { store.keepTurn(node) }
            default:
                let earliest = store.earliest()
                #expect(earliest?.instant == members.map(\.firstNode.instant).min())
                let first = store.firstMemberDue
                let expected = turns.first { members.contains($0) }
                #expect(first?.timer == expected)
            }
        }
        if seed % 2 == 0 {
            let added = makeTimer(instant: now - 980)
            store.insert(added.firstNode)
            members.append(added)
            store.collectDue(now + 100, batch: 2)
            var last = Int64.min
            while let node = store.nextDue(inBatch: 2) {
                #expect(!node.pointee.isTombstone)
                #expect(node.instant >= last)
                last = node.instant
                store.removeMember(node)
                members.removeAll { $0 == node.timer }
            }
            #expect(members.isEmpty)
            turns.removeAll { !$0.firstNode.pointee.isTombstone }
            added.release()
        }
        while let node = store.nextDue(inBatch: 1) {
            #expect(node.timer == turns.removeFirst())
            node.pointee.isTombstone = false
            store.remove(node)
        }
        #expect(turns.isEmpty && store.isEmpty && store.anyNode() == nil)
        for timer in timers { timer.release() }
        store.free()
    }

    @Test("Timers with one instant keep their order, and each is found, however many insertions lie between them: S-TMR-21, S-TMR-42")
    func farApart() {
        var timers = SortedTimers()
        let members = (0..<9).map { _ in makeTimer(instant: 5) }
        for (index, timer) in members.enumerated() {
            timer.firstNode.pointee.sequence = index * 1_100_000_000
            let isLater = timers.append(timer.firstNode, instant: 5)
            #expect(isLater)
        }
        for index in [0, 3, 8, 1, 5] {
            timers.remove(members[index].firstNode, instant: 5)
            #expect(timers.checkInvariants())
        }
        for index in [2, 4, 6, 7] {
            let first = timers.removeFirst(notAfter: 5)
            #expect(first == members[index].firstNode)
        }
        for timer in members { timer.release() }
        timers.free()
    }

    @Test("A timer that goes and comes back with its former instant, in its former place, is found: S-TMR-21, S-TMR-63", arguments: [1, 2, 9])
    func thereAndBack(count: Int) {
        var store = TimerStore()
        let now = Clock.now()
        let timers = (0..<count).map { _ in makeTimer(instant: now) }
        for timer in timers { store.insert(timer.firstNode) }
        for distance in [-1, 0, 1_000_000_000, 0, 0, 5, 0] as [Int64] {
            for timer in timers.reversed() {
                let former = timer.pointee.instant
                timer.pointee.instant = now + distance
                store.move(timer.firstNode, from: former)
                #expect(store.checkInvariants())
            }
        }
        store.collectDue(now, batch: 1)
        for timer in timers {
            let first = store.firstMemberDue
            #expect(first == timer.firstNode)
            store.remove(timer.firstNode)
        }
        #expect(store.isEmpty)
        for timer in timers { timer.release() }
        store.free()
    }
}
