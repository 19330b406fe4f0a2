// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The memory of loops. It is never returned to the system: a thread that comes too late to a loop finds a loop, if perhaps another one
/// (see `RunLoop`). The registry's lock guards the lists.
extension RunLoop {
    /// A new loop with the thread's reference and the default mode (S-LOOP-5). Whoever has made it known calls `tellOfEnvironment`.
    static func make() -> RunLoopPointer {
        process.pointee.registryLock.lockWord()
        let pooled = registry.pointee.freeLoops
        if let pooled {
            registry.pointee.freeLoops = pooled.pointee.nextPooled
            registry.pointee.pooledCount.wrappingSubtract(1, ordering: .relaxed)
        }
        process.pointee.registryLock.unlockWord()

        let loop = pooled ?? allocateLoop()
        loop.initialize()
        // Before other threads can set a handler of their own.
        Watcher.shared.pointee.meet.unsafelyUnwrapped(loop)
        return loop
    }

    /// Logs what `make` found wrong in the environment. The log handler may fork, and finds the new loop where any later call does.
    static func tellOfEnvironment() {
        guard Watcher.shared.pointee.environment.load(ordering: .relaxed) == Watcher.misread else { return }
        Log.once(.slowEnvironment, "RUNLOOP_SLOW", " is no number of seconds above 0; ignored")
    }

    private static func allocateLoop() -> RunLoopPointer {
        let size = (MemoryLayout<RunLoop>.stride + 63) & ~63
        guard let memory = aligned_alloc(64, size) else { trap("RLGetCurrent", "out of memory") }
        memset(memory, 0, size)
        let loop = memory.assumingMemoryBound(to: RunLoop.self)
        process.pointee.registryLock.lockWord()
        loop.pointee.olderRecord = registry.pointee.loopRecords
        registry.pointee.loopRecords = loop
        process.pointee.registryLock.unlockWord()
        return loop
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Everything that an earlier life left is zero already, except for the mailbox and the lock, which latecomers may be using, and an empty
    /// mode and an empty chunk of posts: so a thread that only starts and ends takes no memory from malloc, which costs as much as the rest
    /// of its loop.
    fileprivate func initialize() {
        lock()
        pointee.wake.store(WakeState.awake, ordering: .sequentiallyConsistent)
        pointee.stop.store(StopState.notRunning, ordering: .sequentiallyConsistent)
        pointee.waiting.store(false, ordering: .relaxed)
        pointee.threadAlive.store(true, ordering: .relaxed)
        pointee.closing.store(false, ordering: .relaxed)
        pointee.refusesRuns.store(false, ordering: .relaxed)
        pointee.clientReferences.store(0, ordering: .relaxed)
        pointee.spinLimit.store(0, ordering: .relaxed)
        pointee.timerSlack = -1
        withUnsafeMutablePointer(to: &pointee.counters) { _ = memset($0, 0, MemoryLayout<Counters>.size) }
        pointee.destructorRuns = 0
        pointee.sweeps = 0
        pointee.sweep = Sweep(mode: nil)
        pointee.isSuccessor = false
        pointee.isClockStale = true
        // Not so if a callback ended the thread.
        pointee.goesByRuns.store(false, ordering: .relaxed)
        pointee.busyPolling = BusyPolling()
        pointee.posts.open()
        // Not that of an earlier life: in a chunk that was kept the word has the same values again.
        pointee.seenPosts = pointee.posts.seen
        requests.openQueue(.requests)
        orderedRequests.openQueue(.orderedRequests)
        makeDefaultModeLocked()
        pointee.lock.expectOwner()
        unlock()
        // Forwards what latecomers pushed since the last life to where it belongs.
        SourceLink.forward(takeSignalled(), freedBy: nil)
        initializeHeader()
    }

    /// Puts the memory of a loop that no longer has items into the pool.
    func recycle() {
        endWatching()
        header.markFreed()
        // Other threads take and return loops meanwhile: a few more or fewer may be kept.
        let isSpare = registry.pointee.pooledCount.load(ordering: .relaxed) < Registry.spareLimit
        lock()
        drainLocked()
        freeModes(keepsDefault: isSpare)
        pointee.calls.free()
        CRunLoopLinux.free(pointee.events)
        pointee.events = nil
        pointee.commonSources.free()
        pointee.commonTimers.removeAll()
        pointee.followers.removeAll()
        pointee.commonObservers.removeAll()
        pointee.pending = LinkList()
        pointee.parked = LinkList()
        pointee.parkedFor = nil
        pointee.waits.free()
        pointee.inboxes = InboxList()
        pointee.currentMode.store(nil, ordering: .relaxed)
        pointee.frame = nil
        pointee.freeingThread = 0
        pointee.asleepOutside = nil
        pointee.postFloor = PostFloor()
        pointee.delayedRequests.removeAll()
        pointee.idleRuns = 0
        attend(.ending, false)
        pointee.posts.reset(keepsChunk: isSpare)
        freeAccounts()
        unlock()

        process.pointee.registryLock.lockWord()
        pointee.nextPooled = registry.pointee.freeLoops
        registry.pointee.freeLoops = self
        registry.pointee.pooledCount.wrappingAdd(1, ordering: .relaxed)
        process.pointee.registryLock.unlockWord()
    }
}
