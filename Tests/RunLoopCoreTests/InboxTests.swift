// SPDX-License-Identifier: MIT
import CRunLoop
import Glibc
@testable import RunLoopCore
import Synchronization
import Testing

/// An inbox that counts what is put into it and taken from it, and calls a closure at each perform.
private final class Box: @unchecked Sendable {
    let source: SourcePointer
    let stored = Atomic<Int>(0)
    let taken = Atomic<Int>(0)
    let performs = Atomic<Int>(0)
    let action: (Box) -> Void
    private let cell = UnsafeMutablePointer<Unmanaged<Box>>.allocate(capacity: 1)

    init(_ action: @escaping (Box) -> Void = { _ in }) {
        var functions = SourceFunctions()
        functions.watch = { info, _ in
            let box = info!.assumingMemoryBound(to: Unmanaged<Box>.self).pointee.takeUnretainedValue()
            box.performs.wrappingAdd(1, ordering: .sequentiallyConsistent)
            box.taken.wrappingAdd(box.stored.exchange(0, ordering: .acquiring), ordering: .sequentiallyConsistent)
            box.action(box)
            return true
        }
        self.action = action
        source = SourcePointer.makeInbox(order: 0, info: cell, functions: functions)
        cell.initialize(to: .passUnretained(self))
    }

    deinit {
        source.invalidate()
        source.release()
        cell.deallocate()
    }

    var performCount: Int { performs.load(ordering: .sequentiallyConsistent) }
    var takenCount: Int { taken.load(ordering: .sequentiallyConsistent) }

    func put() {
        stored.wrappingAdd(1, ordering: .releasing)
        source.markReady()
    }

    func add(to loop: OpaquePointer, in mode: UnsafePointer<CChar>?) { RLAddSource(loop, source.handle, mode) }
}

/// What callbacks record, in order; one thread writes it.
private final class Trace: @unchecked Sendable {
    var words: [String] = []

    func take() -> String {
        defer { words = [] }
        return words.joined(separator: " ")
    }

    /// Records the activities of runs of the mode on the current loop.
    func observe(_ mode: UnsafePointer<CChar>?) {
        var context = RLObserverContext()
        context.info = Unmanaged.passUnretained(self).toOpaque()
        let observer = RLObserverCreate(0x0FFF_FFFF, true, 0, { _, activity, info in
            let names: [UInt: String] = [1: "E", 2: "BT", 4: "BS", 32: "BW", 64: "AW", 128: "X"]
            Unmanaged<Trace>.fromOpaque(info!).takeUnretainedValue().words.append(names[UInt(activity.rawValue)]!)
        }, &context)
        RLAddObserver(RLGetCurrent(), observer, mode)
        RLRelease(UnsafeRawPointer(observer))
    }
}

/// Runs the body on a thread, and so on a loop, of its own.
private func onFreshLoop(_ body: @escaping @Sendable () -> Void) { CoreThread(body).join() }

private func run(_ mode: UnsafePointer<CChar>?, _ seconds: Double, _ returns: Bool) -> RunResult? {
    RunResult(rawValue: RLRunInMode(mode, seconds, returns).rawValue)
}

/// Inboxes: sources that a call makes ready and that a loop serves like ports.
@Suite struct InboxTests {
    @Test("Ready inboxes are served one per pass, oldest first, as handled sources: S-PASS-6, S-PASS-8, S-PASS-14, S-RUN-12, S-RUN-27")
    func onePerPass() {
        onFreshLoop {
            let trace = Trace()
            let boxes = ["a", "b", "c"].map { name in Box { _ in trace.words.append(name) } }
            for box in boxes { box.add(to: RLGetCurrent(), in: kRLDefaultMode) }
            trace.observe(kRLDefaultMode)
            for index in [1, 0, 2, 1] { boxes[index].put() }
            #expect(run(kRLDefaultMode, 100, true) == .handledSource)
            #expect(trace.take() == "E BT BS BW AW b X")
            #expect(run(kRLDefaultMode, 0, true) == .handledSource)
            #expect(trace.take() == "E BT BS a X")
            #expect(run(kRLDefaultMode, 0, false) == .timedOut)
            #expect(trace.take() == "E BT BS c X")
            #expect(run(kRLDefaultMode, 0, false) == .timedOut)
            #expect(trace.take() == "E BT BS X")
            #expect(boxes.map(\.takenCount) == [1, 2, 1])
        }
    }

    @Test("An inbox that marks itself in its perform comes again behind the others, without a sleep: S-PASS-13, S-PASS-14")
    func markedAgain() {
        onFreshLoop {
            let trace = Trace()
            let greedy = Box { box in
                trace.words.append("g")
                if box.performCount == 4 { RLStop(RLGetCurrent()) } else { box.put() }
            }
            let modest = Box { _ in trace.words.append("m") }
            greedy.add(to: RLGetCurrent(), in: kRLDefaultMode)
            modest.add(to: RLGetCurrent(), in: kRLDefaultMode)
            greedy.put()
            modest.put()
            #expect(run(kRLDefaultMode, 100, false) == .stopped)
            #expect(trace.take() == "g m g g g")
        }
    }

    @Test("A mark given while the inbox is in no loop, or in another mode than the running one, is kept: S-MODE-23, S-SRC-41")
    func remembered() {
        onFreshLoop {
            let loop = RLGetCurrent()
            let box = Box()
            let other = Box()
            other.add(to: loop, in: "other")
            box.put()
            box.add(to: loop, in: "mine")
            #expect(run("other", 0, true) == .timedOut)
            #expect(run("other", 0.001, true) == .timedOut)
            #expect(box.performCount == 0)
            #expect(run("mine", 100, true) == .handledSource)
            box.put()
            #expect(run("other", 0, true) == .timedOut)
            RLRemoveSource(loop, box.source.handle, "mine")
            #expect(run("mine", 0, true) == .finished)
            box.add(to: loop, in: "other")
            #expect(run("other", 100, true) == .handledSource)
            #expect(box.performCount == 2 && box.takenCount == 2 && other.performCount == 0)
        }
    }

    @Test("Becoming ready ends a wait by itself, in the futex as in epoll, with one pass and no wake-up's pass: S-PASS-16")
    func endsAWait() {
        for inEpoll in [false, true] {
            onFreshLoop {
                let trace = Trace()
                let box = Box { _ in trace.words.append("p") }
                box.add(to: RLGetCurrent(), in: kRLDefaultMode)
                trace.observe(kRLDefaultMode)
                let idle = IdlePort()
                if inEpoll { idle.add(to: RLGetCurrent(), in: kRLDefaultMode) }
                nonisolated(unsafe) let loop = RLGetCurrent()
                let marker = CoreThread {
                    while !RLIsWaiting(loop) { yieldProcessor() }
                    box.put()
                }
                #expect(run(kRLDefaultMode, 1000, true) == .handledSource)
                marker.join()
                #expect(trace.take() == "E BT BS BW AW p X")
                idle.remove()
            }
        }
    }

    @Test("An inbox that is not in the running mode ends no wait and makes no pass: S-PASS-16, S-MODE-23")
    func otherModeStaysAsleep() {
        onFreshLoop {
            let trace = Trace()
            let box = Box()
            let idle = Box()
            box.add(to: RLGetCurrent(), in: "other")
            idle.add(to: RLGetCurrent(), in: kRLDefaultMode)
            trace.observe(kRLDefaultMode)
            nonisolated(unsafe) let loop = RLGetCurrent()
            let marker = CoreThread {
                while !RLIsWaiting(loop) { yieldProcessor() }
                box.put()
                box.put()
                idle.source.signal()
                RLStop(loop)
            }
            #expect(run(kRLDefaultMode, 1000, false) == .stopped)
            marker.join()
            #expect(trace.take() == "E BT BS BW AW X")
            #expect(run("other", 1000, true) == .handledSource)
            #expect(box.takenCount == 2)
        }
    }

    @Test("A ready inbox that another thread adds to a waiting loop is served without a wake-up: S-WAKE-13")
    func addedWhileWaiting() {
        onFreshLoop {
            let box = Box()
            let idle = Box()
            box.put()
            idle.add(to: RLGetCurrent(), in: kRLDefaultMode)
            nonisolated(unsafe) let loop = RLGetCurrent()
            let adder = CoreThread {
                while !RLIsWaiting(loop) { yieldProcessor() }
                box.add(to: loop, in: kRLDefaultMode)
            }
            #expect(run(kRLDefaultMode, 1000, true) == .handledSource)
            adder.join()
            #expect(box.performCount == 1)
        }
    }

    @Test("An inbox, a due timer and a readable descriptor that are always ready take turns: S-PASS-10, S-PASS-13")
    func takesTurns() {
        onFreshLoop {
            let trace = Trace()
            let loop = RLGetCurrent()
            let box = Box { box in
                trace.words.append("i")
                box.put()
            }
            box.add(to: loop, in: kRLDefaultMode)
            box.put()
            let port = IdlePort(ready: true) { trace.words.append("d") }
            port.add(to: loop, in: kRLDefaultMode)
            var context = RLTimerContext()
            context.info = Unmanaged.passUnretained(trace).toOpaque()
            let timer = RLTimerCreate(0, 1000, 0, 0, { timer, info in
                Unmanaged<Trace>.fromOpaque(info!).takeUnretainedValue().words.append("t")
                RLTimerSetNextFireDate(timer, 0)
            }, &context)
            RLAddTimer(loop, timer, kRLDefaultMode)
            for _ in 0..<24 { #expect(run(kRLDefaultMode, 0, false) == .timedOut) }
            let words = trace.words
            #expect(words.count == 24)
            #expect(words.filter { $0 == "t" }.count == 12)
            #expect(words.filter { $0 == "i" }.count == 6)
            #expect(words.filter { $0 == "d" }.count == 6)
            #expect(zip(words, words.dropFirst()).allSatisfy { $0 != $1 })
            RLTimerInvalidate(timer)
            RLRelease(UnsafeRawPointer(timer))
            port.remove()
        }
    }

    @Test("Marking an invalid inbox does nothing, and invalidation takes a mark away: S-SRC-9, S-SRC-28")
    func invalid() {
        onFreshLoop {
            let box = Box()
            let idle = Box()
            box.add(to: RLGetCurrent(), in: kRLDefaultMode)
            idle.add(to: RLGetCurrent(), in: kRLDefaultMode)
            box.put()
            box.source.invalidate()
            box.put()
            #expect(run(kRLDefaultMode, 0.001, true) == .timedOut)
            #expect(box.performCount == 0)
        }
    }

    @Test("RLSourceSignal on an inbox sets only the flag that its next perform clears: S-SRC-38, S-SRC-45")
    func signalled() {
        onFreshLoop {
            let box = Box()
            box.add(to: RLGetCurrent(), in: kRLDefaultMode)
            box.put()
            #expect(!RLSourceIsSignalled(box.source.handle))
            #expect(run(kRLDefaultMode, 0, true) == .handledSource)
            RLSourceSignal(box.source.handle)
            #expect(RLSourceIsSignalled(box.source.handle))
            #expect(run(kRLDefaultMode, 0, true) == .timedOut)
            box.put()
            #expect(run(kRLDefaultMode, 0, true) == .handledSource)
            #expect(!RLSourceIsSignalled(box.source.handle))
        }
    }

    @Test("A nested run serves the inbox whose perform started it, and what the wait found may be gone by then: S-SRC-49")
    func nested() {
        onFreshLoop {
            let box = Box { box in
                guard box.performCount == 1 else { return }
                box.put()
                #expect(run(kRLDefaultMode, 0, true) == .handledSource)
            }
            box.add(to: RLGetCurrent(), in: kRLDefaultMode)
            box.put()
            #expect(run(kRLDefaultMode, 0, true) == .handledSource)
            #expect(box.performCount == 2)
            #expect(run(kRLDefaultMode, 0, true) == .timedOut)
        }
    }

    @Test("Of what four threads put into inboxes in two loops nothing is lost, while one moves: S-SRC-30, S-WAKE-8",
          arguments: [false, true])
    func nothingLost(inEpoll: Bool) {
        let rounds = 4000
        let loops = (0..<2).map { _ in Runner(inEpoll: inEpoll) }
        // The first is in the first loop, the second in both, the third moves about in the second loop.
        let boxes = (0..<3).map { _ in Box() }
        boxes[0].add(to: loops[0].loop, in: kRLDefaultMode)
        for runner in loops { boxes[1].add(to: runner.loop, in: kRLDefaultMode) }
        boxes[2].add(to: loops[1].loop, in: kRLDefaultMode)
        let isOver = Atomic<Bool>(false)
        nonisolated(unsafe) let second = loops[1].loop
        let mover = CoreThread {
            while !isOver.load(ordering: .relaxed) {
                RLRemoveSource(second, boxes[2].source.handle, kRLDefaultMode)
                yieldProcessor()
                RLAddSource(second, boxes[2].source.handle, kRLDefaultMode)
                yieldProcessor()
            }
        }
        let writers = (0..<4).map { writer in
            CoreThread {
                for round in 1...rounds {
                    let box = boxes[(round + writer) % 3]
                    box.put()
                    // Now and then the loops are to fall asleep: wait until everything was taken.
                    if round % 64 == 0 { while box.stored.load(ordering: .relaxed) != 0 { yieldProcessor() } }
                }
            }
        }
        for writer in writers { writer.join() }
        isOver.store(true, ordering: .relaxed)
        mover.join()
        while boxes.reduce(0, { $0 + $1.takenCount }) < 4 * rounds { yieldProcessor() }
        for runner in loops { runner.stop() }
        #expect(boxes.reduce(0) { $0 + $1.takenCount } == 4 * rounds)
    }
}

/// A version 1 source of a pipe: never ready, or always, because nobody reads what was written.
private final class IdlePort: @unchecked Sendable {
    let descriptor: Int32
    private let otherEnd: Int32
    private let action: () -> Void
    private var source: OpaquePointer?

    init(ready: Bool = false, _ action: @escaping () -> Void = {}) {
        var ends: [Int32] = [-1, -1]
        precondition(pipe(&ends) == 0)
        descriptor = ends[0]
        otherEnd = ends[1]
        if ready { precondition(write(otherEnd, "x", 1) == 1) }
        self.action = action
        var context = RLSourceContext1()
        context.version = 1
        context.info = Unmanaged.passUnretained(self).toOpaque()
        context.getPort = { Unmanaged<IdlePort>.fromOpaque($0!).takeUnretainedValue().descriptor }
        context.perform = { Unmanaged<IdlePort>.fromOpaque($0!).takeUnretainedValue().action() }
        source = withUnsafeMutableBytes(of: &context) {
            RLSourceCreate(0, $0.baseAddress!.assumingMemoryBound(to: RLSourceContext.self))
        }
    }

    func add(to loop: OpaquePointer, in mode: UnsafePointer<CChar>?) { RLAddSource(loop, source, mode) }

    func remove() {
        RLSourceInvalidate(source)
        RLRelease(UnsafeRawPointer(source))
        close(descriptor)
        close(otherEnd)
    }
}

/// A thread that runs the default mode of its loop until it is stopped.
private final class Runner: @unchecked Sendable {
    let loop: OpaquePointer
    private let thread: CoreThread
    private let idle = Box()
    private let port = IdlePort()

    init(inEpoll: Bool) {
        let (idle, port) = (self.idle, self.port)
        let cell = Cell()
        thread = CoreThread {
            let own = RLGetCurrent()
            idle.add(to: own, in: kRLDefaultMode)
            if inEpoll { port.add(to: own, in: kRLDefaultMode) }
            cell.value.store(UInt(bitPattern: own), ordering: .releasing)
            #expect(run(kRLDefaultMode, 1e8, false) == .stopped)
        }
        while cell.value.load(ordering: .acquiring) == 0 { yieldProcessor() }
        loop = OpaquePointer(bitPattern: cell.value.load(ordering: .relaxed))!
        while !RLIsWaiting(loop) { yieldProcessor() }
    }

    func stop() {
        RLStop(loop)
        thread.join()
        port.remove()
    }
}

/// Where a thread says what its loop is.
private final class Cell: Sendable {
    let value = Atomic<UInt>(0)
}
