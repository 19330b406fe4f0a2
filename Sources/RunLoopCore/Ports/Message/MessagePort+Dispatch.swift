// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Serving a local port on a dispatch queue (S-MSG-12).
///
/// The port's epoll set is readable when there is something to do, so a read source of libdispatch on it takes the place of the
/// run loop source: each call of its handler serves one message, as a pass does, and the source comes again while the set is
/// ready. The functions are found by name, as for the main queue (`MainQueue`); the library links to nothing for it.
///
/// The record belongs to libdispatch's source, which frees it in its cancel handler: after that nothing uses the descriptor, a
/// duplicate of the set's. The port has one reference to the source, which it gives up by `cancel`.
struct DispatchServing {
    let port: MessagePortPointer
    /// -1 once it was found to be another file's. Changed under the port's lock while the port has this record.
    var descriptor: Int32
    let source: UnsafeMutableRawPointer
    let functions: rl_dispatch
}

typealias DispatchServingPointer = UnsafeMutablePointer<DispatchServing>

extension UnsafeMutablePointer where Pointee == DispatchServing {
    /// Lets the source begin, even if it has been cancelled meanwhile, and gives back the starter's reference.
    fileprivate func start() {
        let (source, functions) = (pointee.source, pointee.functions)
        functions.resume!(source)
        functions.release!(source)
    }

    /// No handler begins any more; the record is libdispatch's from here on. The caller gives up the port's reference.
    func cancel() {
        let (source, functions) = (pointee.source, pointee.functions)
        functions.cancel!(source)
        functions.release!(source)
    }

    /// The event handler: serves one message, unless the port is served by something else now.
    fileprivate func serve() {
        let port = pointee.port
        port.lock()
        let isInUse = port.pointee.local.dispatch == self
        port.unlock()
        if isInUse { _ = port.serve() }
    }

    /// The cancel handler: the last call for the source.
    fileprivate func end() {
        rl_sys_close(pointee.descriptor)
        pointee.port.releaseMemory()
        CRunLoopLinux.free(self)
    }
}

extension UnsafeMutablePointer where Pointee == MessagePort {
    /// `RLMessagePortSetDispatchQueue`. libdispatch is called without the port's lock. It has cancellation points (S-LOOP-20).
    func setDispatchQueue(_ queue: UnsafeMutableRawPointer?) {
        let cancellation = rl_disable_cancellation()
        defer { rl_restore_cancellation(cancellation) }
        var problem: StaticString?
        var made: DispatchServingPointer?
        if pointee.isRemote {
            problem = "the port is a remote one"
        } else if let queue {
            (made, problem) = makeServing(on: queue)
        }
        var old: DispatchServingPointer?
        if problem == nil {
            lock()
            if !isValid {
                problem = "the port is invalid"
            } else if pointee.source?.isValid == true {
                problem = "the port has a source"
            } else {
                forgetLostQueueLocked()
                old = pointee.local.dispatch
                pointee.local.dispatch = made
            }
            unlock()
            // A refused source has to begin before it can end: libdispatch frees no source that was never started.
            if problem != nil { old = made }
        }
        if let made {
            // The port's reference is not enough: another thread may drop it as soon as the port has it.
            made.start()
        }
        old?.cancel()
        if let problem { MessagePortPointer.logProblem("RLMessagePortSetDispatchQueue", problem, nil) }
    }

    /// A source that has not begun, with two references: one for the port, one for the thread that starts it.
    private func makeServing(on queue: UnsafeMutableRawPointer) -> (DispatchServingPointer?, StaticString?) {
        var functions = rl_dispatch()
        guard rl_load_dispatch(&functions, process.pointee.maySearchLibraries) else { return (nil, "the process has no libdispatch") }
        lock()
        // The number is open as long as the lock is held.
        let isOpen = isValid && pointee.local.epoll >= 0
        let descriptor = isOpen ? rl_dup_own(pointee.local.epoll) : -1
        unlock()
        guard isOpen else { return (nil, "the port is invalid") }
        guard descriptor >= 0 else { return (nil, "no descriptor") }
        guard let source = functions.create!(functions.read_type, UInt(descriptor), 0, queue) else {
            rl_sys_close(descriptor)
            return (nil, "libdispatch has no source for it")
        }
        functions.retain!(source)
        holdMemory()
        let serving = makeArray(DispatchServing.self, count: 1)
        serving.initialize(to: DispatchServing(port: self, descriptor: descriptor, source: source, functions: functions))
        functions.set_context!(source, serving)
        functions.set_event_handler!(source) { context in context!.assumingMemoryBound(to: DispatchServing.self).serve() }
        functions.set_cancel_handler!(source) { context in context!.assumingMemoryBound(to: DispatchServing.self).end() }
        return (serving, nil)
    }

    /// Closes nothing later if the number of the duplicate is not the set's any more (S-MSG-52). Caller holds the lock.
    func forgetLostQueueLocked() {
        guard let serving = pointee.local.dispatch else { return }
        if isLostLocked(serving.pointee.descriptor) { serving.pointee.descriptor = -1 }
    }

    /// Takes the port from its queue: it is invalid.
    func leaveDispatchQueue() {
        lock()
        let serving = pointee.local.dispatch
        pointee.local.dispatch = nil
        unlock()
        let cancellation = rl_disable_cancellation()
        serving?.cancel()
        rl_restore_cancellation(cancellation)
    }

    /// Looks at what is paused again in a tenth of a second, if the port is served by a queue.
    func resumeByQueue() -> Bool {
        lock()
        let functions = pointee.local.dispatch?.pointee.functions
        unlock()
        guard let functions else { return false }
        holdMemory()
        functions.after!(functions.time!(0, Clock.retryDelay), functions.global_queue!(0, 0), self) { port in
            let port = MessagePortPointer(info: port)
            if !port.resumePaused() { port.resumeLater() }
            port.releaseMemory()
        }
        return true
    }

    /// In the child of `fork`, which has none of its parent's queues: the number is closed, the record is left alone.
    func loseDispatchQueue() {
        if let serving = pointee.local.dispatch { rl_sys_close(serving.pointee.descriptor) }
        pointee.local.dispatch = nil
    }
}
