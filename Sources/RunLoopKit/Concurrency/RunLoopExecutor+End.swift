// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

// Where executors come from, and what becomes of them and their entries when the loop's thread ends.
//
// The end is told by a source in a mode of the executor's own, which nobody runs: it is cancelled at thread exit, among all other
// sources of the loop. Their cancel closures are still on the thread, isolated to its actors. So the executor ends after them, when
// the thread's own values are destroyed. From then on awaited closures fail, and jobs run one at a time on the global
// executor: a task whose loop is gone goes on and finishes.

extension RunLoopExecutor {
    static var endMode: RunLoop.Mode { RunLoop.Mode("RunLoopKit.threadEnd") }

    static var all: [RunLoopExecutor] { table.all }

    /// The one executor of a loop.
    static func of(_ loop: RunLoop) -> RunLoopExecutor {
        var made: RunLoopExecutor?
        let (executor, isNew) = table.object(of: UInt(bitPattern: loop.reference)) {
            let new = RunLoopExecutor(loop.reference)
            new.watchEnd()
            made = new
            return new
        }
        if !isNew { made?.discard() }
        return executor
    }

    /// Has ``end()`` called at the end of the thread, or ends now if that is gone. Nobody else has this object yet.
    private func watchEnd() {
        // The C library calls destructors by the age of their keys, and `dispatch_main` makes a key whose destructor never returns.
        _ = RunLoopExecutor.endingKey
        let end = RunLoop.Source(cancel: { [self] _, _ in endWithThread() }, perform: { _ in })
        // In this order: the thread may end at once, and then nobody else would let go of the source, whose closure keeps this object.
        endSource.withLock { $0 = end }
        RunLoopExecutor.endMode.rawValue.withCString { RLAddSource(reference, end.reference, $0) }
        if RunLoopExecutor.isGone(reference) { discard() }
    }

    /// Nothing was put in.
    private func discard() {
        guard let end = endSource.withLock({ $0 }) else { return }
        _ = close()
        // Its cancel closure finds the end known.
        end.invalidate()
    }

    /// The key's destructor comes when the C library, whose key is the older one, has cancelled all sources of the loop.
    static let endingKey: pthread_key_t = {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { Unmanaged<RunLoopExecutor>.fromOpaque($0!).takeRetainedValue().end() }
        precondition(status == 0, "RunLoopKit: no thread-specific key is left in this process")
        return key
    }()

    /// On the loop's thread, at its end, with other sources still to be cancelled.
    private func endWithThread() {
        if hasEnded { return }
        let key = RunLoopExecutor.endingKey
        if let earlier = pthread_getspecific(key) {
            // Of a loop that the thread had before.
            pthread_setspecific(key, nil)
            Unmanaged<RunLoopExecutor>.fromOpaque(earlier).takeRetainedValue().end()
        }
        let kept = Unmanaged.passRetained(self)
        if pthread_setspecific(key, kept.toOpaque()) != 0 { kept.takeRetainedValue().end() }
    }

    /// A thread that is gone already tells nobody of its end, but a function that is posted to it is released at once.
    static func isGone(_ reference: RLRunLoopRef) -> Bool {
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

    // MARK: - The end of the loop's thread

    /// Runs what the runs of the calling thread's loop have left of the entries that are there now, one after the other, without a run: the
    /// thread ends. Those that come later go elsewhere, unless a run in one of these serves them.
    static func performLast() {
        // Held by no variable, as in `performDrain`; its drainers keep it.
        unmanagedOfCaller()?._withUnsafeGuaranteedRef { $0.drainLast() }
    }

    @inline(never)
    private static func unmanagedOfCaller() -> Unmanaged<RunLoopExecutor>? {
        (currentKey.get() ?? known(of: RLGetCurrentIfMade())).map { Unmanaged.passUnretained($0) }
    }

    private func drainLast() {
        if RunLoopExecutor.currentKey.get() !== self { RunLoopExecutor.currentKey.set(self) }
        takeMail()
        let last = begun + own.count
        while begun < last, !RunLoopThread.isCancelledCaller, let next = takeNext() {
            // A run in the entry before may have left the entries to a drain that is on its way.
            isDraining = true
            run(next)
        }
        rest()
    }

    /// What is to be done about the end of an executor.
    struct Close {
        /// Whom to tell.
        let handlers: [@Sendable () -> Void]
        /// Awaited closures that ended the thread: nobody comes back from them.
        let unfinished: [LoopRequest]
        /// Whether there are entries, which the caller has to see to.
        let isLeft: Bool
    }

    /// From now on the thread's entries are like everybody's. On the loop's thread, or when that is gone.
    ///
    /// - Returns: nil if the end was known.
    func close() -> Close? {
        if RunLoopExecutor.currentKey.get() === self { RunLoopExecutor.currentKey.set(nil) }
        let close: Close? = mail.withLock { mail in
            if mail.isEnded { return nil }
            mail.isEnded = true
            own.takeAll(of: &mail.entries)
            swap(&own, &mail.entries)
            // An entry that ended the thread does not come back.
            mail.isDrainedElsewhere = !mail.entries.isEmpty
            // They stay in the mail until they are called, for a child of `fork` in which nobody goes on with that.
            let handlers = Array(mail.endHandlers.values)
            return Close(handlers: handlers, unfinished: running, isLeft: mail.isDrainedElsewhere)
        }
        guard close != nil else { return nil }
        running = []
        forgotten = []
        let source = endSource.withLock { source in
            defer { source = nil }
            return source
        }
        withExtendedLifetime(source) {}
        // The last that keeps this object may be a drainer.
        withExtendedLifetime(self) {
            for drainer in otherDrainers + [mail.withLock { $0.drainer }] { drainer.executor = nil }
            otherDrainers = []
        }
        return close
    }

    // MARK: - After the end

    func end() {
        guard let close = close() else { return }
        for handler in close.handlers { handler() }
        for request in close.unfinished { request.abandon() }
        let called = mail.withLock { mail in
            defer { (mail.endHandlers, mail.taken) = ([:], []) }
            return (mail.endHandlers, mail.taken)
        }
        withExtendedLifetime(called) {}
        if close.isLeft { ForkedChild.runElsewhere { self.drainElsewhere() } }
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
            case .taskJob?: runJob(entry!)
            case .actorJob?:
                // A run of the loop in the job may come here for another one.
                let outer = RunLoopExecutor.elsewhereKey.get()
                RunLoopExecutor.elsewhereKey.set(self)
                runJob(entry!)
                RunLoopExecutor.elsewhereKey.set(outer)
            }
        }
    }
}
