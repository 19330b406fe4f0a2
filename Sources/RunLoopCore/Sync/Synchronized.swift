// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// `RLSynchronized`: which pointers are held by which threads.
///
/// A thread that executes a function has a record in the frame of its call, which is listed in one of 16 stripes, chosen by the
/// pointer. So nothing is allocated, different pointers never wait for each other for longer than it takes to look through a list,
/// and any number of them can be held in any order.
struct Stripe: ~Copyable {
    /// Guards the lists. Held for a few instructions, and while the process forks.
    let lock: SyncWord
    var first: UnsafeMutablePointer<Holder>?
    /// Threads that sleep until a pointer is free, in the order in which they came.
    var firstWaiter: UnsafeMutablePointer<HolderWaiter>?
    var lastWaiter: UnsafeMutablePointer<HolderWaiter>?

    static var count: Int { 16 }
    static var shared: UnsafeMutablePointer<Stripe> { rl_synchronized().cast(to: Stripe.self) }

    static func of(_ object: UnsafeRawPointer) -> UnsafeMutablePointer<Stripe> {
        // Objects that are neighbours are in different stripes.
        let number = UInt(bitPattern: object)
        return shared + Int((number >> 4 ^ number >> 9) & 15)
    }

    /// The child gets whole lists. Taken after all other locks, of the library and of the program's functions.
    static func prepareFork() {
        for index in 0..<count { _ = shared[index].lock.word.pointer.lockWord() }
    }

    /// libc makes new stacks where those of vanished threads were: what those threads held stays held by copies.
    static func forkedChild() {
        for index in 0..<count {
            disown(&shared[index].first, except: RLThisThread_())
            // The forking thread does not wait.
            shared[index].firstWaiter = nil
            shared[index].lastWaiter = nil
        }
        forkedParent()
    }

    private static func disown(_ first: inout UnsafeMutablePointer<Holder>?, except thread: UInt) {
        var place = withUnsafeMutablePointer(to: &first) { $0 }
        while let holder = place.pointee {
            if holder.pointee.thread != thread && holder.pointee.thread != 0 {
                let copy = makeRecord(Holder.self)
                // A new thread may get the number.
                copy.initialize(to: Holder(object: holder.pointee.object, thread: 0, hasWaiters: false, next: holder.pointee.next))
                place.pointee = copy
            }
            place = withUnsafeMutablePointer(to: &place.pointee.unsafelyUnwrapped.pointee.next) { $0 }
        }
    }

    #if DEBUG
    /// See `Fork.rehearse`.
    static func rehearse() {
        var holder = Holder(object: UnsafeRawPointer(shared), thread: 1, hasWaiters: false, next: nil)
        withUnsafeMutablePointer(to: &holder) { holder in
            var first: UnsafeMutablePointer<Holder>? = holder
            disown(&first, except: 0)
            CRunLoopLinux.free(first)
        }
    }
    #endif

    static func forkedParent() {
        for index in 0..<count { shared[index].lock.word.pointer.unlockWord() }
    }
}

/// Guarded by the lock of its stripe.
struct Holder {
    var object: UnsafeRawPointer
    var thread: UInt
    /// Threads may wait for the pointer: one has met this holder, or this one has waited, perhaps with others.
    var hasWaiters: Bool
    var next: UnsafeMutablePointer<Holder>?
}

/// In the frame of a thread that sleeps until a pointer is free. Guarded by the lock of its stripe, but for the word.
struct HolderWaiter: ~Copyable {
    let object: UnsafeRawPointer
    /// 1: the pointer was free; the record is in no list then, and goes with its frame. Released and acquired; the thread sleeps on it.
    let word = Atomic<UInt32>(0)
    var next: UnsafeMutablePointer<HolderWaiter>?

    /// Gives up the stripe's lock, and sleeps.
    static func wait(for object: UnsafeRawPointer, in stripe: UnsafeMutablePointer<Stripe>) {
        var waiter = HolderWaiter(object: object, next: nil)
        withUnsafeMutablePointer(to: &waiter) { waiter in
            if let last = stripe.pointee.lastWaiter { last.pointee.next = waiter } else { stripe.pointee.firstWaiter = waiter }
            stripe.pointee.lastWaiter = waiter
            stripe.pointee.lock.word.pointer.unlockWord()
            let errno = rl_errno()
            while waiter.pointee.word.load(ordering: .acquiring) == 0 { waiter.pointee.word.futexWait(while: 0) }
            rl_set_errno(errno)
        }
    }
}

extension UnsafeMutablePointer where Pointee == Stripe {
    /// Takes out the thread that has waited longest for a pointer. The lock is held.
    fileprivate func takeWaiter(for object: UnsafeRawPointer) -> UnsafeMutablePointer<HolderWaiter>? {
        var previous: UnsafeMutablePointer<HolderWaiter>?
        var next = pointee.firstWaiter
        while let waiter = next {
            next = waiter.pointee.next
            if waiter.pointee.object == object {
                if let previous { previous.pointee.next = next } else { pointee.firstWaiter = next }
                if next == nil { pointee.lastWaiter = previous }
                return waiter
            }
            previous = waiter
        }
        return nil
    }
}

extension Atomic where Value == UInt32 {
    /// The word as that of a lock. An `Atomic` does not move while it is borrowed.
    fileprivate var pointer: SyncWordPointer {
        withUnsafePointer(to: self) { UnsafeMutableRawPointer(mutating: UnsafeRawPointer($0)).cast(to: SyncWord.self) }
    }
}

func synchronize(_ object: UnsafeRawPointer, _ function: PerformFunction, _ info: UnsafeMutableRawPointer?) {
    var holder = Holder(object: object, thread: RLThisThread_(), hasWaiters: false, next: nil)
    withUnsafeMutablePointer(to: &holder) { holder in
        guard holder.enter() else { return callOutPerformed(function, info) }
        callOutGuarded(function, info, { UnsafeMutableRawPointer($0!).cast(to: Holder.self).leave() }, holder)
        holder.leave()
    }
}

extension UnsafeMutablePointer where Pointee == Holder {
    /// Waits until no other thread has the pointer. False if this thread has it already.
    fileprivate func enter() -> Bool {
        let stripe = Stripe.of(pointee.object)
        while true {
            _ = stripe.pointee.lock.word.pointer.lockWord()
            var other = stripe.pointee.first
            while let holder = other, holder.pointee.object != pointee.object { other = holder.pointee.next }
            guard let other else {
                pointee.next = stripe.pointee.first
                stripe.pointee.first = self
                stripe.pointee.lock.word.pointer.unlockWord()
                return true
            }
            if other.pointee.thread == pointee.thread {
                stripe.pointee.lock.word.pointer.unlockWord()
                return false
            }
            other.pointee.hasWaiters = true
            HolderWaiter.wait(for: pointee.object, in: stripe)
            // Whoever leaves wakes one: it is for this thread to wake the next, when it has had its turn.
            pointee.hasWaiters = true
        }
    }

    fileprivate func leave() {
        let stripe = Stripe.of(pointee.object)
        _ = stripe.pointee.lock.word.pointer.lockWord()
        // Those of other threads, and of functions that were called in this one.
        if stripe.pointee.first == self {
            stripe.pointee.first = pointee.next
        } else {
            var previous = stripe.pointee.first!
            while previous.pointee.next != self { previous = previous.pointee.next! }
            previous.pointee.next = pointee.next
        }
        let waiter = pointee.hasWaiters ? stripe.takeWaiter(for: pointee.object) : nil
        stripe.pointee.lock.word.pointer.unlockWord()
        guard let waiter else { return }
        let errno = rl_errno()
        waiter.pointee.word.store(1, ordering: .releasing)
        // It may be gone by now: the wake-up then reaches nobody, or one who looks again.
        waiter.pointee.word.futexWakeOne()
        rl_set_errno(errno)
    }
}
