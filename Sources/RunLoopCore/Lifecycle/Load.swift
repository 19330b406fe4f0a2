import CLinux
import Synchronization

/// What is done when the library is loaded, on the loading thread, before any client code can call it.
@section(".init_array") @used
private let loadConstructor: @convention(c) () -> Void = { load() }

/// What it finds is known when it is compiled.
private func checkStates() {
    func check<State: ~Copyable>(_ type: State.Type, _ size: Int) {
        if MemoryLayout<State>.size > size { trap("RunLoop", "RL_STATES has too little room for a part") }
    }
    check(Process.self, rl_process_size())
    if Kind.tableSize > rl_kinds_size() { trap("RunLoop", "RL_STATES has too little room for the kinds") }
    check(CallbackTable.self, rl_callbacks_size())
    check(Registry.self, rl_registry_size())
    check(MainQueue.self, rl_main_queue_size())
    check(RecordList<ForeignRun>.self, rl_foreign_runs_size())
    check(NotifierPort.self, rl_notifier_port_size())
    check(KernelEvents.self, rl_kernel_events_size())
    check(NumberTable<SocketPointer?>.self, rl_sockets_size())
    check(MachPorts.self, rl_mach_ports_size())
    check(MessagePortTable.self, rl_message_ports_size())
}

private func load() {
    checkStates()
    Kinds.enter()
    KernelFilter.enter()
    registerBarrier()
    if pthread_key_create(&process.pointee.threadKey, { RunLoop.threadEnds($0!) }) != 0 {
        trap("RunLoop", "no thread-specific key")
    }
    // Prepare handlers run in reverse order of registration: a client's own runs before the library's takes locks.
    pthread_atfork({ Fork.prepare() }, { Fork.parent() }, { Fork.child() })
    // Without optimisation Swift makes what it knows of a type at the first use, with locks and memory from malloc. The only use
    // of that kind which RLWakeUp and RLStop have must not be the first one, because that may be in a signal handler.
    process.pointee.forkGeneration.futexWakeOne()
    if RunLoop.isMainThread { pthread_setspecific(process.pointee.threadKey, rl_process()) }
}
