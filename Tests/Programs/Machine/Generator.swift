// SPDX-License-Identifier: MIT
// How a seed becomes a program.

/// SplitMix64.
struct Random: RandomNumberGenerator {
    private var state: UInt64

    /// Seeds that follow each other give no streams that overlap.
    init(seed: UInt64) {
        state = seed
        state = next()
    }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &self) }
    mutating func isOne(of chances: Int) -> Bool { below(chances) == 0 }
}

struct Generator {
    private var random: Random
    private var program: Program
    private var taskCount = 0
    /// What a frame that `pthread_exit` leaves owned stays for ever, so such programs run no loop inside a callback, and
    /// their threads have no body.
    private var hasExit = false

    private init(seed: UInt64) {
        random = Random(seed: seed)
        program = Program(seed: seed)
    }

    static func program(seed: UInt64) -> Program {
        var generator = Generator(seed: seed)
        return generator.make()
    }

    private mutating func make() -> Program {
        program.threads = (0..<(1 + random.below(3))).map { _ in ThreadKind.allCases.randomElement(using: &random)! }
        program.hasMain = random.isOne(of: 3)
        program.isClockAutomatic = random.isOne(of: 4)
        hasExit = random.isOne(of: 6)
        taskCount = 1 + random.below(5)
        for _ in 0..<taskCount {
            let start: Start =
                switch random.below(3) {
                case 0: .preferring(loop())
                case 1: .onActor(actor())
                default: .anywhere
                }
            program.tasks.append((start, steps(1 + random.below(8), depth: 0)))
        }
        for _ in 0..<random.below(4) {
            let step: Step =
                switch random.below(4) {
                case 0, 1: .cancelTask(random.below(taskCount))
                case 2: ending()
                default: .stopRun(loop())
                }
            program.disturbances.append(Disturbance(microseconds: random.below(random.isOne(of: 2) ? 300 : 3000), step: step))
        }
        for loop in program.exits.indices where program.exits[loop] { program.threads[loop] = .plain }
        return program
    }

    private mutating func loop() -> Int { random.below(program.loopCount) }
    private mutating func actor() -> Int { random.below(2 * program.loopCount) }

    private mutating func steps(_ count: Int, depth: Int) -> [Step] {
        var steps: [Step] = []
        for _ in 0..<count { steps.append(step(depth: depth)) }
        return steps
    }

    /// Threads that end early make short programs: they are rare among the steps.
    private mutating func ending() -> Step {
        let kind: Ending = hasExit && random.isOne(of: 2) ? .exit : [.stop, .cancel, .finish].randomElement(using: &random)!
        return .end(random.below(program.threads.count), kind)
    }

    private mutating func burst() -> Step {
        let loop = loop()
        let ends = loop < program.threads.count && random.isOne(of: 4)
        // More than a drain does at once, or not.
        let count = 1 + random.below(random.isOne(of: ends ? 2 : 8) ? 150 : 8)
        return .burst(loop, count: count, ending: ends ? [.stop, .stop, .cancel].randomElement(using: &random)! : nil)
    }

    private mutating func step(depth: Int) -> Step {
        switch random.below(depth < 3 ? 40 : 34) {
        case 0...3:
            let body = Body.allCases.randomElement(using: &random)!
            return .call(loop(), hasExit && body == .runs ? .returns : body)
        case 4...7: return .perform(loop(), Form.allCases.randomElement(using: &random)!)
        case 8: return .performAndWait(loop())
        case 9: return .performLater(loop())
        case 10: return burst()
        case 11, 12: return .visit(actor(), actor())
        case 13: return hasExit ? .yield : .runInJob(loop())
        case 14: return .sleep(microseconds: random.below(500))
        case 15, 16: return .sleepByClock(microseconds: random.below(2000), isGeneric: random.isOne(of: 3))
        case 17: return .advance(microseconds: random.below(3000))
        case 18: return .ticks(loop(), count: 1 + random.below(3))
        case 19: return .ticksByClock(loop(), count: 1 + random.below(3))
        case 20: return .readiness(loop(), count: 1 + random.below(3))
        case 21: return .signals(loop(), count: 1 + random.below(2))
        case 22, 23: return .ask(loop(), answerOn: loop(), bytes: random.isOne(of: 6) ? 40000 : random.below(100))
        case 24: return .machMessages(loop(), count: 1 + random.below(4))
        case 25: return .notify(loop(), count: 1 + random.below(3))
        case 26: return .enqueueNotifications(loop(), count: 1 + random.below(3), whenIdle: random.isOne(of: 2))
        case 27: return hasExit ? .yield : random.isOne(of: 2) ? .lock(loop()) : .awaitCondition(loop())
        case 28: return .timer(loop(), count: 1 + random.below(3))
        case 29: return .source(loop(), isKept: random.isOne(of: 2))
        case 30:
            switch random.below(4) {
            case 0: return .drop
            case 1: return .dropThread(random.below(program.threads.count))
            case 2: return .stopRun(loop())
            default: return .cancelTask(random.below(taskCount))
            }
        case 31: return random.isOne(of: 2) ? ending() : .yield
        case 32: return .compute(microseconds: random.below(200))
        case 33: return random.isOne(of: 2) ? .yield : .mainActor
        case 34...36: return .onActor(actor(), steps(1 + random.below(4), depth: depth + 1))
        case 37, 38: return .prefer(loop(), steps(1 + random.below(4), depth: depth + 1))
        default:
            var lists: [[Step]] = []
            for _ in 0..<(1 + random.below(3)) { lists.append(steps(1 + random.below(3), depth: depth + 1)) }
            return .group(lists)
        }
    }
}
