// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What is done when the library is loaded, on the loading thread, before any client code can call it.
// With a priority: before the constructors that have none, which may call the library. `fork` calls prepare handlers in the reverse order
// of their registration and the others in that order, so the library's locks are taken after what theirs take, and are free again before theirs
// run.
@section(".init_array.00200") @used
private let loadConstructor: @convention(c) () -> Void = { load() }

/// Both sizes are known at compile time. The function takes sizes, not types: without optimisation a generic function would request
/// the runtime's metadata of a type, which does not exist yet while constructors run.
private func checkStates() {
    func check(_ size: Int, _ room: Int) {
        if size > room { trap("RunLoop", "RL_STATES has too little room for a part") }
    }
    check(MemoryLayout<Process>.size, rl_process_size())
    check(Kind.tableSize, rl_kinds_size())
    check(MemoryLayout<CallbackTable>.size, rl_callbacks_size())
    check(MemoryLayout<Registry>.size, rl_registry_size())
    check(MemoryLayout<ContextUses>.size, rl_context_uses_size())
    check(MemoryLayout<Names>.size, rl_names_size())
    check(MemoryLayout<MainQueue>.size, rl_main_queue_size())
    check(MemoryLayout<RecordList<ForeignRun>>.size, rl_foreign_runs_size())
    check(MemoryLayout<NotifierPort>.size, rl_notifier_port_size())
    check(MemoryLayout<KernelEvents>.size, rl_kernel_events_size())
    check(MemoryLayout<NumberTable<SocketPointer?>>.size, rl_sockets_size())
    check(MemoryLayout<DistributedLocks>.size, rl_distributed_locks_size())
    check(MemoryLayout<MachPorts>.size, rl_mach_ports_size())
    check(MemoryLayout<MessagePortTable>.size, rl_message_ports_size())
    check(MemoryLayout<Threads>.size, rl_threads_size())
    check(MemoryLayout<LoopWaiters>.size, rl_loop_waiters_size())
    check(MemoryLayout<Watcher>.size, rl_watcher_size())
    check(MemoryLayout<ClockChanges>.size, rl_clock_changes_size())
    check(MemoryLayout<Sharing>.size, rl_sharing_size())
    check(MemoryLayout<Trace>.size, rl_trace_size())
    check(MemoryLayout<Stripe>.stride * Stripe.count, rl_synchronized_size())
}

private func load() {
    checkStates()
    Kinds.enter()
    KernelFilter.enter()
    KernelFilter.enter(.thread)
    Names.shared.pointee.forgetAccounts = { Accounting.forget($0.assumingMemoryBound(to: ObjectHeader.self)) }
    Watcher.enter()
    process.pointee.tellLost = {
        let isShared = Sharing.begin()
        let listens = ClockChanges.listenAgain()
        var isReleased = false
        while ContextUses.settle(.releaseAfterFork, nil) { isReleased = true }
        return KernelEvent.tellLost() || isShared || listens || isReleased
    }
    Sharing.askEnvironment()
    Names.shared.pointee.traceLocked = { object, name in Trace.nameLocked(.object, UInt(bitPattern: object), name, 0, 0) }
    rl_look_for_number_in_clock()
    process.pointee.number.store(getpid(), ordering: .relaxed)
    rl_on_leave { RunLoop.leaveCallback() }
    registerBarrier()
    if pthread_key_create(&process.pointee.threadKey, { RunLoop.threadEnds($0!) }) != 0 {
        trap("RunLoop", "no thread-specific key")
    }
    if pthread_key_create(&threads.pointee.valuesKey, { ThreadValue.threadEnds($0!) }) != 0 { trap("RunLoop", "no thread-specific key") }
    // Prepare handlers run in reverse order of registration: a client's own runs before the library's takes locks.
    pthread_atfork({ Fork.prepare() }, { Fork.parent() }, { Fork.child() })
    // Without optimisation Swift creates the metadata of a type at its first use, with locks and memory from malloc. For the only such type
    // that RLWakeUp and RLStop use, that must not happen there, because they may run in a signal handler.
    process.pointee.forkGeneration.futexWakeOne()
    if RunLoop.isMainThread { pthread_setspecific(process.pointee.threadKey, rl_process()) }
}
