// SPDX-License-Identifier: MIT
// How a program that fails becomes smaller: whatever can be left out is left out.

extension Program {
    /// The programs that lack one part of this one, the larger parts first.
    var smaller: [Program] {
        var programs: [Program] = []
        for number in tasks.indices where !tasks[number].steps.isEmpty {
            var other = self
            other.tasks[number].steps = []
            programs.append(other)
        }
        for number in disturbances.indices {
            var other = self
            other.disturbances.remove(at: number)
            programs.append(other)
        }
        for number in tasks.indices {
            for steps in Program.smaller(tasks[number].steps) {
                var other = self
                other.tasks[number].steps = steps
                programs.append(other)
            }
            if case .anywhere = tasks[number].start { continue }
            var other = self
            other.tasks[number].start = .anywhere
            programs.append(other)
        }
        for number in threads.indices where threads[number] != .plain {
            var other = self
            other.threads[number] = .plain
            programs.append(other)
        }
        if isClockAutomatic {
            var other = self
            other.isClockAutomatic = false
            programs.append(other)
        }
        return programs
    }

    private static func smaller(_ steps: [Step]) -> [[Step]] {
        var lists: [[Step]] = []
        for index in steps.indices {
            func replaced(by others: [Step]) -> [Step] { Array(steps[..<index] + others + steps[(index + 1)...]) }
            lists.append(replaced(by: []))
            switch steps[index] {
            case .onActor(let actor, let inner):
                lists.append(replaced(by: inner))
                for less in smaller(inner) { lists.append(replaced(by: [.onActor(actor, less)])) }
            case .prefer(let loop, let inner):
                lists.append(replaced(by: inner))
                for less in smaller(inner) { lists.append(replaced(by: [.prefer(loop, less)])) }
            case .group(let inner):
                lists.append(replaced(by: inner.flatMap { $0 }))
                for number in inner.indices {
                    var without = inner
                    without.remove(at: number)
                    lists.append(replaced(by: [.group(without)]))
                    for less in smaller(inner[number]) {
                        var other = inner
                        other[number] = less
                        lists.append(replaced(by: [.group(other)]))
                    }
                }
            default: break
            }
        }
        return lists
    }
}

extension Machine {
    /// The smallest program found that still fails in one of some runs, and what was wrong then.
    mutating func shrunk(_ program: Program, _ wrong: [String]) async -> (Program, [String]) {
        var (best, wrong) = (program, wrong)
        patience = .milliseconds(1500)
        defer { patience = Machine.longPatience }
        search: while true {
            for candidate in best.smaller {
                for _ in 0..<20 {
                    let found = await run(candidate)
                    if found.isEmpty { continue }
                    (best, wrong) = (candidate, found)
                    continue search
                }
            }
            return (best, wrong)
        }
    }
}
