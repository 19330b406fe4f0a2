import CLinux
import CRunLoop
import Synchronization

/// What a kernel event source reports, and whether it may.
extension UnsafeMutablePointer where Pointee == KernelEvent {
    func setEnabled(_ enabled: Bool) {
        if enabled {
            pointee.state.bitwiseAnd(~KernelEventState.disabled, ordering: .sequentiallyConsistent)
            guard let source = pointee.source else { return }
            if source.isWatch {
                source.enableInterest(.read)
            } else if hasPending {
                source.markReady()
            }
        } else {
            pointee.state.bitwiseOr(KernelEventState.disabled, ordering: .sequentiallyConsistent)
            if let source = pointee.source, source.isWatch { source.disableInterest(.read) }
        }
    }

    /// Adds to what an inbox has to report, and marks it. Any thread, also in a signal handler.
    func tell(_ notes: UInt32) {
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
        let isLost = pointee.descriptor >= 0 && !rl_is_kind(pointee.descriptor, pointee.filter.pointee.descriptorKind)
        if isLost { pointee.descriptor = -1 }
        let isReport = mayReport && pointee.descriptor >= 0 && pointee.filter.pointee.read?.call(self, &happened) == true
        pointee.lock.unlockWord()
        if isLost {
            Log.write("RunLoop", ": the descriptor of a kernel event source was closed or replaced: it is invalid")
            pointee.source?.invalidate()
        }
        if isReport { report(&happened) }
        return isReport
    }

    /// The perform of the inbox.
    func reportMark() {
        guard mayReport else { return }
        var happened = blankEvent
        guard pointee.filter.pointee.take?.call(self, &happened) == true else { return }
        report(&happened)
    }

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
        let isOneShot = pointee.flags & RLKernelEventFlags.oneShot.rawValue != 0
        if isOneShot {
            pointee.state.bitwiseOr(KernelEventState.spent, ordering: .sequentiallyConsistent)
            if source.isWatch { source.disableInterest(.read) }
        } else if pointee.flags & RLKernelEventFlags.dispatch.rawValue != 0 {
            setEnabled(false)
        }
        if let callout = pointee.callout { callOutKernelEvent(callout, source.handle, &happened, pointee.context.info) }
        if isOneShot { source.invalidate() }
    }

    /// The callback ended its thread (S-KEV-8).
    func endIfSpent() {
        guard pointee.state.load(ordering: .sequentiallyConsistent) & KernelEventState.spent != 0 else { return }
        pointee.source?.invalidate()
    }
}
