// SPDX-License-Identifier: MIT
// Runs a program, and sees to it that nothing of it is left.
import Glibc
import RunLoopKit
import Synchronization

/// What runs now, for the watch.
struct Current {
    var program: Program?
    weak var world: World?
    var place = "between programs"
    var begin = ContinuousClock.now
}
let current = Mutex(Current())

private func note(_ place: String) { current.withLock { $0.place = place } }

/// The entries of a folder of the process.
private func count(_ folder: String) -> Int {
    guard let entries = opendir(folder) else { return 0 }
    defer { closedir(entries) }
    var count = -1
    while let entry = readdir(entries) { if entry.pointee.d_name.0 != 46 { count += 1 } }
    return count
}

/// Waits for what other threads let go of a moment later.
private func settle(_ text: String, for time: Duration, _ remains: () -> [String]) async {
    let limit = ContinuousClock.now + time
    var left = remains()
    while !left.isEmpty && ContinuousClock.now < limit {
        try? await Task.sleep(for: .microseconds(200))
        left = remains()
    }
    check(left.isEmpty, "\(text): \(left.prefix(5).joined(separator: "; "))")
}

struct Machine {
    static let longPatience = Duration.seconds(20)

    let isPlanted: Bool
    /// How long what other threads do may take when the program is over.
    var patience = Machine.longPatience
    /// What earlier programs have left.
    private var lost = 0
    /// The most of each that there was at first.
    private var descriptors = 0
    private var threads = 0
    private var programs = 0

    init(isPlanted: Bool) {
        self.isPlanted = isPlanted
        if isPlanted { patience = .seconds(2) }
    }

    /// What was wrong.
    mutating func run(_ program: Program) async -> [String] {
        current.withLock { current in
            current.program = program
            current.begin = .now
        }
        let watched = await execute(program)
        note("waits for objects to go")
        let lost = lost
        await settle("objects are left", for: patience) { watched.compactMap(\.remains) + (Token.living <= lost ? [] : ["\(Token.living - lost) closures"]) }
        self.lost = Token.living
        await checkCensus()
        current.withLock { $0.program = nil }
        return faults.withLock { faults in
            defer { faults = [] }
            return faults
        }
    }

    private func execute(_ program: Program) async -> [Watched] {
        note("makes the threads")
        let clock = TestClock()
        let mayNest = program.mayNest
        var places: [Place] = []
        for (number, kind) in program.threads.enumerated() {
            let thread = RunLoopThread(body: body(kind, clock))
            do { try thread.start() } catch { fatalError("no thread to be had") }
            let identity = Mutex<pthread_t>(0)
            try? await thread.loop.call { identity.withLock { $0 = pthread_self() } }
            places.append(Place(number, thread.loop, thread, identity.withLock { $0 }, mayNest: mayNest[number]))
        }
        if program.hasMain {
            places.append(Place(places.count, .main, nil, mainThread, mayNest: mayNest[places.count]))
        }
        let world = World(program, places, clock, isPlanted: isPlanted)
        current.withLock { $0.world = world }
        let mover = Task.detached {
            // No slower than the system's clock, by which the dates of some timers are made; by whole microseconds, because a loop takes less
            // than one for reached.
            var last = ContinuousClock.now
            while !Task.isCancelled {
                let now = ContinuousClock.now
                clock.advance(by: .microseconds(max((now - last) / .microseconds(1), 200).rounded()))
                last = now
                try? await Task.sleep(for: .microseconds(100))
            }
        }
        if program.isClockAutomatic { clock.setAutomatic(true) }
        await runTasks(of: world)
        note("waits for what loops owe")
        await settle("does not come", for: patience) { world.outstanding }
        note("ends the threads")
        await world.end()
        mover.cancel()
        await mover.value
        return world.allWatched
    }

    private func body(_ kind: ThreadKind, _ clock: TestClock) -> (@Sendable (RunLoopThread) -> Void)? {
        let token = Token()
        switch kind {
        case .plain: return nil
        case .body:
            return { thread in
                token.touch()
                while !thread.isEnding { RunLoop.current.run(mode: .default) }
            }
        case .twoModes:
            return { thread in
                token.touch()
                let mode = RunLoop.Mode("machine")
                RunLoop.current.addCommonMode(mode)
                while !thread.isEnding {
                    RunLoop.current.run(mode: mode, for: .microseconds(200))
                    RunLoop.current.run(mode: .default, for: .microseconds(200))
                }
            }
        case .clock:
            return { thread in
                token.touch()
                check(RunLoop.current.setClock(clock), "a loop does not take the clock")
                while !thread.isEnding { RunLoop.current.run(mode: .default) }
            }
        }
    }

    private func runTasks(of world: World) async {
        note("runs the tasks")
        let program = world.program
        var tasks: [Task<Void, Never>] = []
        for (number, plan) in program.tasks.enumerated() {
            let trail = world.trail("task \(number)")
            switch plan.start {
            case .anywhere:
                tasks.append(Task.detached { await world.execute(plan.steps, Context(trail: trail), isolation: nil) })
            case .preferring(let loop):
                let place = world.places[loop]
                tasks.append(
                    Task.detached(executorPreference: place.loop.executor) {
                        await world.execute(plan.steps, Context(trail: trail, preferred: place), isolation: nil)
                    })
            case .onActor(let actor):
                let owner = world.owners[actor]
                tasks.append(Task.detached { await owner.execute(plan.steps, in: world, Context(trail: trail, owner: owner)) })
            }
        }
        world.setTasks(tasks)
        let disturber = Task.detached {
            for disturbance in program.disturbances.sorted(by: { $0.microseconds < $1.microseconds }) {
                try? await Task.sleep(for: .microseconds(disturbance.microseconds))
                await world.execute([disturbance.step], Context(trail: world.trail("disturber")), isolation: nil)
            }
        }
        for task in tasks { await task.value }
        await disturber.value
    }

    /// Descriptors and threads do not become more.
    private mutating func checkCensus() async {
        programs += 1
        if programs <= 40 {
            (descriptors, threads) = (max(descriptors, count("/proc/self/fd")), max(threads, count("/proc/self/task")))
            return
        }
        note("waits for descriptors and threads to go")
        let (descriptors, threads) = (descriptors, threads)
        await settle("more than at first", for: patience) {
            let (nowDescriptors, nowThreads) = (count("/proc/self/fd"), count("/proc/self/task"))
            return (nowDescriptors > descriptors ? ["\(nowDescriptors) descriptors, \(descriptors) at first"] : [])
                + (nowThreads > threads + 2 ? ["\(nowThreads) threads, \(threads) at first"] : [])
        }
    }
}
