// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The main dispatch queue, as the main thread's loop sees it (section 14 of the specification).
///
/// libdispatch has an eventfd that it makes readable when something is queued for the main thread, and a function that runs what
/// is queued. Both are found by name when the queue is attached; the library links to nothing for it. The eventfd is watched by
/// the epoll set of whichever mode serves the queue (`PortSet`). All loops that serve the queue share its count: CoreFoundation's
/// loop on the same thread reads it too, and the second reader finds nothing to do.
struct MainQueue: ~Copyable {
    /// A `MainQueueState`. Written under the registry's lock; the next two fields are written before it says attached. Sequentially
    /// consistent with `mainLoop` and `wake`: the attaching thread stores it and then makes the main loop, if there is one, look
    /// again; a main loop that is made, or goes to sleep, looks here after that.
    let state: Atomic<UInt32>
    var handle: Int32
    var drain: DrainFunction?
    /// A call of the queue's is on the stack. Main thread only.
    var isDraining: Bool

    static var shared: UnsafeMutablePointer<MainQueue> { rl_main_queue().assumingMemoryBound(to: MainQueue.self) }
}

/// The values of `MainQueue.state`. Every legal value is here.
enum MainQueueState {
    static var detached: UInt32 { 0 }
    static var attached: UInt32 { 1 }
    /// In the child of `fork`: the eventfd is the parent's too, and a count that is read here is lost there.
    static var lost: UInt32 { 2 }
}

/// `_dispatch_get_main_queue_handle_4CF`.
private typealias HandleFunction = @convention(c) () -> Int32

extension MainQueue {
    /// `RLAttachMainQueue`. libdispatch is called without a lock; two threads that call it at once both find the same.
    static func attach() -> Bool {
        switch shared.pointee.state.load(ordering: .acquiring) {
        case MainQueueState.attached: return true
        case MainQueueState.lost: return false
        default: break
        }
        let searches = process.pointee.maySearchLibraries
        guard let getHandle = rl_dispatch_function("_dispatch_get_main_queue_handle_4CF", searches),
            let drain = rl_dispatch_function("_dispatch_main_queue_callback_4CF", searches),
            canOpenDescriptor()
        else { return false }
        let handle = unsafeBitCast(getHandle, to: HandleFunction.self)()
        guard handle >= 0 else { return false }

        process.pointee.registryLock.lockWord()
        if MainQueue.shared.pointee.state.load(ordering: .relaxed) == MainQueueState.detached {
            MainQueue.shared.pointee.handle = handle
            MainQueue.shared.pointee.drain = unsafeBitCast(drain, to: DrainFunction.self)
            MainQueue.shared.pointee.state.store(MainQueueState.attached, ordering: .sequentiallyConsistent)
        }
        process.pointee.registryLock.unlockWord()
        // A main loop that sleeps in such a mode does not end its wait, but watches the queue from now on.
        registry.pointee.mainLoop.load(ordering: .sequentiallyConsistent)?.lookAgainIfForeign()
        return true
    }

    /// libdispatch traps if it gets no eventfd for its main queue, so the library checks first.
    private static func canOpenDescriptor() -> Bool {
        let probe = eventfd(0, Int32(EFD_CLOEXEC))
        guard probe >= 0 else { return false }
        rl_sys_close(probe)
        return true
    }

    /// The child of `fork` has no claim on the parent's eventfd.
    static func detachInChild() {
        if MainQueue.shared.pointee.state.load(ordering: .relaxed) == MainQueueState.attached {
            MainQueue.shared.pointee.state.store(MainQueueState.lost, ordering: .relaxed)
            MainQueue.shared.pointee.isDraining = false
        }
    }

    /// Whether something is queued; it is not taken.
    static var isReady: Bool { !readiness(of: MainQueue.shared.pointee.handle, .read).isEmpty }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Whether a run of the mode serves the main queue now (S-GCD-1, 2, 8, 9). Loop's thread.
    @inline(always)
    func servesMainQueue(in mode: ModePointer) -> Bool {
        if MainQueue.shared.pointee.state.load(ordering: .sequentiallyConsistent) != MainQueueState.attached { return false }
        return registry.pointee.mainLoop.load(ordering: .relaxed) == self && mode.pointee.isCommon.load(ordering: .relaxed)
            && !MainQueue.shared.pointee.isDraining
    }

    /// Step P8: whether the queue is ready, so that it is served without a wait (S-GCD-6, S-GCD-7).
    @inline(always)
    func peekMainQueue(_ frame: RunFramePointer) -> Bool {
        let mayPeek = frame.pointee.mayPeek
        frame.pointee.mayPeek = true
        return mayPeek && servesMainQueue(in: frame.pointee.mode) && MainQueue.isReady
    }

    /// Runs what is in the queue (S-GCD-4). False if other code has run it since the event, or if this mode does not serve the
    /// queue any more.
    @inline(never)
    func drainMainQueue(_ frame: RunFramePointer) -> Bool {
        // The count is taken first: what is queued during the drain makes the eventfd ready again.
        guard servesMainQueue(in: frame.pointee.mode), takeCount(MainQueue.shared.pointee.handle) else { return false }
        frame.pointee.mayPeek = false
        MainQueue.shared.pointee.isDraining = true
        pointee.counters.mainQueue.count()
        timed(nil) { call(MainQueueCall()) { _ in callOutMainQueue(MainQueue.shared.pointee.drain.unsafelyUnwrapped) } }
        MainQueue.shared.pointee.isDraining = false
        return true
    }
}

/// The main dispatch queue is drained. It leaves nothing to clean up: it ends with the process's main thread.
struct MainQueueCall: CallRecord {
    static var kind: CallKind { .mainQueue }
}
