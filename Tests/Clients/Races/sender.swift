// error: risks causing data races
// SPDX-License-Identifier: MIT
// A value that chooses an observer's sender is the centre's: any thread may destroy it.
import RunLoopKit

final class Counter { var living = 0 }

struct Sender: Hashable {
    let counter: Counter
    static func == (one: Sender, other: Sender) -> Bool { one.counter === other.counter }
    func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(counter)) }
}

@MainActor func observe(_ centre: NotificationCenter) -> NotificationCenter.Observation {
    let counter = Counter()
    let observation = centre.addObserver(forName: nil, object: Sender(counter: counter), queue: nil) { _ in }
    counter.living += 1
    return observation
}
