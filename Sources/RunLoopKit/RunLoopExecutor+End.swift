#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// Where executors come from, and what becomes of them and their entries when the loop's thread ends.
//
// The end is told by a source in a mode of the executor's own, which nobody runs: it is cancelled at thread exit. From then on
// awaited closures fail, and jobs run one at a time on the global executor: a task whose loop is gone goes on and finishes.

extension RunLoopExecutor {
    private struct Known {
        weak var executor: RunLoopExecutor?
        /// The same, as long as the loop's thread lives.
        var kept: RunLoopExecutor?
    }

    /// The executors by the addresses of their loops. One keeps its loop, so an address never names another, newer loop.
    private static let table = Locked<[UInt: Known]>([:])

    private static let endMode = RunLoop.Mode("RunLoopKit.threadEnd")

    private var address: UInt { UInt(bitPattern: reference) }

    /// The one executor of a loop.
    static func of(_ loop: RunLoop) -> RunLoopExecutor {
        let address = UInt(bitPattern: loop.reference)
        return table.withLock { table in
            if let known = table[address]?.executor { return known }
            let made = RunLoopExecutor(RLRunLoopRef(bitPattern: address)!)
            // Before anybody else sees it, so nothing was put in when the thread turns out to be gone. Its end, which may come
            // meanwhile, waits for the table.
            let end = RunLoop.Source(cancel: { _, _ in made.end() }, perform: { _ in })
            endMode.rawValue.withCString { RLAddSource(made.reference, end.reference, $0) }
            if made.isLoopGone {
                _ = made.close()
                // Nobody cancels it any more, and it keeps the executor.
                end.invalidate()
            }
            let lives = !made.hasEnded
            table[address] = Known(executor: made, kept: lives ? made : nil)
            return made
        }
    }

    /// For the deinitializer, unless a newer executor has taken the place over.
    func forgetInTable() {
        let newer = RunLoopExecutor.table.withLock { table in
            let newer = table[address]?.executor
            if newer == nil { table[address] = nil }
            return newer
        }
        // Perhaps the last reference by now, which must not go under the lock.
        withExtendedLifetime(newer) {}
    }

    /// A thread that is gone already tells nobody of its end, but a function that is posted to it is released at once.
    private var isLoopGone: Bool {
        let isGone = Locked(false)
        RunLoopExecutor.endMode.rawValue.withCString { mode in
            RLPerformFunction(
                reference, mode, { _ in }, Unmanaged.passRetained(isGone).toOpaque(),
                {
                    let isGone = Unmanaged<Locked<Bool>>.fromOpaque($0!).takeRetainedValue()
                    isGone.withLock { $0 = true }
                })
        }
        return isGone.withLock { $0 }
    }

    // MARK: - Who wants to know

    /// Whether the loop's thread has ended.
    var hasEnded: Bool { mail.withLock { $0.isEnded } }

    /// Has the handler called when the loop's thread ends, on that thread, or now if it has ended.
    func atEnd(_ handler: @escaping @Sendable () -> Void) -> UInt {
        let number: UInt? = mail.withLock { mail in
            if mail.isEnded { return nil }
            mail.lastHandler += 1
            mail.endHandlers[mail.lastHandler] = handler
            return mail.lastHandler
        }
        if number == nil { handler() }
        return number ?? 0
    }

    /// Takes a handler back; one that is being called goes on.
    func forget(handler number: UInt) {
        let handler = mail.withLock { $0.endHandlers.removeValue(forKey: number) }
        _ = handler
    }

    // MARK: - After the end

    private func end() {
        guard let (handlers, isLeft) = close() else { return }
        let kept = RunLoopExecutor.table.withLock { table in
            defer { table[address]?.kept = nil }
            return table[address]?.kept
        }
        for handler in handlers { handler() }
        if isLeft { Task.detached { self.drainElsewhere() } }
        withExtendedLifetime(kept) {}
    }

    /// Does the jobs of a loop that has ended, one at a time, and abandons the requests.
    func drainElsewhere() {
        while true {
            let entry = mail.withLock { mail in
                let first = mail.entries.takeFirst()
                if first == nil { mail.isDrainedElsewhere = false }
                return first
            }
            switch entry {
            case nil: return
            case .request(let request)?: request.abandon()
            case .actorJob?, .taskJob?: run(entry!)
            }
        }
    }
}
