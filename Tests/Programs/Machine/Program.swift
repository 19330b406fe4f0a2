// SPDX-License-Identifier: MIT
// What a program of the machine is. Loops, actors and tasks are numbers: the threads' loops come first, then the main loop if it takes part;
// each loop has two actors.

/// How the closure of a queued call is queued.
enum Form: CaseIterable, Sendable {
    /// `perform(_:)`, for the default mode.
    case function
    /// `perform(inModes:block:)`, for the common modes.
    case common
    /// `perform(waitUntilDone:inModes:block:)` that does not wait.
    case request
    /// `perform(order:inModes:block:)`.
    case ordered
}

/// What an awaited closure does.
enum Body: CaseIterable, Sendable {
    case returns
    case fails
    /// Queues another closure for its own loop.
    case performs
    /// Runs its own loop for a moment.
    case runs
    /// Keeps its thread for a moment.
    case computes
}

enum Ending: CaseIterable, Sendable {
    case stop, cancel, finish
    /// `pthread_exit` in an awaited closure.
    case exit
}

indirect enum Step: Sendable {
    case call(Int, Body)
    case perform(Int, Form)
    case performAndWait(Int)
    case performLater(Int)
    /// So many tasks that prefer the loop, made one after the other, and with each third a queued closure; then the thread may be told to end.
    case burst(Int, count: Int, ending: Ending?)
    case onActor(Int, [Step])
    /// The first actor calls the second, which calls the first.
    case visit(Int, Int)
    /// An ordinary function of a job runs the loop, while the job is on the stack.
    case runInJob(Int)
    case prefer(Int, [Step])
    case group([[Step]])
    case sleep(microseconds: Int)
    /// By the class's own method, or by the one of all clocks.
    case sleepByClock(microseconds: Int, isGeneric: Bool)
    case mainActor
    case advance(microseconds: Int)
    case ticks(Int, count: Int)
    case ticksByClock(Int, count: Int)
    case readiness(Int, count: Int)
    case signals(Int, count: Int)
    case ask(Int, answerOn: Int, bytes: Int)
    case machMessages(Int, count: Int)
    case notify(Int, count: Int)
    case enqueueNotifications(Int, count: Int, whenIdle: Bool)
    case lock(Int)
    case awaitCondition(Int)
    case timer(Int, count: Int)
    case source(Int, isKept: Bool)
    /// Lets go of what was kept.
    case drop
    /// Lets go of the thread's object.
    case dropThread(Int)
    case stopRun(Int)
    case cancelTask(Int)
    case end(Int, Ending)
    case compute(microseconds: Int)
    case yield
}

/// Something that happens beside the tasks.
struct Disturbance: Sendable {
    let microseconds: Int
    let step: Step
}

enum ThreadKind: CaseIterable, Sendable {
    /// Without a body.
    case plain
    case body
    /// Its body runs two common modes by turns, a moment each.
    case twoModes
    /// Its loop goes by the test clock.
    case clock
}

/// Where a task begins.
enum Start: Sendable {
    case anywhere
    case preferring(Int)
    case onActor(Int)
}

struct Program: Sendable {
    let seed: UInt64
    var threads: [ThreadKind] = []
    var hasMain = false
    var isClockAutomatic = false
    var tasks: [(start: Start, steps: [Step])] = []
    var disturbances: [Disturbance] = []

    var loopCount: Int { threads.count + (hasMain ? 1 : 0) }

    /// The loops whose threads the program may end.
    var mayEnd: [Bool] {
        var result = Array(repeating: false, count: loopCount)
        visit { step in
            switch step {
            case .end(let loop, _), .burst(let loop, _, .some): result[loop] = true
            default: break
            }
        }
        return result
    }

    /// The threads of which only the library's frames may be on the stack.
    var exits: [Bool] {
        var result = Array(repeating: false, count: threads.count)
        visit { if case .end(let loop, .exit) = $0 { result[loop] = true } }
        return result
    }

    /// The loops that may be run inside a callback: what is queued then comes before what the outer run has taken (S-BLK-15).
    var mayNest: [Bool] {
        var result = Array(repeating: false, count: loopCount)
        visit { step in
            switch step {
            case .call(let loop, .runs), .runInJob(let loop), .lock(let loop), .awaitCondition(let loop): result[loop] = true
            default: break
            }
        }
        return result
    }

    private func visit(_ body: (Step) -> Void) {
        func visit(_ steps: [Step]) {
            for step in steps {
                body(step)
                switch step {
                case .onActor(_, let inner), .prefer(_, let inner): visit(inner)
                case .group(let lists): for list in lists { visit(list) }
                default: break
                }
            }
        }
        for task in tasks { visit(task.steps) }
        visit(disturbances.map(\.step))
    }

    /// The list of steps.
    var text: String {
        var lines = ["seed \(seed), threads \(threads.map { "\($0)" }.joined(separator: " "))\(hasMain ? ", the main loop" : "")\(isClockAutomatic ? ", automatic clock" : "")"]
        func add(_ steps: [Step], _ indent: String) {
            for step in steps {
                switch step {
                case .onActor(let actor, let inner):
                    lines.append("\(indent)on actor \(actor)")
                    add(inner, indent + "    ")
                case .prefer(let loop, let inner):
                    lines.append("\(indent)prefer loop \(loop)")
                    add(inner, indent + "    ")
                case .group(let lists):
                    for (number, list) in lists.enumerated() {
                        lines.append("\(indent)child \(number)")
                        add(list, indent + "    ")
                    }
                default: lines.append(indent + step.name)
                }
            }
        }
        for (number, task) in tasks.enumerated() {
            lines.append("task \(number), \(task.start)")
            add(task.steps, "    ")
        }
        for disturbance in disturbances { lines.append("after \(disturbance.microseconds) us: \(disturbance.step.name)") }
        return lines.joined(separator: "\n")
    }
}

extension Step {
    /// Without what it contains.
    var name: String {
        switch self {
        case .onActor(let actor, _): "on actor \(actor)"
        case .prefer(let loop, _): "prefer loop \(loop)"
        case .group(let lists): "group of \(lists.count)"
        default: "\(self)".replacing("RunLoopTestMachine.", "")
        }
    }
}

extension String {
    fileprivate func replacing(_ part: String, _ other: String) -> String {
        var result = ""
        var rest = self[...]
        while !rest.isEmpty {
            if rest.hasPrefix(part) {
                result += other
                rest = rest.dropFirst(part.count)
            } else {
                result.append(rest.removeFirst())
            }
        }
        return result
    }
}
