// SPDX-License-Identifier: MIT
internal import Synchronization

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// What `fork` does not find half done: the resumption of a task by another thread than the one that forks. In the child nobody would end
/// it, and the task would wait for ever.
///
/// A body takes a continuation from where it waits, and resumes it, or gives a stream an element. It calls the Swift runtime, which calls
/// executors. Of ours it appends to the list, under a ``Locked``, and posts the function that drains at once: an executor of the program's
/// may do a whole job there, or wait, for another loop that is to have what was posted before. Posting needs the C library's locks. `fork`
/// waits for bodies before it takes those, since the C library's handlers are registered first (`RunLoopCore/Lifecycle/Load.swift`).
///
/// Bodies never wait for each other, since the runtime locks a task while it calls those who want to know of its cancellation: one of
/// them may begin a body in which another thread needs that very lock.
enum ForkGuard {
    /// An executor of the program's may do a long job in a body, or wait for the thread that forks. So `fork` does not wait for ever. The
    /// seconds go by the wall clock, the only one that Swift's module of the C library has for this lock.
    private static var longestWait: Int { 1 }

    /// The last wait was that long, so the next one is a hundredth of it: what holds a body up may do so for ever, as the lock of a task does in
    /// a child (``LoopContinuation``).
    private static let hasWaitedInVain = Atomic(false)

    // Sendable: made once, and never changed after that. By default a writer that waits holds up no reader: bodies read.
    nonisolated(unsafe) private static let lock: UnsafeMutablePointer<pthread_rwlock_t> = {
        let lock = UnsafeMutablePointer<pthread_rwlock_t>.allocate(capacity: 1)
        pthread_rwlock_init(lock, nil)
        return lock
    }()

    /// Of a thread in a body: ``mark``. A job of the program's that ends the thread in the body leaves the lock to the thread's end.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { if $0 == ForkGuard.mark { pthread_rwlock_unlock(ForkGuard.lock) } }
        precondition(status == 0, "RunLoopKit: no thread-specific key is left in this process")
        return key
    }()

    /// Names the process in which a body began: in a child the lock is new, and nobody's.
    private static var mark: UnsafeMutableRawPointer { UnsafeMutableRawPointer(bitPattern: ForkedChild.generation + 1)! }

    static func prepare() {
        _ = (lock, key)
        _ = hasWaitedInVain.load(ordering: .relaxed)
        _ = holder.load(ordering: .relaxed)
    }

    /// Calls the body; `fork` waits until it has returned.
    static func whole(_ body: () -> Void) {
        let key = key
        // An executor may call what comes here again.
        if pthread_getspecific(key) != nil { return body() }
        let mark = mark
        pthread_rwlock_rdlock(lock)
        pthread_setspecific(key, mark)
        body()
        pthread_setspecific(key, nil)
        // A body that forked is over in the child too.
        if mark == ForkGuard.mark { pthread_rwlock_unlock(lock) }
    }

    // MARK: - For fork

    /// The thread that forks and holds the lock; 0 if none does.
    private static let holder = Atomic<UInt>(0)

    static func take() {
        // It would wait for itself.
        if pthread_getspecific(key) != nil { return }
        var limit = timespec()
        clock_gettime(CLOCK_REALTIME, &limit)
        if hasWaitedInVain.load(ordering: .relaxed) {
            limit.tv_nsec += longestWait * 10_000_000
            if limit.tv_nsec >= 1_000_000_000 { (limit.tv_sec, limit.tv_nsec) = (limit.tv_sec + 1, limit.tv_nsec - 1_000_000_000) }
        } else {
            limit.tv_sec += longestWait
        }
        let isHeld = pthread_rwlock_timedwrlock(lock, &limit) == 0
        hasWaitedInVain.store(!isHeld, ordering: .relaxed)
        if isHeld { holder.store(RunLoop.callingThread, ordering: .relaxed) }
    }

    static func giveBack() {
        guard holder.load(ordering: .relaxed) == RunLoop.callingThread else { return }
        holder.store(0, ordering: .relaxed)
        pthread_rwlock_unlock(lock)
    }

    /// In the child, in which nobody else is in a body, and the thread has another number than the lock knows.
    static func renew() {
        hasWaitedInVain.store(false, ordering: .relaxed)
        holder.store(0, ordering: .relaxed)
        pthread_rwlock_init(lock, nil)
    }
}
