// SPDX-License-Identifier: MIT
// The Swift runtime resumes a continuation on the executor that its task prefers, or on the global one, and an actor's task goes to the
// actor from there. A child of `fork` does not have the threads of the global executor, nor what was on its way over them.

extension RunLoopExecutor {
    /// Calls a body that waits for a continuation. On an actor of the calling thread's loop the task prefers that loop meanwhile, so that
    /// it is resumed there and goes nowhere else. That saves the way over another thread as well.
    ///
    /// - Parameters:
    ///   - isolation: the caller's actor.
    ///   - body: has to use the isolation; otherwise it is called elsewhere.
    /// - Returns: what the body returned.
    /// - Throws: what the body threw.
    static func staying<Value, Failure: Error>(
        isolation: isolated (any Actor)?, _ body: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        guard isolation != nil, let home = ofTask(isolatedTo: isolation) else { return try await body() }
        return try await withTaskExecutorPreference(home, isolation: isolation, operation: body)
    }

    /// Lets others go on that are on the task's executor.
    static func yielding(isolation: isolated (any Actor)?) async {
        await staying(isolation: isolation) {
            _ = isolation
            await Task.yield()
        }
    }
}
