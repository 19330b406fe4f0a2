// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// The jobs of the global executor in a child of `fork`.
///
/// libdispatch runs them, and counts there on threads that do not exist any more: they would wait for ever, and with them every task that
/// has to do with that executor for a moment, such as an actor's that takes an element of an `AsyncStream` or awaits another task. So the
/// loop that goes on runs them.
enum GlobalJobs {
    // The conventions of Swift and of C agree on functions of one or two pointers.
    private typealias Original = @convention(c) (UnsafeRawPointer) -> Void
    private typealias Hook = @convention(c) (UnsafeRawPointer, UnsafeRawPointer) -> Void

    /// What the runtime calls with such a job, if it is set. Nil in a program whose libraries are not shared ones.
    nonisolated(unsafe) private static let variable = systemFunction("swift_task_enqueueGlobal_hook")?
        .assumingMemoryBound(to: UnsafeRawPointer?.self)

    static func prepare() { _ = variable }

    /// In the child, before `fork` returns there. What the program has set stays.
    static func beginInChild() {
        guard let variable, variable.pointee == nil else { return }
        let hook: Hook = { job, original in
            guard let executor = GlobalJobs.executor else { return unsafeBitCast(original, to: Original.self)(job) }
            executor.append(.taskJob(unsafeBitCast(job, to: UnownedJob.self)))
        }
        variable.pointee = unsafeBitCast(hook, to: UnsafeRawPointer?.self)
    }

    /// That of the calling thread's loop, if it has one and lives, or else of the main loop. Nil in a child that has neither run the main
    /// loop nor a task on it: there libdispatch does what it can.
    private static var executor: RunLoopExecutor? {
        if let own = RunLoopExecutor.currentKey.get() ?? RunLoopExecutor.known(of: RLGetCurrentIfMade()), !own.hasEnded { return own }
        let executor = RunLoopExecutor.known(of: RLGetMain()) ?? (RunLoop.main.currentMode == nil ? nil : RunLoop.main.executor)
        return executor?.hasEnded == false ? executor : nil
    }
}
