// SPDX-License-Identifier: MIT
// The steps: what is awaited on loops and actors. Objects of loops are in Items.swift.
import Glibc
import RunLoopKit
import Synchronization

/// What a closure throws.
struct Failure: Error {}

/// Keeps the thread.
func compute(microseconds: Int) {
    let limit = ContinuousClock.now + .microseconds(microseconds)
    while ContinuousClock.now < limit {}
}

extension World {
    func execute(_ steps: [Step], _ context: Context, isolation: isolated (any Actor)? = #isolation) async {
        for (number, step) in steps.enumerated() {
            let name = "\(context.trail.name), step \(number), \(step.name)"
            context.trail.note("step \(number), \(step.name)")
            context.section(name)
            await execute(step, name, context)
            context.section(name)
        }
        context.trail.note("over")
    }

    private func execute(_ step: Step, _ name: String, _ context: Context, isolation: isolated (any Actor)? = #isolation) async {
        switch step {
        case .call(let loop, let body): await call(places[loop], body, name)
        case .perform(let loop, let form): perform(form, on: places[loop], name, context.trail)
        case .performAndWait(let loop): await performAndWait(on: places[loop], name)
        case .performLater(let loop): performLater(on: places[loop], name)
        case .burst(let loop, let count, let ending): await burst(count, on: places[loop], ending, name, context.trail)
        case .onActor(let actor, let inner):
            let owner = owners[actor]
            await owner.execute(inner, in: self, Context(trail: context.trail, owner: owner))
        case .visit(let first, let second): await owners[first].visit(owners[second], depth: 3)
        case .runInJob(let loop): await owners[2 * loop].runLoop()
        case .prefer(let loop, let inner):
            let place = places[loop]
            await withTaskExecutorPreference(place.loop.executor) {
                await self.execute(inner, Context(trail: context.trail, preferred: place), isolation: nil)
            }
        case .group(let lists):
            await withDiscardingTaskGroup { group in
                for (number, list) in lists.enumerated() {
                    let child = Context(trail: self.trail("\(context.trail.name).\(number)"), preferred: nil)
                    group.addTask { await self.execute(list, child, isolation: nil) }
                }
            }
        case .sleep(let microseconds):
            do { try await Task.sleep(for: .microseconds(microseconds)) } catch { check(Task.isCancelled, "\(name): \(error)") }
        case .sleepByClock(let microseconds, let isGeneric): await sleepByClock(microseconds, isGeneric, name)
        case .mainActor:
            await MainActor.run { check(pthread_self() == mainThread, "\(name): not on the main thread") }
        case .advance(let microseconds): clock.advance(by: .microseconds(microseconds))
        case .ticks(let loop, let count): await ticks(count, on: places[loop], name)
        case .ticksByClock(let loop, let count): await ticksByClock(count, on: places[loop], name)
        case .readiness(let loop, let count): await readiness(count, on: places[loop], name)
        case .signals(let loop, let count): await signals(count, on: places[loop], name)
        case .ask(let loop, let other, let bytes): await ask(places[loop], answerOn: places[other], bytes: bytes, name)
        case .machMessages(let loop, let count): machMessages(count, to: places[loop], name)
        case .notify(let loop, let count): notify(count, on: places[loop], name)
        case .enqueueNotifications(let loop, let count, let whenIdle):
            await enqueueNotifications(count, on: places[loop], whenIdle: whenIdle, name)
        case .lock(let loop): await useLock(on: places[loop], name)
        case .awaitCondition(let loop): await awaitCondition(on: places[loop], name)
        case .timer(let loop, let count): addTimer(count, on: places[loop], name)
        case .source(let loop, let isKept): addSource(on: places[loop], isKept: isKept, name)
        case .drop: drop()
        case .dropThread(let loop):
            let thread = places[loop].thread.withLock { $0.take() }
            withExtendedLifetime(thread) {}
        case .stopRun(let loop): places[loop].loop.stop()
        case .cancelTask(let number): cancelTask(number)
        case .end(let loop, .exit): await exitThread(places[loop], name)
        case .end(let loop, let ending): await places[loop].end(ending)
        case .compute(let microseconds): compute(microseconds: microseconds)
        case .yield: await Task.yield()
        }
    }

    // MARK: - What is awaited

    /// Whether an error is one that the law has for the moment.
    func checkError(_ error: any Error, _ loops: [Place], _ name: String) {
        switch error {
        case is CancellationError: check(Task.isCancelled, "\(name): cancelled, and the task is not")
        case is RunLoop.ThreadEndedError:
            check(
                loops.contains { $0.endIsRequested.load(ordering: .acquiring) }, "\(name): the thread ended, and nobody told it to")
        default: check(false, "\(name): \(error)")
        }
    }

    private func call(_ place: Place, _ body: Body, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        let entry = entry(name)
        let token = Token()
        let wasCancelled = Task.isCancelled
        do {
            let value = try await place.loop.call { [self] in
                token.touch()
                entry.note()
                place.checkClosure(name)
                switch body {
                case .returns: break
                case .fails: throw Failure()
                case .performs: perform(.common, on: place, name + ", inside", trail(name))
                case .runs: place.runBriefly()
                case .computes: compute(microseconds: 50)
                }
                return 7
            }
            check(value == 7, "\(name): another value")
            check(!wasCancelled, "\(name): called though the task was cancelled before")
            entry.expect(1...1)
        } catch is Failure {
            check(body == .fails, "\(name): fails")
            entry.expect(1...1)
        } catch {
            checkError(error, [place], name)
            check(!wasCancelled || error is CancellationError, "\(name): \(error) though the task was cancelled before")
            entry.expect(0...0)
        }
    }

    private func exitThread(_ place: Place, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        // The frames of the closure own nothing: nobody comes back to them.
        let unmanaged = Unmanaged.passUnretained(place)
        let number = place.number
        do {
            try await place.loop.call {
                Place.markExit(unmanaged)
                pthread_exit(nil)
            }
            check(false, "\(name): returned from loop \(number)")
        } catch {
            checkError(error, [place], name)
        }
    }

    func perform(_ form: Form, on place: Place, _ name: String, _ trail: Trail) {
        let entry = entry(name)
        let token = Token()
        let order = trail.order("\(form) \(place.number)")
        let number = order.next()
        let closure: @Sendable () -> Void = {
            token.touch()
            entry.note()
            place.checkClosure(name)
            if !place.mayNest { order.arrive(number, name) }
        }
        if isPlanted && takePlant() {
            // What the machine has to find.
        } else {
            queue(closure, form, on: place)
        }
        if place.isMain { return expect(name, on: place) { entry.count == 1 } }
        // What was queued before the first call that ends the thread is performed, unless the thread drops it (S-THREAD-5).
        if !place.endIsRequested.load(ordering: .sequentiallyConsistent) {
            atEnd { entry.expect(place.dropsRest.load(ordering: .acquiring) ? 0...1 : 1...1) }
        }
    }

    private func queue(_ closure: @escaping @Sendable () -> Void, _ form: Form, on place: Place) {
        switch form {
        case .function:
            place.loop.perform(closure)
            place.loop.wakeUp()
        case .common:
            place.loop.perform(inModes: [.common], block: closure)
            place.loop.wakeUp()
        case .request: place.loop.perform(waitUntilDone: false, inModes: [.common], block: closure)
        case .ordered: place.loop.perform(order: 3, inModes: [.default], block: closure)
        }
    }

    private func performAndWait(on place: Place, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        let entry = entry(name)
        let token = Token()
        let isDone: Bool? = await withCheckedContinuation { continuation in
            let isMade = RunLoop.performInBackground {
                let isDone = place.loop.perform(waitUntilDone: true) {
                    token.touch()
                    entry.note()
                    place.checkClosure(name)
                }
                continuation.resume(returning: isDone)
            }
            if !isMade { continuation.resume(returning: nil) }
        }
        guard let isDone else { return entry.expect(0...0) }
        entry.expect(isDone ? 1...1 : 0...0)
        if !isDone { check(place.endIsRequested.load(ordering: .acquiring), "\(name): not called") }
    }

    /// A delayed one, which its own loop makes.
    private func performLater(on place: Place, _ name: String) {
        let entry = entry(name)
        let token = Token()
        place.loop.perform {
            RunLoop.perform(afterDelay: .microseconds(100)) {
                token.touch()
                entry.note()
                place.checkClosure(name)
            }
        }
        place.loop.wakeUp()
        expect(name, on: place) { entry.count == 1 }
    }

    private func burst(
        _ count: Int, on place: Place, _ ending: Ending?, _ name: String, _ trail: Trail, isolation: isolated (any Actor)? = #isolation
    ) async {
        let order = Order()
        var tasks: [Task<Void, Never>] = []
        if ending != nil { place.loop.perform(waitsFor: 200) }
        for number in 1...count {
            let token = Token()
            // What was queued before the first call that ends the thread is done there, unless the thread drops it (S-NEST-8).
            let early = Early()
            tasks.append(
                Task.detached(executorPreference: place.loop.executor) {
                    token.touch()
                    place.section(name)
                    early.arrive(place, name)
                    order.arrive(number, name)
                })
            early.note(place)
            if number % 3 == 0 { perform(Form.allCases[number / 3 % 4], on: place, name, trail) }
        }
        if let ending { await place.end(ending) }
        for task in tasks { await task.value }
    }

    private func sleepByClock(_ microseconds: Int, _ isGeneric: Bool, _ name: String, isolation: isolated (any Actor)? = #isolation) async {
        let deadline = clock.now.advanced(by: .microseconds(microseconds))
        do {
            if isGeneric { try await Task.sleep(until: deadline, clock: clock) } else { try await clock.sleep(until: deadline) }
            // The generic one sleeps by the clock's time elsewhere, which a loop may not have reached (S-CLK-13).
            if !isGeneric || !places.contains(where: { $0.isOn }) { check(clock.now >= deadline, "\(name): too early") }
        } catch {
            checkError(error, places, name)
        }
    }
}

extension RunLoop {
    /// Keeps the thread for so many microseconds.
    fileprivate func perform(waitsFor microseconds: Int) {
        let token = Token()
        perform {
            token.touch()
            compute(microseconds: microseconds)
        }
        wakeUp()
    }
}

extension Place {
    static func markExit(_ place: Unmanaged<Place>) {
        place._withUnsafeGuaranteedRef { place in
            place.dropsRest.store(true, ordering: .sequentiallyConsistent)
            place.endIsRequested.store(true, ordering: .sequentiallyConsistent)
        }
    }
}
