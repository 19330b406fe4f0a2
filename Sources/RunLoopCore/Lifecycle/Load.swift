import CLinux
import Synchronization

/// What is done when the library is loaded, on the loading thread, before any client code can call it.
@section(".init_array") @used
private let loadConstructor: @convention(c) () -> Void = { load() }

private func load() {
    // Known when it is compiled.
    if MemoryLayout<Process>.size > RL_PROCESS_SIZE { trap("RunLoop", "RL_PROCESS_SIZE is too small") }
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
