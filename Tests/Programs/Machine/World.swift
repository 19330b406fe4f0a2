// SPDX-License-Identifier: MIT
// What a program has: loops, actors, a clock, and what is kept until it is dropped.
import Glibc
import RunLoopKit
import Synchronization

/// A loop of a program, and what is known of it.
final class Place: Sendable {
    let number: Int
    /// A loop whose thread has ended keeps what is in it and was queued for it as long as that leads to the loop (S-LOOP-9, S-LOOP-10), so this
    /// one lets go of the loop.
    private let knownLoop: Mutex<RunLoop?>
    var loop: RunLoop { knownLoop.withLock { $0! } }
    /// Nil for the main loop.
    let thread: Mutex<RunLoopThread?>
    private let weakThread: WeakThread?
    let identity: pthread_t
    /// Set before the first call that ends the thread.
    let endIsRequested = Atomic(false)
    /// Set before the first call that ends the thread without what is queued.
    let dropsRest = Atomic(false)
    /// Set when the wait for the thread's end has returned.
    let isGone = Atomic(false)
    private let jobs = Atomic(0)
    private let sections = Atomic(0)
    private let owners = Mutex<[Owner]>([])
    let mayNest: Bool

    /// An object, because the compiler copies a weak property of a structure wrongly.
    private final class WeakThread: @unchecked Sendable {
        weak var thread: RunLoopThread?
        init(_ thread: RunLoopThread) { self.thread = thread }
    }

    init(_ number: Int, _ loop: RunLoop, _ thread: RunLoopThread?, _ identity: pthread_t, mayNest: Bool) {
        self.number = number
        knownLoop = Mutex(loop)
        self.thread = Mutex(thread)
        self.identity = identity
        self.mayNest = mayNest
        weakThread = thread.map { WeakThread($0) }
    }

    var isOn: Bool { pthread_self() == identity && !isGone.load(ordering: .acquiring) }

    var isMain: Bool { weakThread == nil }

    /// The thread's object as long as anybody keeps it.
    var anyThread: RunLoopThread? { weakThread?.thread }

    func setOwners(_ actors: [Owner]) { owners.withLock { $0 = actors } }

    /// At the end of the program.
    func forget() {
        let former = (owners.withLock { $0 }, knownLoop.withLock { $0 }, thread.withLock { $0 })
        owners.withLock { $0 = [] }
        knownLoop.withLock { $0 = nil }
        thread.withLock { $0 = nil }
        withExtendedLifetime(former) {}
    }

    var actors: [Owner] { owners.withLock { $0 } }

    // MARK: - Isolation

    /// In a closure that the loop calls.
    func checkClosure(_ name: @autoclosure () -> String) {
        check(pthread_self() == identity, "\(name()): not on the thread of loop \(number)")
        check(!isGone.load(ordering: .acquiring), "\(name()): called after the end of loop \(number)")
        // The program stops here if it does not hold.
        for actor in actors { actor.assumeIsolated { $0.count() } }
    }

    /// In a job of an actor of the loop, or of a task that prefers it: on its thread while that lives, and alone.
    func section(_ name: @autoclosure () -> String) {
        let before = jobs.exchange(1, ordering: .acquiringAndReleasing)
        check(before == 0, "\(name()): two jobs of loop \(number) at once")
        if !isOn {
            check(endIsRequested.load(ordering: .acquiring), "\(name()): a job of loop \(number) on another thread")
            let thread = anyThread
            check(thread?.isFinished ?? true, "\(name()): a job of loop \(number) on another thread, before its own has finished")
        }
        // Now and then for as long as others want the processor.
        if sections.add(1, ordering: .relaxed).newValue % 16 == 0 { sched_yield() } else { compute(microseconds: 1) }
        jobs.store(0, ordering: .releasing)
    }

    // MARK: - End

    func end(_ ending: Ending) async {
        guard let thread = anyThread else { return }
        if ending == .cancel { dropsRest.store(true, ordering: .sequentiallyConsistent) }
        endIsRequested.store(true, ordering: .sequentiallyConsistent)
        switch ending {
        case .stop, .exit: thread.stop()
        case .cancel: thread.cancel()
        case .finish:
            await thread.finish()
            if !isOn {
                check(thread.isFinished && !thread.isExecuting, "loop \(number): not finished after finish()")
                isGone.store(true, ordering: .releasing)
            }
        }
    }
}

/// An actor on a loop's thread.
actor Owner {
    nonisolated let place: Place
    private nonisolated let executor: RunLoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    private let token = Token()
    private(set) var calls = 0
    private var isBusy = false

    init(_ place: Place) {
        self.place = place
        executor = place.loop.executor
    }

    func count() {
        check(!isBusy, "two jobs of one actor at once")
        isBusy = true
        calls += 1
        isBusy = false
    }

    func section() {
        place.section("an actor")
        count()
    }

    func execute(_ steps: [Step], in world: World, _ context: Context) async { await world.execute(steps, context) }

    /// Calls the other one, which calls back.
    func visit(_ other: Owner, depth: Int) async {
        section()
        if depth > 0 { await other.visit(self, depth: depth - 1) }
        section()
    }

    /// An ordinary function of a job that runs the loop: what other jobs there are waits.
    func runLoop() {
        let before = calls
        place.runBriefly()
        _ = before
        section()
    }
}

extension Place {
    /// Runs the loop for a moment, if this is its thread.
    func runBriefly() {
        if isOn { loop.run(mode: .default, for: .microseconds(300)) }
    }
}

/// Where a list of steps is executed.
struct Context: Sendable {
    let trail: Trail
    var owner: Owner?
    var preferred: Place?

    /// Between two awaits.
    func section(_ name: String) {
        if let owner {
            owner.assumeIsolatedOrElsewhere(name)
        } else {
            preferred?.section(name)
        }
    }
}

extension Owner {
    nonisolated func assumeIsolatedOrElsewhere(_ name: String) {
        place.section(name)
        if place.isOn { assumeIsolated { $0.count() } }
    }
}

/// What the steps of a program use.
final class World: Sendable {
    let program: Program
    let places: [Place]
    let owners: [Owner]
    let clock: TestClock
    let centre = NotificationCenter()
    let lock = NSLock()
    /// Guarded by the lock.
    let locked = Counter()
    let isPlanted: Bool
    fileprivate let isPlantTaken = Atomic(false)
    let mayEnd: [Bool]
    private let entries = Mutex<[Entry]>([])
    private let trails = Mutex<[Trail]>([])
    private let watched: Mutex<[Watched]>
    private let tasks = Mutex<[Task<Void, Never>]>([])
    private let kept = Mutex<[any Sendable]>([])
    /// What is called at the end.
    private let endings = Mutex<[@Sendable () -> Void]>([])
    /// What comes some time, if the loop's thread does not end before.
    private let expected = Mutex<[(name: String, place: Place, isThere: @Sendable () -> Bool)]>([])

    final class Counter: @unchecked Sendable {
        var value = 0
    }

    init(_ program: Program, _ places: [Place], _ clock: TestClock, isPlanted: Bool) {
        self.program = program
        self.places = places
        self.clock = clock
        self.isPlanted = isPlanted
        mayEnd = program.mayEnd
        owners = places.flatMap { [Owner($0), Owner($0)] }
        var watched = [Watched("the clock", clock), Watched("the centre", centre), Watched("the lock", lock)]
        for place in places {
            place.setOwners([owners[2 * place.number], owners[2 * place.number + 1]])
            guard let thread = place.anyThread else { continue }
            watched.append(Watched("thread \(place.number)", thread))
            watched.append(Watched("the loop of thread \(place.number)", place.loop))
            watched.append(Watched("the executor of thread \(place.number)", place.loop.executor))
        }
        for (number, owner) in owners.enumerated() { watched.append(Watched("actor \(number)", owner)) }
        self.watched = Mutex(watched)
    }

    // MARK: - Notes

    func entry(_ name: String, _ bounds: ClosedRange<Int> = 0...1) -> Entry {
        let entry = Entry(name, bounds)
        entries.withLock { $0.append(entry) }
        return entry
    }

    func trail(_ name: String) -> Trail {
        let trail = Trail(name)
        trails.withLock { $0.append(trail) }
        return trail
    }

    @discardableResult
    func watch(_ name: String, _ object: any AnyObject & Sendable) -> Watched {
        let new = Watched(name, object)
        watched.withLock { $0.append(new) }
        return new
    }

    func keep(_ object: any Sendable) { kept.withLock { $0.append(object) } }

    func drop() {
        let dropped = kept.withLock { kept in
            defer { kept = [] }
            return kept
        }
        withExtendedLifetime(dropped) {}
    }

    func atEnd(_ ending: @escaping @Sendable () -> Void) { endings.withLock { $0.append(ending) } }

    func expect(_ name: String, on place: Place, _ isThere: @escaping @Sendable () -> Bool) {
        expected.withLock { $0.append((name, place, isThere)) }
    }

    func setTasks(_ all: [Task<Void, Never>]) { tasks.withLock { $0 = all } }

    func cancelTask(_ number: Int) {
        let all = tasks.withLock { $0 }
        if number < all.count { all[number].cancel() }
    }

    var placesOfTasks: [String] { trails.withLock { $0 }.map(\.text) }

    /// What has not come yet of what loops owe that have not been told to end.
    var outstanding: [String] {
        expected.withLock { $0 }.filter { !$0.place.endIsRequested.load(ordering: .acquiring) && !$0.isThere() }.map(\.name)
    }

    // MARK: - End

    /// When all tasks have ended and what loops owe has come: ends the threads.
    func end() async {
        for place in places where place.number < program.threads.count {
            if !place.endIsRequested.load(ordering: .acquiring) {
                check(place.anyThread != nil, "loop \(place.number): the thread executes and has no object (S-THREAD-6)")
            }
            await place.end(.finish)
        }
        for ending in endings.withLock({ $0 }) { ending() }
        endings.withLock { $0 = [] }
        expected.withLock { $0 = [] }
        drop()
        setTasks([])
        // Only the main loop may still have some of what need not come.
        if program.hasMain { try? await places[places.count - 1].loop.call {} }
        for entry in entries.withLock({ $0 }) { entry.verify() }
        for place in places { place.forget() }
    }

    /// What has to be gone when this object is.
    var allWatched: [Watched] { watched.withLock { $0 } }
}

extension World {
    /// Whether the caller is to leave out what it has to do: the first one of a program.
    func takePlant() -> Bool { !isPlantTaken.exchange(true, ordering: .relaxed) }
}
