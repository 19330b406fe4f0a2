// SPDX-License-Identifier: MIT
import CLinux
import CRunLoop
import Synchronization

/// The memory of loops. It is never given back to the system: whoever comes too late to a loop finds a loop, if another one
/// (see `RunLoop`). The registry's lock guards the lists.
extension RunLoop {
    /// A new loop with the thread's reference and the default mode (S-LOOP-5).
    static func make() -> RunLoopPointer {
        process.pointee.registryLock.lockWord()
        let pooled = registry.pointee.freeLoops
        if let pooled { registry.pointee.freeLoops = pooled.pointee.nextPooled }
        process.pointee.registryLock.unlockWord()

        let loop = pooled ?? allocateLoop()
        loop.initialize()
        Watcher.shared.pointee.meet.unsafelyUnwrapped(loop)
        return loop
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
    /// Everything that a former life left is zero already, but for the mailbox and the lock, which latecomers may be using.
    fileprivate func initialize() {
        lock()
        pointee.wake.store(WakeState.awake, ordering: .sequentiallyConsistent)
        pointee.stop.store(StopState.notRunning, ordering: .sequentiallyConsistent)
        pointee.waiting.store(false, ordering: .relaxed)
        pointee.threadAlive.store(true, ordering: .relaxed)
        pointee.closing.store(false, ordering: .relaxed)
        pointee.clientReferences.store(0, ordering: .relaxed)
        pointee.spinLimit.store(0, ordering: .relaxed)
        pointee.timerSlack = -1
        withUnsafeMutablePointer(to: &pointee.counters) { _ = memset($0, 0, MemoryLayout<Counters>.size) }
        pointee.destructorRuns = 0
        pointee.isSuccessor = false
        pointee.isClockStale = true
        pointee.busyPolling = BusyPolling()
        pointee.posts.open()
        requests.openQueue(.requests)
        orderedRequests.openQueue(.orderedRequests)
        makeDefaultModeLocked()
        pointee.lock.expectOwner()
        unlock()
        // What latecomers pushed since the last life goes where it belongs.
        SourceLink.forward(takeSignalled(), freedBy: nil)
        initializeHeader()
    }

    /// Puts the memory of a loop that has no items any more into the pool.
    func recycle() {
        endWatching()
        header.markFreed()
        lock()
        drainLocked()
        freeModes()
        pointee.calls.free()
        pointee.commonSources.free()
        pointee.commonTimers.removeAll()
        pointee.commonObservers.removeAll()
        pointee.pending = LinkList()
        pointee.parked = LinkList()
        pointee.parkedFor = nil
        pointee.held = LinkList()
        pointee.withdrawn.removeAll()
        pointee.heldUntil = 0
        pointee.inboxes = InboxList()
        pointee.currentMode.store(nil, ordering: .relaxed)
        pointee.frame = nil
        pointee.asleepOutside = nil
        pointee.postFloor = 0
        pointee.posts.reset()
        freeAccounts()
        unlock()

        process.pointee.registryLock.lockWord()
        pointee.nextPooled = registry.pointee.freeLoops
        registry.pointee.freeLoops = self
        process.pointee.registryLock.unlockWord()
    }
}
