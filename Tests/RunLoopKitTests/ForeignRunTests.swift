// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Whether the descriptor can be read, after a wait of so many milliseconds at most; -1 for no limit.
private func canBeRead(_ descriptor: CInt, _ milliseconds: CInt = 0) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    return poll(&entry, 1, milliseconds) == 1
}

/// Runs whose waits another loop makes; the other loop is poll(2) here.
@Suite struct ForeignRunTests {
    @Test("The waits of a foreign run in an awaited closure serve what else waits for the loop: S-NEST-7")
    func inAwaitedClosure() async throws {
        let thread = RunLoopThread()
        try thread.start()
        let loop = thread.loop
        let isUnderWay = Promise<Void>()
        let isServed = Atomic(false)
        async let first: Bool = loop.call {
            isUnderWay.fulfil(())
            guard let run = try? RunLoop.ForeignRun(mode: .default) else { return false }
            while true {
                run.prepare()
                if isServed.load(ordering: .acquiring) { break }
                // A limit that only a failure reaches.
                guard canBeRead(run.descriptor, 120_000) else { return false }
                _ = run.dispatch()
            }
            return true
        }
        await Task.detached { isUnderWay.value }.value
        try await loop.call { isServed.store(true, ordering: .releasing) }
        #expect(try await first)
        await thread.finish()
    }

    @Test("poll waits for a timer, a descriptor and a stop of the loop: S-FRN-1 to S-FRN-4, S-FRN-6")
    func hostedByPoll() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            let run = try! RunLoop.ForeignRun(mode: .default)
            #expect(run.isValid && run.descriptor >= 0)
            // Nothing is in the mode, so nothing is to be waited for.
            trace.add("\(run.prepare() == nil) \(canBeRead(run.descriptor))")
            loop.traceActivities(to: trace)
            let pipe = Pipe()
            let source = RunLoop.Source(descriptor: pipe.readEnd) { _ in trace.add("source \(pipe.read(1))") }
            loop.add(source, forMode: .default)
            pipe.write(1)
            run.prepare()
            #expect(canBeRead(run.descriptor, -1))
            trace.add("\(run.dispatch() == nil)")
            source.invalidate()
            loop.add(Timer(timeInterval: .milliseconds(10), repeats: false) { _ in
                trace.add("timer")
                loop.stop()
            }, forMode: .default)
            var result: RunLoop.RunResult?
            while result == nil {
                if let time = run.prepare() { #expect(time <= .milliseconds(10)) }
                #expect(canBeRead(run.descriptor, -1))
                result = run.dispatch()
            }
            trace.add("\(result!)")
            run.invalidate()
            #expect(!run.isValid && run.descriptor == -1)
            return trace.all.filter { !["BT", "BS", "BW", "AW"].contains($0) }
        }
        #expect(trace == ["true false", "E", "source 1", "true", "timer", "X", "stopped"])
    }

    @Test("A foreign run that another thread lets go of is ended on its own, by the next one there or by a run of the loop: S-FRN-11")
    func releasedElsewhere() {
        let (results, trace) = onNewThread { () -> ([Bool], [String]) in
            let trace = Trace()
            let loop = RunLoop.current
            loop.keepAlive()
            let observer = loop.traceActivities(to: trace)
            func prepareAndRelease() -> Bool {
                nonisolated(unsafe) var run = try? RunLoop.ForeignRun()
                guard run != nil else { return false }
                run?.prepare()
                TestThread { run = nil }.join()
                return true
            }
            // Each finds the former one, and ends it.
            var results = (0..<3).map { _ in prepareAndRelease() }
            #expect(trace.all.filter { $0 == "E" }.count == 3 && trace.all.filter { $0 == "X" }.count == 2)
            loop.run(mode: .default, for: .zero)
            results.append(prepareAndRelease())
            loop.run(mode: .default, for: .zero)
            observer.invalidate()
            return (results, trace.all.filter { ["E", "X"].contains($0) })
        }
        #expect(results == [true, true, true, true])
        // Each run that began has ended.
        #expect(trace.filter { $0 == "E" }.count == 6)
        #expect(trace.filter { $0 == "X" }.count == 6)
    }

    @Test("The loop's thread may end before a foreign run of it that another thread lets go of: S-FRN-11")
    func releasedAfterItsThread() {
        let rounds = (0..<20).map { _ in
            onNewThread { () -> Bool in
                nonisolated(unsafe) var run: RunLoop.ForeignRun?
                TestThread {
                    run = try? RunLoop.ForeignRun()
                    run?.prepare()
                }.join()
                let isValid = run?.isValid
                TestThread { run = nil }.join()
                return isValid == false
            }
        }
        #expect(!rounds.contains(false))
    }

    @Test("Nothing is left of a loop whose thread ends without another run after its foreign run was released elsewhere: S-FRN-11")
    func releasedBeforeTheEnd() {
        final class Kept: Sendable {}
        let isLeft = (0..<20).map { _ in
            onNewThread { () -> Bool in
                nonisolated(unsafe) weak var kept: Kept?
                TestThread {
                    nonisolated(unsafe) var run = try? RunLoop.ForeignRun()
                    run?.prepare()
                    let object = Kept()
                    kept = object
                    // A loop lets go of what nobody runs when it goes itself.
                    RunLoop.current.perform(inModes: [RunLoop.Mode("nobody runs it")]) { withExtendedLifetime(object) {} }
                    TestThread { run = nil }.join()
                }.join()
                return kept != nil
            }
        }
        #expect(!isLeft.contains(true))
    }

    @Test("The loop's thread may find the foreign run that another thread lets go of, and end, in any step of that: S-FRN-11")
    func releasedWhileItsThreadEnds() {
        // A number in place of a reference: what is there is the thread's that takes it.
        let given = Atomic<UInt>(0)
        let isOver = Atomic<Bool>(false)
        let releaser = TestThread {
            while !isOver.load(ordering: .acquiring) {
                let address = given.exchange(0, ordering: .acquiringAndReleasing)
                guard let run = UnsafeRawPointer(bitPattern: address) else {
                    sched_yield()
                    continue
                }
                Unmanaged<RunLoop.ForeignRun>.fromOpaque(run).release()
            }
        }
        let rounds = scaled(8000)
        let made = (0..<rounds).filter { _ in
            onNewThread { () -> Bool in
                // No variable of this thread's holds it afterwards.
                func make() -> UInt? {
                    (try? RunLoop.ForeignRun()).map { UInt(bitPattern: Unmanaged.passRetained($0).toOpaque()) }
                }
                guard let address = make() else { return false }
                given.store(address, ordering: .releasing)
                // As soon as that is released there is room for another one.
                while true {
                    if let next = try? RunLoop.ForeignRun() {
                        next.invalidate()
                        return true
                    }
                }
            }
        }
        isOver.store(true, ordering: .releasing)
        releaser.join()
        #expect(made.count == rounds)
    }

    @Test("A loop has one foreign run at a time; letting go of it ends it: S-FRN-10, S-FRN-12")
    func one() {
        let codes = onNewThread { () -> [CInt] in
            func code(_ mode: RunLoop.Mode) -> CInt {
                do throws(RunLoop.SystemError) { _ = try RunLoop.ForeignRun(mode: mode) } catch { return error.code }
                return 0
            }
            var codes: [CInt] = []
            do {
                let run = try! RunLoop.ForeignRun()
                codes.append(code(.default))
                withExtendedLifetime(run) {}
            }
            codes.append(code(.default))
            codes.append(code(.common))
            return codes
        }
        #expect(codes == [EBUSY, 0, EINVAL])
    }
}
