// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The Thread filter: the end of a thread of `RLThreadStart` (S-KEV-18). An inbox that the thread marks when it has finished.
///
/// The record holds a reference to the thread, and while the thread executes the record is in the thread's list, which the registry's
/// lock guards. The list uses the fields that the Signal filter has for its own. `userFlags` is 1 while the record holds the reference, `count`
/// once the thread has ended.
extension KernelFilter {
    static var thread: KernelFilter {
        KernelFilter(
            number: .thread, open: { $0.openThread() }, take: .init { $0.takeThread(&$1) }, begin: .init { $0.beginThread($1) },
            close: .init { $0.closeThread() })
    }
}

extension UnsafeMutablePointer where Pointee == KernelEvent {
    private var thread: ThreadPointer { ThreadPointer(bitPattern: pointee.ident)! }

    fileprivate func openThread() -> Bool {
        guard let thread = object(OpaquePointer(bitPattern: pointee.ident), as: Thread.self, "RLKernelEventSourceCreate"),
            pointee.fflags & ~Note.exit.rawValue == 0, thread.tryRetain()
        else { return refuse() }
        pointee.flags |= RLKernelEventFlags.oneShot.rawValue
        pointee.userFlags.store(1, ordering: .relaxed)
        return true
    }

    fileprivate func beginThread(_ source: SourcePointer) {
        pointee.source = source
        process.pointee.registryLock.lockWord()
        let hasEnded = thread.isFinished
        if hasEnded {
            noteEnd(of: thread)
        } else {
            let first = thread.pointee.endWatchers
            pointee.nextOfSignal.store(first, ordering: .relaxed)
            first?.pointee.previousOfSignal = self
            thread.pointee.endWatchers = self
        }
        process.pointee.registryLock.unlockWord()
        if hasEnded && mayReport { source.markReady() }
    }

    /// A thread that enables the source sees this, or this thread sees after it that the source may report.
    @inline(never)
    fileprivate func noteEnd(of thread: ThreadPointer) {
        pointee.data.store(Int64(Int(bitPattern: thread.pointee.result)), ordering: .relaxed)
        pointee.count.store(1, ordering: .sequentiallyConsistent)
    }

    /// Another thread may be ending the source, and with it the reference to the thread.
    fileprivate func takeThread(_ happened: inout RLKernelEvent) -> Bool {
        guard pointee.count.load(ordering: .sequentiallyConsistent) != 0 else { return false }
        happened.flags |= RLKernelEventFlags.EOF.rawValue
        happened.fflags = Note.exit.rawValue
        happened.data = pointee.data.load(ordering: .relaxed)
        return true
    }

    fileprivate func closeThread() {
        process.pointee.registryLock.lockWord()
        let isOpen = pointee.userFlags.exchange(0, ordering: .relaxed) == 1
        if isOpen { leaveThreadLocked() }
        process.pointee.registryLock.unlockWord()
        if isOpen { thread.release() }
    }

    /// Does nothing if the record is in no list.
    @inline(never)
    fileprivate func leaveThreadLocked() {
        let next = pointee.nextOfSignal.exchange(nil, ordering: .relaxed)
        if let previous = pointee.previousOfSignal {
            previous.pointee.nextOfSignal.store(next, ordering: .relaxed)
        } else if thread.pointee.endWatchers == self {
            thread.pointee.endWatchers = next
        }
        next?.pointee.previousOfSignal = pointee.previousOfSignal
        pointee.previousOfSignal = nil
    }
}

extension UnsafeMutablePointer where Pointee == Thread {
    /// The thread has finished: marks the sources that wait for it as ready, and then leaves the list of threads. At a fork, which takes the
    /// lock, each source is marked, or the child finds it here.
    func tellEnd() {
        while true {
            process.pointee.registryLock.lockWord()
            guard let record = pointee.endWatchers else { break }
            record.leaveThreadLocked()
            record.noteEnd(of: self)
            let source = record.pointee.source.flatMap { $0.tryRetain() ? $0 : nil }
            if record.mayReport { source?.markReady() }
            process.pointee.registryLock.unlockWord()
            source?.release()
        }
        leaveListLocked()
        process.pointee.registryLock.unlockWord()
    }

    /// In the child of `fork`, where the thread does not exist: takes no reference, so that no function of the client is called.
    func tellEndInChild() {
        while let record = pointee.endWatchers {
            record.leaveThreadLocked()
            record.noteEnd(of: self)
            if let source = record.pointee.source, source.isAlive, record.mayReport { source.markReady() }
        }
    }
}
