// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A thread that waits for a word of memory, as others sleep on its futex, and runs its loop meanwhile (S-SYNC-22).
///
/// A thread that wakes sleepers of a word notifies one of these if there was no sleeper, or all: see `WhomToTell`. From malloc; the part
/// of it that runs the loop is in `Pass/RunLoop+WaitInMode.swift`.
struct LoopWaiter: ~Copyable {
    let word: UnsafeRawPointer
    /// The number of the thread, which is the same in the child of `fork`.
    let thread: UInt
    /// 1: it was notified. Set under the lock of the list; cleared by the thread itself. The thread may sleep on it. Released and acquired,
    /// and sequentially consistent with `isBusy`.
    let told: Atomic<UInt32>
    /// Of a wait for a lock: 1 while the run is in a callback, which may last.
    let isBusy: Atomic<UInt32>
    /// Makes the loop notice. Called under the lock of the list; it takes none.
    let notify: @convention(c) (UnsafeMutableRawPointer) -> Void
    let info: UnsafeMutableRawPointer
    /// What the loop performs when it has noticed.
    let mark: ObjectPointer
    /// Guarded by the lock of the list.
    var next: UnsafeMutablePointer<LoopWaiter>?
    var previous: UnsafeMutablePointer<LoopWaiter>?
}

typealias LoopWaiterPointer = UnsafeMutablePointer<LoopWaiter>

/// Which of the waiters are notified.
enum WhomToTell {
    /// Of a condition: the innermost wait of the thread that has waited longest.
    case one
    case all
    /// Of a lock: those that have waited longest, up to the first that is in no callback and so tries to take the lock soon. One whose next
    /// callback begins before that passes the word on.
    case firstThatLooks
}

/// All of the process, in the order in which they began to wait.
struct LoopWaiters: ~Copyable {
    let lock: Lock
    /// How many there are: a waking thread looks at this first. Sequentially consistent: raised before the waiter leaves its mark
    /// in the word that the waker found.
    let count: Atomic<UInt32>
    var first: LoopWaiterPointer?
    var last: LoopWaiterPointer?

    static var shared: UnsafeMutablePointer<LoopWaiters> { rl_loop_waiters().cast(to: LoopWaiters.self) }

    /// Notifies waiters that were not notified yet. The word may be gone.
    static func tell(_ word: UnsafeRawPointer, _ whom: WhomToTell) {
        if shared.pointee.count.wrappingAdd(0, ordering: .sequentiallyConsistent).newValue != 0 { tellAny(word, whom) }
    }

    @inline(never)
    private static func tellAny(_ word: UnsafeRawPointer, _ whom: WhomToTell) {
        let errno = rl_errno()
        defer { rl_set_errno(errno) }
        shared.pointee.lock.lockWord()
        var chosen: LoopWaiterPointer?
        var next = shared.pointee.first
        while let waiter = next {
            next = waiter.pointee.next
            if waiter.pointee.word != word { continue }
            // Not a mere load, which may find what the thread has cleared since.
            let isTold = waiter.pointee.told.bitwiseOr(0, ordering: .relaxed).oldValue != 0
            switch whom {
            case .all:
                if !isTold { waiter.tell() }
            case .one:
                // A wait in a callback of another one of the thread has to end first.
                if !isTold, chosen == nil || chosen!.pointee.thread == waiter.pointee.thread { chosen = waiter }
            case .firstThatLooks:
                if !isTold { waiter.tell() }
                if waiter.pointee.isBusy.load(ordering: .sequentiallyConsistent) == 0 { next = nil }
            }
        }
        chosen?.tell()
        shared.pointee.lock.unlockWord()
    }

    /// In the child of `fork`, when its loop is whole: a thread that was woken in place of these may not exist here.
    static func tellInChild() {
        var next = shared.pointee.first
        while let waiter = next {
            waiter.tell()
            next = waiter.pointee.next
        }
    }

    /// The child of `fork` has the waits of the forking thread alone.
    static func forkedChild() {
        shared.pointee.lock.resetInChild()
        let thread = RLThisThread_()
        shared.pointee.count.store(0, ordering: .relaxed)
        var next = shared.pointee.first
        shared.pointee.first = nil
        shared.pointee.last = nil
        while let waiter = next {
            next = waiter.pointee.next
            if waiter.pointee.thread == thread { waiter.append() }
        }
    }
}

extension UnsafeMutablePointer where Pointee == LoopWaiter {
    fileprivate func tell() {
        pointee.told.store(1, ordering: .sequentiallyConsistent)
        pointee.told.futexWakeOne()
        pointee.notify(pointee.info)
    }

    /// A callback of the run begins: the thread may look for the lock late. False if it is in one already.
    func beginCallback() -> Bool {
        if pointee.isBusy.exchange(1, ordering: .sequentiallyConsistent) != 0 { return false }
        if pointee.told.load(ordering: .sequentiallyConsistent) != 0 { LoopWaiters.tell(pointee.word, .firstThatLooks) }
        return true
    }

    func endCallback() { pointee.isBusy.store(0, ordering: .sequentiallyConsistent) }

    func enlist() {
        LoopWaiters.shared.pointee.lock.lockWord()
        append()
        LoopWaiters.shared.pointee.lock.unlockWord()
    }

    /// The lock is held.
    fileprivate func append() {
        let shared = LoopWaiters.shared
        pointee.next = nil
        pointee.previous = shared.pointee.last
        if let last = shared.pointee.last { last.pointee.next = self } else { shared.pointee.first = self }
        shared.pointee.last = self
        shared.pointee.count.wrappingAdd(1, ordering: .sequentiallyConsistent)
    }

    func delist() {
        let shared = LoopWaiters.shared
        shared.pointee.lock.lockWord()
        if let next = pointee.next { next.pointee.previous = pointee.previous } else { shared.pointee.last = pointee.previous }
        if let previous = pointee.previous { previous.pointee.next = pointee.next } else { shared.pointee.first = pointee.next }
        shared.pointee.count.wrappingSubtract(1, ordering: .relaxed)
        shared.pointee.lock.unlockWord()
    }
}
