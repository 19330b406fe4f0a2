import CLinux
import Synchronization

/// `fork` (S-FORK-1): the child goes on with the loop of the thread that forked; other threads' loops do not exist there.
///
/// The prepare handler takes the forking thread's own loop lock, those of its queues of requests, and then the process's locks,
/// so that the child gets the structures they guard whole. Other loops' locks are not taken: their owners do not come along, and
/// nothing in the child uses those loops but to take items out of them, for which their locks are made anew.
enum Fork {
    static func prepare() {
        MessagePortTable.prepareFork()
        if let loop = current {
            loop.lock()
            loop.requests.pointee.lock.lockWord()
            loop.orderedRequests.pointee.lock.lockWord()
        }
        process.pointee.registryLock.lockWord()
        process.pointee.logLock.lockWord()
        MachPort.prepareForFork()
    }

    static func parent() {
        MachPort.resumeAfterFork()
        process.pointee.logLock.unlockWord()
        process.pointee.registryLock.unlockWord()
        if let loop = current {
            loop.orderedRequests.pointee.lock.unlockWord()
            loop.requests.pointee.lock.unlockWord()
            loop.unlock()
        }
        MessagePortTable.forkedParent()
    }

    static func child() {
        process.pointee.forkGeneration.wrappingAdd(1, ordering: .relaxed)
        registerBarrier()
        process.pointee.logLock.resetInChild()
        process.pointee.registryLock.resetInChild()
        MainQueue.detachInChild()
        let own = current
        own?.pointee.lock.resetInChild()
        // The kernel's sets are the parent's too: the child closes its numbers, and makes sets of its own at first use.
        own?.forEachModeRecord { $0.pointee.ports.closeKernelSet() }
        // Now, while there is no other thread: later one could be in the middle of a signal or a post.
        MachPort.childOfFork(own)
        ThreadPointer.renewInChild()
        own?.adoptUnfinishedSignals()
        own?.pointee.posts.abandonClaims()
        own?.abandonClaimsOfRounds()
        own?.requests.resetInChild(isOwn: true)
        own?.orderedRequests.resetInChild(isOwn: true)
        // A loop that was the main one but not of this thread's is gone like the others (S-FORK-1).
        if let own, own != process.pointee.mainLoop.load(ordering: .relaxed) { own.retain() }
        process.pointee.mainLoop.store(own, ordering: .relaxed)
        ForeignRun.renewInChild(own)
        KernelEvent.renewInChild()
        var loop = process.pointee.loops
        while let other = loop {
            loop = other.pointee.nextLoop
            if other == own { continue }
            other.pointee.lock.resetInChild()
            other.pointee.vanished.store(true, ordering: .relaxed)
            other.pointee.threadAlive.store(false, ordering: .relaxed)
            other.pointee.posts.close()
            other.requests.resetInChild(isOwn: false)
            other.orderedRequests.resetInChild(isOwn: false)
            other.forEachModeRecord { $0.pointee.ports.epoll.close() }
        }
        MessagePortTable.forkedChild()
        // The lock of a loop that was freed may still guard timers that were in it last.
        loop = process.pointee.freeLoops
        while let free = loop {
            loop = free.pointee.nextLoop
            free.pointee.lock.resetInChild()
        }
    }

    private static var current: RunLoopPointer? {
        rl_thread_loop_get()?.assumingMemoryBound(to: RunLoop.self)
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// In the child of `fork`: a source whose signaller did not get to its push is signalled and on no stack. The only
    /// thread calls it; a signal handler may signal meanwhile.
    fileprivate func adoptUnfinishedSignals() {
        lock()
        drainLocked()
        pointee.parkedFor = nil
        pointee.inboxes.parkedFor = nil
        forEachModeRecord { mode in
            mode.pointee.sources.forEach { source in
                guard source.isSignalled, let link = source.link(in: self), link.pointee.list == 0 else { return }
                // A handler's signal is on the stack by now, and from now on a handler finds the flag set.
                drainLocked()
                guard link.pointee.list == 0 else { return }
                _ = link.tryQueue()
                enlist(link)
            }
        }
        unlock()
    }
}

/// In a child of `fork` an item may still say that it is in the loop of a thread that does not exist here. Before such an item
/// is added anywhere or invalidated it forgets that loop, whose own structures nobody looks at any more.
extension UnsafeMutablePointer where Pointee == RunLoop {
    @inline(__always)
    fileprivate static var anyVanished: Bool { process.pointee.forkGeneration.load(ordering: .relaxed) != 0 }
}

extension UnsafeMutablePointer where Pointee == Source {
    func forgetVanishedLoops() {
        guard RunLoopPointer.anyVanished else { return }
        forEachLink { link in
            guard let loop = link.pointee.loop.load(ordering: .relaxed), loop.pointee.vanished.load(ordering: .relaxed) else { return }
            // Several threads of the child may come to this.
            loop.lock()
            defer { loop.unlock() }
            guard link.pointee.loop.load(ordering: .relaxed) == loop else { return }
            link.pointee.modes.removeAll()
            link.pointee.isCommon = false
            link.pointee.list = 0
            link.pointee.loop.store(nil, ordering: .sequentiallyConsistent)
            if link.isFirst {
                pointee.state.bitwiseAnd(~SourceState.queued, ordering: .sequentiallyConsistent)
            } else if link.pointee.isQueued.exchange(false, ordering: .sequentiallyConsistent) {
                releaseMemory()
            }
        }
    }
}

extension UnsafeMutablePointer where Pointee == Timer {
    @inline(__always)
    func forgetVanishedLoop() {
        if RunLoopPointer.anyVanished { forgetLoopIfVanished() }
    }

    @inline(never)
    private func forgetLoopIfVanished() {
        guard let loop = pointee.loop.load(ordering: .relaxed) else { return }
        guard !isClaim(loop), loop.pointee.vanished.load(ordering: .relaxed) else { return }
        loop.lock()
        defer { loop.unlock() }
        guard pointee.loop.load(ordering: .relaxed) == loop else { return }
        forEachNode {
            $0.pointee.place = .nowhere
            $0.pointee.isAway = false
        }
        if firstNode.pointee.mode != nil { freeNode(firstNode) }
        while let node = moreNodes { freeNode(node) }
        pointee.modeCount = 0
        pointee.ghostCount = 0
        pointee.isCommon = false
        pointee.state.bitwiseAnd(TimerState.invalid | TimerState.repeats, ordering: .relaxed)
        pointee.loop.store(nil, ordering: .relaxed)
    }
}

extension UnsafeMutablePointer where Pointee == Observer {
    func forgetVanishedLoop() {
        guard RunLoopPointer.anyVanished, let loop = pointee.loop.load(ordering: .relaxed),
            loop.pointee.vanished.load(ordering: .relaxed)
        else { return }
        loop.lock()
        defer { loop.unlock() }
        guard pointee.loop.load(ordering: .relaxed) == loop else { return }
        pointee.modes.removeAll()
        pointee.isCommon = false
        pointee.state.bitwiseAnd(ObserverState.invalid, ordering: .relaxed)
        pointee.inCallout.store(0, ordering: .relaxed)
        pointee.loop.store(nil, ordering: .relaxed)
    }
}
