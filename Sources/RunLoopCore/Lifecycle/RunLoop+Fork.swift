// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// `fork` (S-FORK-1): the child continues with the loop of the thread that forked; other threads' loops do not exist there.
///
/// The prepare handler takes the lock of the forking thread's own loop, those of its queues of requests, and then the process's locks,
/// so that the child gets the structures they guard in a consistent state. Other loops' locks are not taken: their owners do not exist in
/// the child, and may have been stopped anywhere, with a list half linked or a table half moved. So in the child a vanished loop is
/// forgotten and never read: its record becomes that of an empty loop whose thread has ended and which
/// accepts nothing, permanently. What its structures held is leaked, with the references they had.
///
/// Items keep fields of their own that say they are in such a loop:
/// - A source has a link for each loop. One that names a vanished loop is dead: no thread reads its modes, removes it or uses it
///   for another loop. A signaller may still push it on that loop's stack, from which no thread takes anything.
/// - A link that names no loop but counts as queued may be in use by a thread that vanished, or by one that exists. It is
///   not used for another loop either: the source gets a further link (`claimLink`).
/// - A timer or an observer has one loop. It forgets a vanished one, under the lock of the new record, at the first call that
///   concerns it, by resetting its own fields.
enum Fork {
    static func prepare() {
        // Other threads may have added to the main thread's loop before that thread used it itself.
        if RunLoop.ofThread == nil, RunLoop.isMainThread, let main = registry.pointee.mainLoop.load(ordering: .acquiring),
            main.pointee.threadAlive.load(ordering: .acquiring)
        {
            _ = RunLoop.current()
        }
        #if DEBUG
        rehearse()
        #endif
        if !rl_is_single_threaded() { process.pointee.hasForkedThreads.store(true, ordering: .relaxed) }
        Kinds.forEach { $0.pointee.forkPrepare?() }
        ClosingNumber.prepareFork()
        Sharing.shared.pointee.lock.lockWord()
        LoopWaiters.shared.pointee.lock.lockWord()
        Stripe.prepareFork()
    }

    #if DEBUG
    /// Without optimisation Swift creates the metadata of a type at its first use, under a lock that another thread may hold at the
    /// fork. None of the child's uses may be the first. (Tests/Programs/Forks looks for them.)
    private static func rehearse() {
        SocketTable.forEach { _ in }
        FileDescriptor.rehearse()
        ContextUses.rehearse()
        if let loop = RunLoop.ofThread {
            loop.pointee.calls.contains(TimerCall.self) { _ in false }
            loop.pointee.calls.contains(Notification.self) { _ in false }
            loop.pointee.calls.contains(SocketReport.self) { _ in false }
            loop.pointee.calls.contains(MessageCall.self) { _ in false }
            loop.manualClock?.arrive(at: 0)
            loop.followClocks(loop.manualClock)
        }
        Stripe.rehearse()
        UnsafeMutablePointer<RequestQueue>.rehearse()
        PostQueue.rehearse()
        _ = Activity.at(0)
    }
    #endif

    static func parent() {
        // Before the stripes: releasing one may look for threads that wait in their loops.
        LoopWaiters.shared.pointee.lock.unlockWord()
        Stripe.forkedParent()
        Sharing.shared.pointee.lock.unlockWord()
        // In reverse: the locks of the kinds before it guard what a kind walks to release its own.
        Kinds.forEachReversed { $0.pointee.forkParent?() }
    }

    static func child() {
        process.pointee.number.store(getpid(), ordering: .relaxed)
        rl_forget_droppers()
        EpollSet.forgetNumbersInChild()
        // Another thread may have announced a move; nobody here waits for its end.
        var wasMoving = false
        if let clock = RunLoop.ofThread?.manualClock {
            wasMoving = clock.goal != clock.time
            clock.finishMove()
        }
        LoopWaiters.forkedChild()
        Stripe.forkedChild()
        process.pointee.forkGeneration.wrappingAdd(1, ordering: .relaxed)
        if process.pointee.hasForkedThreads.load(ordering: .relaxed) { process.pointee.mayBeTorn.store(true, ordering: .relaxed) }
        OnceCall.renewInChild()
        registerBarrier()
        Clock.forgetWall()
        Kinds.forEach { $0.pointee.forkChild?() }
        Kinds.forEach { $0.pointee.forkChildEnd?() }
        rl_forget_numbers(false)
        ClosingNumber.forkedChild()
        ContextUses.forkedChild()
        Sharing.forkedChild()
        RunLoop.ofThread?.dropInvalidItems()
        // Another thread may have set the clock and not come to the timers.
        if let loop = RunLoop.ofThread {
            loop.followClocks(loop.manualClock)
            // Or was moving its clock, and has not come to it.
            if wasMoving, let clock = loop.manualClock {
                loop.lock()
                loop.followLocked(clock)
                loop.unlock()
            }
        }
        LoopWaiters.tellInChild()
    }
}

/// The loop's part.
extension RunLoop {
    static func prepareFork() {
        Trace.prepareFork()
        if let loop = ofThread {
            loop.lock()
            loop.requests.pointee.lock.lockWord()
            loop.orderedRequests.pointee.lock.lockWord()
        }
        Watcher.prepareFork()
        process.pointee.registryLock.lockWord()
        process.pointee.logLock.lockWord()
    }

    static func forkedParent() {
        process.pointee.logLock.unlockWord()
        process.pointee.registryLock.unlockWord()
        Watcher.forkedParent()
        if let loop = ofThread {
            loop.orderedRequests.pointee.lock.unlockWord()
            loop.requests.pointee.lock.unlockWord()
            loop.unlock()
        }
        Trace.forkedParent()
    }

    static func forkedChild() {
        process.pointee.logLock.resetInChild()
        process.pointee.counterLock.resetInChild()
        process.pointee.registryLock.resetInChild()
        Watcher.forkedChild()
        ClockChanges.forkedChild()
        Trace.forkedChild()
        MainQueue.detachInChild()
        let own = ofThread
        own?.pointee.lock.resetInChild()
        own?.pointee.thread.store(getpid(), ordering: .relaxed)
        // The child shares the kernel's sets with the parent: it closes its numbers, and makes sets of its own at first use.
        own?.forEachModeRecord { $0.pointee.ports.closeKernelSet() }
        forgetOtherLoops(than: own)
        own?.pointee.posts.abandonClaims()
        own?.abandonClaimsOfRounds()
        own?.requests.resetInChild()
        own?.orderedRequests.resetInChild()
        // A main loop that is not this thread's has vanished like the others (S-FORK-1). One that is being freed cannot be the main loop.
        let main = own?.pointee.closing.load(ordering: .relaxed) == true ? nil : own
        if let main, main != registry.pointee.mainLoop.load(ordering: .relaxed) { main.retain() }
        registry.pointee.mainLoop.store(main, ordering: .relaxed)
        registry.pointee.mainThreadHasEnded = false
        if own == nil { pthread_setspecific(process.pointee.threadKey, rl_process()) }
    }

    private static func forgetOtherLoops(than own: RunLoopPointer?) {
        // Pooled loops are consistent, but threads that came late to one may have vanished with its lock, or left a link on its stack.
        var loop = registry.pointee.freeLoops
        while let pooled = loop {
            loop = pooled.pointee.nextPooled
            pooled.pointee.lock.resetInChild()
            pooled.pointee.signalled.store(nil, ordering: .relaxed)
            pooled.pointee.isPooled = true
        }
        loop = registry.pointee.loopRecords
        while let record = loop {
            loop = record.pointee.olderRecord
            if record.pointee.freeingThread == RLThisThread_() {
                // The release of the loop's contents calls the client, which forked: the child goes on freeing it. Others need only its lock.
                record.pointee.lock.resetInChild()
            } else if record != own && !record.pointee.isPooled {
                record.vanish()
            }
            record.pointee.isPooled = false
        }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// In the child of `fork`: turns the record of a loop whose thread does not exist here into an empty loop, which accepts nothing and is
    /// never freed.
    fileprivate func vanish() {
        // While the thread lives the list of modes is always consistent. The thread's end closes the sets before the modes are freed.
        if pointee.threadAlive.load(ordering: .relaxed) { forEachModeRecord { $0.pointee.ports.epoll.close() } }
        if let clock = manualClock {
            clock.pointee.loops.remove(self)
            clock.finishMove()
        }
        let clientReferences = pointee.clientReferences.load(ordering: .relaxed)
        let olderRecord = pointee.olderRecord
        // Not the header: a signal handler may wake the loop at any moment.
        memset(header + 1, 0, MemoryLayout<RunLoop>.size - MemoryLayout<ObjectHeader>.size)
        retain()
        header.pointee.marks.store(header.pointee.marks.load(ordering: .relaxed) & ObjectMarks.named, ordering: .relaxed)
        pointee.clientReferences.store(clientReferences, ordering: .relaxed)
        pointee.olderRecord = olderRecord
        pointee.closing.store(true, ordering: .relaxed)
        pointee.refusesRuns.store(true, ordering: .relaxed)
        pointee.vanished.store(true, ordering: .relaxed)
        pointee.requests.isClosed = true
        pointee.orderedRequests.isClosed = true
        registry.pointee.vanishedMode = shareDefaultModeLocked(registry.pointee.vanishedMode)
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// In the child of `fork`: removes the sources and observers that vanished threads were invalidating, without a `cancel`,
    /// as from their own loops. No function of the client is called here, so the loop's references to them are not released.
    fileprivate func dropInvalidItems() {
        lock()
        func drop(_ source: SourcePointer, from mode: ModePointer?) {
            _ = source.becomeInvalid()
            let link = source.link(in: self)!
            if link.pointee.isCommon {
                link.pointee.isCommon = false
                pointee.commonSources.remove(source)
            }
            if mode.map({ removeLocked(link, from: $0) }) ?? leaveLocked(link) { release() }
        }
        forEachModeRecord { mode in
            while let source = mode.pointee.sources.firstInvalid { drop(source, from: mode) }
            for index in 0..<Activity.count {
                while let observer = mode.pointee.observers[Activity.at(index)]?.firstInvalid {
                    observer.pointee.isCommon = false
                    pointee.commonObservers.remove(observer)
                    _ = removeLocked(observer, from: mode)
                }
            }
        }
        while let source = pointee.commonSources.firstInvalid { drop(source, from: nil) }
        unlock()
    }
}
