// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// What a kernel event source reports, and whether it may.
extension UnsafeMutablePointer where Pointee == KernelEvent {
    func setEnabled(_ enabled: Bool) {
        if enabled {
            pointee.state.bitwiseAnd(~KernelEventState.disabled, ordering: .sequentiallyConsistent)
        } else {
            pointee.state.bitwiseOr(KernelEventState.disabled, ordering: .sequentiallyConsistent)
        }
        guard let source = pointee.source else { return }
        if source.isWatch {
            alignInterest(of: source)
        } else if enabled && hasPending {
            source.markReady()
        }
    }

    /// The watch is interested exactly while the source may report. Two threads that change the state may come here in either
    /// order: each returns only when what it did is still right.
    private func alignInterest(of source: SourcePointer) {
        var aligned: Bool
        repeat {
            aligned = mayReport
            if aligned { source.enableInterest(.read) } else { source.disableInterest(.read) }
        } while mayReport != aligned
    }

    /// Adds to what an inbox has to report, and marks the inbox. Any thread, also in a signal handler.
    func tell(_ notes: UInt32) {
        if let tell = pointee.filter.pointee.tell { return tell.call(self) }
        pointee.userFlags.bitwiseOr(notes | Note.trigger.rawValue, ordering: .sequentiallyConsistent)
        if mayReport { pointee.source?.markReady() }
    }

    /// In the child of `fork`: what happened to a file and was not reported is reported by the parent.
    func forgetReports() {
        pointee.userFlags.store(0, ordering: .relaxed)
        pointee.source?.forgetSignal()
    }

    /// The handler of the watch.
    func reportReadiness() -> Bool {
        pointee.lock.lockWord()
        var happened = blankEvent
        let isLost = pointee.descriptor >= 0 && !ownsDescriptor
        if isLost {
            rl_number_ends(pointee.descriptor)
            pointee.descriptor = -1
        }
        let mayReport = self.mayReport
        let descriptor = pointee.descriptor
        let isReport = mayReport && descriptor >= 0 && pointee.filter.pointee.watched.unsafelyUnwrapped.read(self, &happened)
        // Nothing was there if another loop was faster.
        let isRefused = !isReport && rl_errno() != EAGAIN
        if isReport { countReportLocked() }
        pointee.lock.unlockWord()
        if isLost {
            // First: the log handler may end the thread.
            pointee.source?.invalidate()
            Log.write("RunLoop", ": the descriptor of a kernel event source was closed or replaced: it is invalid")
        }
        if isReport {
            report(&happened)
        } else if mayReport && isRefused && !readiness(of: descriptor, .read, believed: .read).isEmpty {
            // A child that has ended and cannot be waited for yet, because a debugger has not waited for it, stays readable, and so does what
            // the kernel refuses to read.
            RunLoop.deferServedWatch()
        }
        return isReport
    }

    /// The handler of the inbox.
    func reportMark() -> Bool {
        var happened = blankEvent
        pointee.lock.lockWord()
        let isReport = mayReport && pointee.filter.pointee.take?.call(self, &happened) == true
        if isReport { countReportLocked() }
        pointee.lock.unlockWord()
        if isReport { report(&happened) }
        return isReport
    }

    /// Called when what is reported has been taken, under the same lock: another loop that comes next finds that the source may
    /// not report any more (S-KEV-8). The caller holds the lock.
    private func countReportLocked() {
        if isOneShot {
            pointee.state.bitwiseOr(KernelEventState.spent, ordering: .sequentiallyConsistent)
        } else if pointee.flags & RLKernelEventFlags.dispatch.rawValue != 0 {
            pointee.state.bitwiseOr(KernelEventState.disabled, ordering: .sequentiallyConsistent)
        }
    }

    private var isOneShot: Bool { pointee.flags & RLKernelEventFlags.oneShot.rawValue != 0 }

    /// Whether a signal, a change of a file, or a trigger is to be reported.
    var hasPending: Bool {
        pointee.count.load(ordering: .sequentiallyConsistent) != 0
            || pointee.userFlags.load(ordering: .sequentiallyConsistent) & Note.trigger.rawValue != 0
    }

    var mayReport: Bool { pointee.state.load(ordering: .sequentiallyConsistent) == 0 }

    /// What the source was made for.
    var registration: RLKernelEvent {
        var event = blankEvent
        event.flags = event.flags & ~RLKernelEventFlags.disable.rawValue | (isEnabled ? 0 : RLKernelEventFlags.disable.rawValue)
        event.fflags = pointee.fflags
        event.data = pointee.amount
        return event
    }

    private var blankEvent: RLKernelEvent {
        RLKernelEvent(
            ident: pointee.ident, filter: pointee.filter.pointee.number, flags: pointee.flags & ~RLKernelEventFlags.disable.rawValue, fflags: 0,
            data: 0, path: pointee.path)
    }

    private func report(_ happened: inout RLKernelEvent) {
        guard let source = pointee.source else { return }
        if source.isWatch && !mayReport { alignInterest(of: source) }
        if let callout = pointee.callout { callOutKernelEvent(callout, source.handle, &happened, pointee.context.info) }
        if isOneShot { source.invalidate() }
    }

    /// The callback ended its thread (S-KEV-8).
    func endIfSpent() {
        guard pointee.state.load(ordering: .sequentiallyConsistent) & KernelEventState.spent != 0 else { return }
        pointee.source?.invalidate()
    }
}
