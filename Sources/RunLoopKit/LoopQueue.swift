#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

/// What asynchronous code wants done on a loop's thread, in order: jobs of the loop's executor and awaited closures.
///
/// There is one queue for a loop, made at the first use and kept until the loop's thread ends. What is put in is drained by one
/// function that the queue posts to the loop's common modes, so it neither keeps a mode from being empty when nothing is
/// in it nor makes a run end that returns after a source. While a job is on the stack, nested runs leave the rest alone: its
/// actor is busy.
///
/// The end of the thread is told by a source in a mode of the queue's own, which nobody runs. From then on awaited closures
/// fail, and jobs run one at a time on the global executor: a task whose loop is gone goes on and finishes.
// Sendable: the reference is to an object of the C library, whose functions may be called from any thread (S-THR-1) and which
// the queue keeps alive; everything that changes is behind the lock.
final class LoopQueue: @unchecked Sendable {
    enum Entry: Sendable {
        case job(UnownedJob, RunLoopExecutor)
        case request(any LoopRequest)
    }

    private struct State {
        var entries: [Entry] = []
        /// Where the next entry is; what is before it was taken.
        var head = 0
        /// A function that drains is on its way to the loop.
        var isPosted = false
        /// Such functions that ran and whose release has not been called yet.
        var performed = 0
        /// An entry is on the stack of the loop's thread, or of a task that does the jobs of a loop that has ended.
        var isDraining = false
        var isEnded = false
        weak var executor: RunLoopExecutor?
        /// Those who want to know of the end, by their numbers.
        var endHandlers: [UInt: @Sendable () -> Void] = [:]
        var lastHandler: UInt = 0

        var isEmpty: Bool { head == entries.count }

        mutating func takeFirst() -> Entry? {
            guard head < entries.count else { return nil }
            let entry = entries[head]
            head += 1
            if head == entries.count {
                entries.removeAll(keepingCapacity: head < 1024)
                head = 0
            }
            return entry
        }
    }

    private let reference: RLRunLoopRef
    private let state = Locked(State())

    /// The queues by the addresses of their loops. A queue keeps its loop, so an address never names another, newer loop.
    private static let table = Locked<[UInt: LoopQueue]>([:])

    private static let endMode = RunLoop.Mode("RunLoopKit.threadEnd")

    private init(_ loop: RunLoop) {
        reference = loop.reference
        _ = RLRetain(RLTypeRef(reference))
    }

    deinit { RLRelease(RLTypeRef(reference)) }

    static func of(_ loop: RunLoop) -> LoopQueue {
        let address = UInt(bitPattern: loop.reference)
        let (queue, isNew) = table.withLock { table in
            if let known = table[address] { return (known, false) }
            let made = LoopQueue(loop)
            table[address] = made
            return (made, true)
        }
        if isNew {
            let end = RunLoop.Source(cancel: { _, _ in queue.end() }, perform: { _ in })
            loop.add(end, forMode: endMode)
            queue.probe(loop)
        }
        return queue
    }

    /// A thread that is gone already tells nobody of its end, but a function that is posted to it is released at once.
    private func probe(_ loop: RunLoop) {
        let isGone = Locked(false)
        LoopQueue.endMode.rawValue.withCString { mode in
            RLPerformFunction(
                reference, mode, { _ in }, Unmanaged.passRetained(isGone).toOpaque(),
                {
                    let isGone = Unmanaged<Locked<Bool>>.fromOpaque($0!).takeRetainedValue()
                    isGone.withLock { $0 = true }
                })
        }
        if isGone.withLock({ $0 }) { end() }
    }

    /// Has the handler called when the loop's thread ends, on that thread, or now if it has ended.
    func atEnd(_ handler: @escaping @Sendable () -> Void) -> UInt {
        let number: UInt? = state.withLock { state in
            if state.isEnded { return nil }
            state.lastHandler += 1
            state.endHandlers[state.lastHandler] = handler
            return state.lastHandler
        }
        if number == nil { handler() }
        return number ?? 0
    }

    /// Whether the loop's thread has ended.
    var hasEnded: Bool { state.withLock { $0.isEnded } }

    /// Takes a handler back; one that is being called goes on.
    func forget(handler number: UInt) {
        let handler = state.withLock { $0.endHandlers.removeValue(forKey: number) }
        _ = handler
    }

    /// Whether the calling thread is the loop's.
    var isOnThread: Bool { RLGetCurrent() == reference }

    /// The loop's executor, one object as long as anybody holds it.
    func executor(of loop: RunLoop) -> RunLoopExecutor {
        state.withLock { state in
            if let executor = state.executor { return executor }
            let made = RunLoopExecutor(loop, self)
            state.executor = made
            return made
        }
    }

    /// Puts something in and wakes the loop. After the loop's end a job goes elsewhere and a request is abandoned.
    func append(_ entry: Entry) {
        enum Then { case nothing, post, runElsewhere, abandon }
        let then: Then = state.withLock { state in
            if state.isEnded, case .request = entry { return .abandon }
            state.entries.append(entry)
            if state.isEnded {
                defer { state.isDraining = true }
                return state.isDraining ? .nothing : .runElsewhere
            }
            defer { state.isPosted = true }
            return state.isPosted ? .nothing : .post
        }
        switch then {
        case .nothing: break
        case .post: post()
        case .runElsewhere: runElsewhere()
        case .abandon: if case .request(let request) = entry { request.abandon() }
        }
    }

    // MARK: On the loop

    private func post() {
        RLPerformFunction(
            reference, kRLCommonModes,
            { Unmanaged<LoopQueue>.fromOpaque($0!).takeUnretainedValue().drain() },
            Unmanaged.passRetained(self).toOpaque(),
            { Unmanaged<LoopQueue>.fromOpaque($0!).takeRetainedValue().wasReleased() })
        RLWakeUp(reference)
    }

    /// Runs what is in the queue now. What is put in meanwhile is posted for a later round, so that the loop gets its turn.
    private func drain() {
        let count = state.withLock { state in
            state.performed += 1
            state.isPosted = false
            // Under an entry: its own drain posts again when it is done.
            if state.isDraining { return 0 }
            state.isDraining = true
            return state.entries.count - state.head
        }
        if count == 0 { return }
        for _ in 0..<count {
            guard let entry = state.withLock({ $0.takeFirst() }) else { break }
            run(entry)
        }
        let isLeft = state.withLock { state in
            state.isDraining = false
            guard !state.isEmpty && !state.isPosted && !state.isEnded else { return false }
            state.isPosted = true
            return true
        }
        if isLeft { post() }
    }

    private func run(_ entry: Entry) {
        switch entry {
        case .job(let job, let executor):
            job.runSynchronously(
                isolatedTo: executor.asUnownedSerialExecutor(), taskExecutor: executor.asUnownedTaskExecutor())
        case .request(let request):
            request.run()
        }
    }

    /// The C library is done with a posted function. If it never ran, the loop's thread is gone.
    private func wasReleased() {
        let ran = state.withLock { state in
            if state.performed == 0 { return false }
            state.performed -= 1
            return true
        }
        if !ran { end() }
    }

    // MARK: After the loop's end

    private func end() {
        let (isFirst, isLeft, handlers) = state.withLock { state in
            if state.isEnded { return (false, false, state.endHandlers) }
            state.isEnded = true
            defer { state.endHandlers = [:] }
            // An entry that ended the thread does not come back.
            state.isDraining = !state.isEmpty
            return (true, !state.isEmpty, state.endHandlers)
        }
        guard isFirst else { return }
        _ = LoopQueue.table.withLock { $0.removeValue(forKey: UInt(bitPattern: reference)) }
        for handler in handlers.values { handler() }
        if isLeft { runElsewhere() }
    }

    /// Does the jobs of a loop that has ended, one at a time, and abandons the requests.
    private func runElsewhere() {
        Task.detached { self.drainElsewhere() }
    }

    private func drainElsewhere() {
        while true {
            let entry = state.withLock { state in
                let first = state.takeFirst()
                if first == nil { state.isDraining = false }
                return first
            }
            switch entry {
            case nil: return
            case .request(let request)?: request.abandon()
            case .job?: run(entry!)
            }
        }
    }
}

/// Something to do on a loop's thread that somebody awaits.
protocol LoopRequest: Sendable {
    /// Does it, on the loop's thread.
    func run()
    /// The loop's thread is gone.
    func abandon()
}
