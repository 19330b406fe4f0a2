// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// From a thread to its loop.
extension RunLoop {
    /// The calling thread's loop, made if needed (S-LOOP-1, S-LOOP-2).
    @inline(always)
    static func current() -> RunLoopPointer {
        if let loop = ofThread { return loop }
        return makeCurrent()
    }

    /// The calling thread's loop, if there is one (S-LOOP-21). `isCurrent` is not true before the main thread has found its loop here or
    /// by ``current()``: who has asked for the main loop, or got it from another thread, has not.
    @inline(never)
    static func currentIfMade() -> RunLoopPointer? {
        if let loop = ofThread { return loop }
        // Other threads may have made the main thread's loop.
        guard let main = registry.pointee.mainLoop.load(ordering: .acquiring), isMainThread,
            main.pointee.threadAlive.load(ordering: .acquiring)
        else { return nil }
        return makeCurrent()
    }

    /// The main thread's loop, from any thread (S-LOOP-3).
    static func main() -> RunLoopPointer {
        if let loop = registry.pointee.mainLoop.load(ordering: .acquiring) { return loop }
        OneCore.claim()
        let made = make()
        made.pointee.thread.store(getpid(), ordering: .relaxed)
        var isOfEndedThread = false
        while true {
            process.pointee.registryLock.lockWord()
            let other = registry.pointee.mainLoop.load(ordering: .relaxed)
            let mustEnd = registry.pointee.mainThreadHasEnded && !isOfEndedThread
            if other == nil && !mustEnd {
                made.retain()  // The process's reference: the main loop outlives its thread (S-LOOP-13).
                registry.pointee.mainLoop.store(made, ordering: .sequentiallyConsistent)
            }
            process.pointee.registryLock.unlockWord()
            if let other {
                made.release()
                return other
            }
            if !mustEnd {
                tellOfEnvironment()
                // The child of a fork in the log handler does not know this loop.
                return main()
            }
            // No other thread has seen it: the next turn enters it, as a loop that accepts nothing.
            made.refuseEverything()
            isOfEndedThread = true
        }
    }

    /// Whether the caller is the process's initial thread (S-LOOP-4); in the child of `fork`, the thread that forked.
    static var isMainThread: Bool { rl_own_number() == process.pointee.number.load(ordering: .relaxed) }

    @inline(never)
    private static func makeCurrent() -> RunLoopPointer {
        OneCore.claim()
        // A main thread whose loop was torn down gets another loop; `RLGetMain` stays what it was.
        let main = isMainThread ? main() : nil
        // A log handler that these two have called has made it.
        if let loop = ofThread { return loop }
        let isMain = main?.pointee.threadAlive.load(ordering: .acquiring) ?? false
        let loop = isMain ? main! : make()
        loop.pointee.thread.store(rl_own_number(), ordering: .relaxed)
        loop.pointee.isSuccessor = rl_thread_had_loop_get()
        rl_thread_had_loop_set()
        rl_thread_loop_set(loop)
        pthread_setspecific(process.pointee.threadKey, loop)
        if !isMain { tellOfEnvironment() }
        return loop
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    func closeQueues() {
        pointee.posts.close()
        requests.closeQueue()
        orderedRequests.closeQueue()
    }

    /// Turns a new loop, which no other thread has seen, into one whose thread has ended.
    fileprivate func refuseEverything() {
        closeQueues()
        pointee.threadAlive.store(false, ordering: .releasing)
    }
}
