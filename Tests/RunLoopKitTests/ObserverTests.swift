// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

/// Observers made of a closure.
@Suite struct ObserverTests {
    @Test("An observer is called for its activities, one bit a call: S-OBS-1, S-OBS-18")
    func activities() {
        let (trace, observer) = onNewThread {
            let trace = Trace()
            RunLoop.current.keepAlive()
            let observer = RunLoop.Observer(activities: [.entry, .beforeSources, .exit], order: 7) { _, activity in
                trace.add(activity.letter)
            }
            RunLoop.current.add(observer, forMode: .default)
            RunLoop.current.run(mode: .default, for: .zero)
            return (trace.all, observer)
        }
        #expect(trace == ["E", "BS", "X"])
        #expect(observer.activities == [.entry, .beforeSources, .exit])
        #expect(observer.order == 7)
        #expect(observer.repeats)
    }

    @Test("Observers are called in the order of their numbers, then of addition: S-OBS-2")
    func order() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            RunLoop.current.keepAlive()
            for (order, name) in [(2, "c"), (1, "a"), (1, "b")] {
                let observer = RunLoop.Observer(activities: .entry, order: order) { _, _ in trace.add(name) }
                RunLoop.current.add(observer, forMode: .default)
            }
            RunLoop.current.run(mode: .default, for: .zero)
            return trace.all
        }
        #expect(trace == ["a", "b", "c"])
    }

    @Test("One that does not repeat is called once, valid inside and invalid after: S-OBS-7")
    func oneShot() {
        let (trace, observer, contained) = onNewThread {
            let trace = Trace()
            RunLoop.current.keepAlive()
            let observer = RunLoop.Observer(activities: .allActivities, repeats: false) { observer, activity in
                trace.add("\(activity.letter) \(observer.isValid)")
            }
            RunLoop.current.add(observer, forMode: .default)
            RunLoop.current.run(mode: .default, for: .zero)
            return (trace.all, observer, RunLoop.current.contains(observer, forMode: .default))
        }
        #expect(trace == ["E true"])
        #expect(!observer.isValid)
        #expect(!observer.repeats)
        #expect(!contained)
    }

    @Test("Invalidation releases the closure, also inside it; again it does nothing: S-OBS-15, S-OBS-16")
    func closureLife() {
        let canary = Canary()
        let deaths = onNewThread { () -> [Int] in
            RunLoop.current.keepAlive()
            let observer = makeObserver(capturing: canary)
            RunLoop.current.add(observer, forMode: .default)
            let before = canary.deaths
            RunLoop.current.run(mode: .default, for: .zero)
            observer.invalidate()
            return [before, canary.deaths]
        }
        #expect(deaths == [0, 1])
    }

    @Test("An observer may add and remove items and run the loop: S-OBS-19, S-OBS-8")
    func actsOnTheLoop() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            loop.keepAlive()
            let observer = RunLoop.Observer(activities: .entry) { observer, _ in
                trace.add("called")
                loop.run(mode: .default, for: .zero)
                loop.remove(observer, forMode: .default)
            }
            loop.add(observer, forMode: .default)
            loop.run(mode: .default, for: .zero)
            loop.run(mode: .default, for: .zero)
            trace.add(observer.isValid ? "valid" : "invalid")
            return trace.all
        }
        #expect(trace == ["called", "valid"])
    }

    @Test("The observer a closure is given equals the one that was made: S-NSRL-15")
    func identity() {
        let same = onNewThread { () -> Bool in
            let made = Promise<RunLoop.Observer>()
            let result = Promise<Bool>()
            RunLoop.current.keepAlive()
            let observer = RunLoop.Observer(activities: .entry) { observer, _ in
                result.fulfil(observer == made.value)
            }
            made.fulfil(observer)
            RunLoop.current.add(observer, forMode: .default)
            RunLoop.current.run(mode: .default, for: .zero)
            // Gives up its closure, which keeps the observer.
            observer.invalidate()
            return result.value
        }
        #expect(same)
    }

    private func makeObserver(capturing canary: Canary) -> RunLoop.Observer {
        let captured = canary.capture()
        return RunLoop.Observer(activities: .exit) { observer, _ in
            observer.invalidate()
            captured.touch()
        }
    }
}
