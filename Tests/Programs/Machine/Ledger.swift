// SPDX-License-Identifier: MIT
// What has to happen, beside what happens.
import Glibc
import RunLoopKit
import Synchronization

/// What was found wrong in the program that runs now.
let faults = Mutex<[String]>([])

func check(_ holds: Bool, _ message: @autoclosure () -> String) {
    if holds { return }
    let text = message()
    faults.withLock { if $0.count < 20 { $0.append(text) } }
}

/// Captured by every closure that the library gets: all are gone at the end of a program.
final class Token: Sendable {
    private static let count = Atomic(0)
    static var living: Int { count.load(ordering: .acquiring) }

    init() { Token.count.add(1, ordering: .relaxed) }
    deinit { Token.count.subtract(1, ordering: .releasing) }

    func touch() {}
}

/// A closure that was queued, and how often it is to be called.
final class Entry: Sendable {
    private let name: String
    private let calls = Atomic(0)
    private let bounds: Mutex<ClosedRange<Int>>

    init(_ name: String, _ bounds: ClosedRange<Int>) {
        self.name = name
        self.bounds = Mutex(bounds)
    }

    var count: Int { calls.load(ordering: .acquiring) }

    func note() { calls.add(1, ordering: .acquiringAndReleasing) }

    func expect(_ count: ClosedRange<Int>) { bounds.withLock { $0 = count } }

    func verify() {
        let (count, bounds) = (count, bounds.withLock { $0 })
        check(bounds.contains(count), "\(name): called \(count) times, expected \(bounds)")
    }
}

/// A job of a loop that was queued before the first call that ends the thread, or perhaps not.
final class Early: Sendable {
    private enum State {
        static var new: UInt8 { 0 }
        static var early: UInt8 { 1 }
        static var elsewhere: UInt8 { 2 }
    }

    private let state = Atomic(State.new)

    /// After the job was queued.
    func note(_ place: Place) {
        if place.endIsRequested.load(ordering: .sequentiallyConsistent) { return }
        let before = state.exchange(State.early, ordering: .acquiringAndReleasing)
        check(before != State.elsewhere, "a job of loop \(place.number) on another thread, and nobody has ended its own")
    }

    /// In the job.
    func arrive(_ place: Place, _ name: @autoclosure () -> String) {
        if place.isOn { return }
        let drops = place.dropsRest.load(ordering: .acquiring)
        let before = drops ? State.new : state.exchange(State.elsewhere, ordering: .acquiringAndReleasing)
        check(before != State.early, "\(name()): a job that was queued before the thread's end on another thread")
    }
}

/// The order of what one task queues for one loop by one function.
final class Order: Sendable {
    private let given = Atomic(0)
    private let last = Atomic(0)

    func next() -> Int { given.add(1, ordering: .relaxed).newValue }

    func arrive(_ number: Int, _ name: @autoclosure () -> String) {
        let before = last.exchange(number, ordering: .acquiringAndReleasing)
        check(before < number, "\(name()): number \(number) is called after number \(before)")
    }
}

/// Where a task is, and what it has queued.
final class Trail: Sendable {
    let name: String
    private let place = Mutex("not begun")
    private let orders = Mutex<[String: Order]>([:])

    init(_ name: String) { self.name = name }

    func note(_ text: String) { place.withLock { $0 = text } }

    var text: String { "\(name): \(place.withLock { $0 })" }

    func order(_ key: String) -> Order {
        orders.withLock { orders in
            if let known = orders[key] { return known }
            let made = Order()
            orders[key] = made
            return made
        }
    }
}

/// An object that has to be gone at the end of a program.
final class Watched: Sendable {
    private let reference: Mutex<WeakReference>
    private let name: String

    private final class WeakReference: @unchecked Sendable {
        weak var object: (any AnyObject & Sendable)?
        init(_ object: any AnyObject & Sendable) { self.object = object }
    }

    init(_ name: String, _ object: any AnyObject & Sendable) {
        self.name = name
        reference = Mutex(WeakReference(object))
    }

    /// Nil when it is gone.
    var object: (any AnyObject & Sendable)? { reference.withLock { $0.object } }

    var remains: String? { object == nil ? nil : name }
}
