// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The process's threads of `RLThreadStart`.
struct Threads: ~Copyable {
    /// Those that were started and whose end has not been told, linked by `next`. Guarded by the registry's lock.
    var first: ThreadPointer?
    /// 1 if there ever was one, else 0. Relaxed: it orders nothing.
    let areMany: Atomic<UInt32>
    /// The key of `ThreadValue`. Written when the library is loaded.
    var valuesKey: pthread_key_t
    /// Called before the first start. Guarded by the registry's lock.
    var becomesMany: PerformFunction?
    var becomesManyInfo: UnsafeMutableRawPointer?

    /// Called before the first thread exists.
    static func becomeMany() {
        if threads.pointee.areMany.exchange(1, ordering: .relaxed) != 0 { return }
        process.pointee.registryLock.lockWord()
        let function = threads.pointee.becomesMany
        let info = threads.pointee.becomesManyInfo
        process.pointee.registryLock.unlockWord()
        if let function { callOutPerformed(function, info) }
    }

    static func keepInChild(_ thread: ThreadPointer?) {
        var other = threads.pointee.first
        while let current = other {
            other = current.pointee.next
            if current != thread { current.tellEndInChild() }
        }
        threads.pointee.first = thread
        thread?.pointee.next = nil
        thread?.pointee.previous = nil
        if let thread, thread.pointee.flags.load(ordering: .relaxed) & ThreadFlags.exited == 0 { thread.pointee.number = rl_gettid() }
    }

    /// `RLThreadCopyAll`.
    static func copyAll(_ count: UnsafeMutablePointer<Int>?) -> UnsafeMutablePointer<OpaquePointer?> {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        var number = 0
        var thread = threads.pointee.first
        while let current = thread {
            if current.isListed { number += 1 }
            thread = current.pointee.next
        }
        let list = makeArray(OpaquePointer?.self, count: number + 1)
        count?.pointee = number
        number = 0
        thread = threads.pointee.first
        while let current = thread {
            if current.isListed {
                current.retain()
                list[number] = current.handle
                number += 1
            }
            thread = current.pointee.next
        }
        return list
    }
}

/// The one `Threads`.
@inline(always)
var threads: UnsafeMutablePointer<Threads> { rl_threads().assumingMemoryBound(to: Threads.self) }

/// A function that is to be called when a thread ends. From malloc.
struct ExitCallback {
    var function: ThreadFunction
    var info: UnsafeMutableRawPointer?
    var next: UnsafeMutablePointer<ExitCallback>?
}

/// The list of threads, and what is done when a thread ends.
extension UnsafeMutablePointer where Pointee == Thread {
    /// Whether it counts as executing, for `RLThreadCopyAll` among others. These three need the registry's lock.
    fileprivate var isListed: Bool { pointee.number != ThreadNumber.unlisted && !isVanished }

    func enterListLocked() {
        pointee.number = ThreadNumber.starting
        pointee.previous = nil
        pointee.next = threads.pointee.first
        pointee.next?.pointee.previous = self
        threads.pointee.first = self
    }

    /// Does nothing if it is not in the list.
    func leaveListLocked() {
        pointee.number = ThreadNumber.unlisted
        if let previous = pointee.previous {
            previous.pointee.next = pointee.next
        } else if threads.pointee.first == self {
            threads.pointee.first = pointee.next
        }
        pointee.next?.pointee.previous = pointee.previous
        pointee.next = nil
        pointee.previous = nil
    }

    /// For a thread that the system could not create. A thread that takes the lock, as `fork` does, sees both changes at once.
    func leaveList(phase: UInt32) {
        process.pointee.registryLock.lockWord()
        leaveListLocked()
        change(to: phase)
        process.pointee.registryLock.unlockWord()
    }

    /// Calls the body, with the registry's lock held, when the thread is not just starting.
    private func whenStarted<R>(_ body: () -> R) -> R {
        while true {
            waitForStart()
            process.pointee.registryLock.lockWord()
            // Otherwise the thread was new, and was started meanwhile. On the thread itself a log handler may be called before its loop exists.
            let hasStarted = pointee.number != ThreadNumber.starting || isVanished || ThreadPointer.current == self
            let result = hasStarted ? body() : nil
            process.pointee.registryLock.unlockWord()
            if let result { return result }
        }
    }

    /// 0, which names the calling thread, for one that is just starting: only the thread itself asks then.
    private var knownNumber: pid_t { pointee.number == ThreadNumber.starting ? 0 : pointee.number }

    /// Called on the thread.
    func setNumber(_ number: pid_t) {
        process.pointee.registryLock.lockWord()
        pointee.number = number
        process.pointee.registryLock.unlockWord()
    }

    /// `RLThreadAddExitCallBack`.
    func addExitCallback(_ function: ThreadFunction, _ info: UnsafeMutableRawPointer?) -> Bool {
        let callback = makeArray(ExitCallback.self, count: 1)
        process.pointee.registryLock.lockWord()
        let isTooLate = isFinished || pointee.flags.load(ordering: .relaxed) & ThreadFlags.exited != 0
        if !isTooLate {
            callback.initialize(to: ExitCallback(function: function, info: info, next: pointee.exitCallbacks))
            pointee.exitCallbacks = callback
        }
        process.pointee.registryLock.unlockWord()
        if isTooLate { CRunLoopLinux.free(callback) }
        return !isTooLate
    }

    /// Takes the callback that was added last; if there is none, no more are accepted and the thread counts as executing no more. It stays
    /// in the list for the sources that wait for its end.
    func takeExitCallback() -> UnsafeMutablePointer<ExitCallback>? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        if let callback = pointee.exitCallbacks {
            pointee.exitCallbacks = callback.pointee.next
            return callback
        }
        pointee.flags.bitwiseOr(ThreadFlags.exited, ordering: .relaxed)
        pointee.number = ThreadNumber.unlisted
        return nil
    }

    /// After a body that has returned to its loop what `end` asks for comes first. A callback may end the thread; then this is called again.
    func callExitCallbacks(afterBodyIn loop: RunLoopPointer?) {
        var loop = loop
        if let last = loop, isStopped {
            drain(last)
            loop = nil
        }
        while let callback = takeExitCallback() {
            let (function, info) = (callback.pointee.function, callback.pointee.info)
            CRunLoopLinux.free(callback)
            // Once more, right before the first is called: from then on it is too late for `end` (S-THREAD-5).
            if let last = loop, isStopped {
                _ = addExitCallback(function, info)
                drain(last)
                loop = nil
                continue
            }
            loop = nil
            callOutThread(function, handle, info)
        }
    }

    /// `RLThreadDetach`.
    func detach() -> Bool {
        func mark() -> Bool {
            pointee.joining.compareExchange(
                expected: ThreadJoin.none, desired: ThreadJoin.detached, ordering: .sequentiallyConsistent).exchanged
        }
        while true {
            var marked: Bool?
            // A thread that starts after this reads the mark, and detaches itself.
            setUp { _ in marked = mark() }
            if let marked { return marked }
            waitForStart()
            // Otherwise it could not be started.
            if !isNew { break }
        }
        guard mark() else { return false }
        if !isVanished { pthread_detach(systemHandle) }
        return true
    }

    /// The size that the thread gets, or got.
    var stackSize: Int {
        process.pointee.registryLock.lockWord()
        let wanted = pointee.stackSize
        process.pointee.registryLock.unlockWord()
        guard wanted > 0 else {
            var attributes = pthread_attr_t()
            var size = 0
            pthread_attr_init(&attributes)
            pthread_attr_getstacksize(&attributes, &size)
            pthread_attr_destroy(&attributes)
            return size
        }
        let page = Int(sysconf(Int32(_SC_PAGESIZE)))
        let (padded, overflows) = wanted.addingReportingOverflow(page - 1)
        let size = overflows ? wanted : padded / page * page
        return Swift.max(size, Int(rl_stack_minimum()))
    }

    /// `RLThreadChangePriority` of a thread of the library; 0 or an errno.
    func changePriority(_ value: Int32) -> Int32 {
        whenStarted {
            if isNew {
                pointee.priority = value
                return 0
            }
            return isListed ? rl_change_priority(knownNumber, value) : ESRCH
        }
    }

    var priority: Int32 {
        whenStarted { isListed ? rl_priority(knownNumber) : pointee.priority }
    }
}
