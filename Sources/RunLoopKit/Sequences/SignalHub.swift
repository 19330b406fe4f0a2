internal import Synchronization

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

/// Hands the process's signals to those who want them.
///
/// The handler of a signal signals a source of each of them and wakes its loop, which `RLSourceSignal` and `RLWakeUp` allow
/// (S-WAKE-12). It reads a list that is never changed but replaced; who replaces one waits until no handler runs before it lets
/// go of the old one. The lists lie in memory that is made before the first handler is installed.
enum SignalHub {
    /// Somebody who wants a signal.
    struct Subscriber {
        let source: RLSourceRef
        let loop: RLRunLoopRef
    }

    /// What the handler reads. `first` is nil or a list that ends with a zeroed entry.
    private struct Slot: ~Copyable {
        let first = Atomic<UnsafePointer<Subscriber?>?>(nil)
        /// Handlers that may be reading a list now.
        let readers = Atomic<Int>(0)
    }

    static let signals = 65

    // Sendable: made once, and its fields are atomic.
    nonisolated(unsafe) private static let slots: UnsafeMutablePointer<Slot> = {
        let slots = UnsafeMutablePointer<Slot>.allocate(capacity: signals)
        for number in 0..<signals { (slots + number).initialize(to: Slot()) }
        return slots
    }()

    private struct State {
        var lists: [CInt: [Subscriber]] = [:]
        /// What the program had set for a signal before.
        var before: [CInt: sigaction] = [:]
    }

    /// The references in it are to objects that their subscribers keep.
    private static let state = Locked(State())

    /// Whether the process may have a handler for the signal.
    static func canHandle(_ signal: CInt) -> Bool {
        signal > 0 && signal < signals && signal != SIGKILL && signal != SIGSTOP
    }

    /// From now on the source is signalled when the signal comes. False if the system refuses.
    static func add(_ subscriber: Subscriber, for signal: CInt) -> Bool {
        let isAdded = state.withLock { state in
            let others = state.lists[signal] ?? []
            publish(others + [subscriber], for: signal)
            if others.isEmpty {
                // Once without a signal, so that nothing is made for the first time in a handler.
                handleSignal(0)
                var action = sigaction()
                #if canImport(Glibc)
                action.__sigaction_handler.sa_handler = handleSignal
                #else
                action.__sa_handler.sa_handler = handleSignal
                #endif
                action.sa_flags = CInt(SA_RESTART)
                var before = sigaction()
                if sigaction(signal, &action, &before) != 0 {
                    publish([], for: signal)
                    return false
                }
                state.before[signal] = before
            }
            state.lists[signal] = others + [subscriber]
            return true
        }
        unblock(signal)
        return isAdded
    }

    /// Unblocks the signal on this thread: a program may have been started with it blocked, as worker threads of
    /// libdispatch are.
    static func unblock(_ signal: CInt) {
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, signal)
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
    }

    /// The source is not touched any more when this returns. With the last one what the program had set comes back.
    static func remove(_ source: RLSourceRef, for signal: CInt) {
        state.withLock { state in
            let rest = (state.lists[signal] ?? []).filter { $0.source != source }
            state.lists[signal] = rest
            if rest.isEmpty, var before = state.before.removeValue(forKey: signal) { sigaction(signal, &before, nil) }
            publish(rest, for: signal)
        }
    }

    private static func publish(_ list: [Subscriber], for signal: CInt) {
        var next: UnsafeMutablePointer<Subscriber?>?
        if !list.isEmpty {
            next = .allocate(capacity: list.count + 1)
            for (index, subscriber) in list.enumerated() { (next! + index).initialize(to: subscriber) }
            (next! + list.count).initialize(to: nil)
        }
        let slot = slots + Int(signal)
        let old = slot.pointee.first.exchange(next.map { UnsafePointer($0) }, ordering: .sequentiallyConsistent)
        // A handler makes a few calls that do not block, and one that interrupts this thread is over before it goes on.
        while slot.pointee.readers.load(ordering: .sequentiallyConsistent) != 0 { sched_yield() }
        old?.deallocate()
    }

    /// In a signal handler.
    fileprivate static func deliver(_ signal: CInt) {
        let slot = slots + Int(signal)
        slot.pointee.readers.add(1, ordering: .sequentiallyConsistent)
        var next = slot.pointee.first.load(ordering: .sequentiallyConsistent)
        while let entry = next, let subscriber = entry.pointee {
            RLSourceSignal(subscriber.source)
            RLWakeUp(subscriber.loop)
            next = entry + 1
        }
        slot.pointee.readers.subtract(1, ordering: .sequentiallyConsistent)
    }
}

private func handleSignal(_ signal: CInt) {
    let savedErrno = errno
    SignalHub.deliver(signal)
    errno = savedErrno
}
