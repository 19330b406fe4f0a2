// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The Process filter: a pidfd, which is readable when the process has ended.
extension KernelFilter {
    static var process: KernelFilter {
        KernelFilter(
            number: .process, open: { $0.openProcess() }, watched: .init(kind: RL_PROCESS, read: { $0.readProcess(&$1) }, renewInChild: nil))
    }
}

extension UnsafeMutablePointer where Pointee == KernelEvent {
    fileprivate func openProcess() -> Bool {
        let known = Note.exit.rawValue | Note.exitStatus.rawValue | Note.reap.rawValue
        guard let number = Int32(exactly: pointee.ident), number > 0, pointee.fflags & ~known == 0 else { return refuse() }
        pointee.flags |= RLKernelEventFlags.oneShot.rawValue
        // Before it is opened: another thread may reap it at once.
        if rl_is_child(number) { pointee.data.store(markOfChild, ordering: .relaxed) }
        return own(rl_high_number(rl_pidfd_open(number)))
    }

    /// In `data`: it was a child of this process when the source was made. In the child of `fork` none of them is.
    private var markOfChild: Int64 { Int64(process.pointee.forkGeneration.load(ordering: .relaxed)) + 1 }

    fileprivate func readProcess(_ happened: inout RLKernelEvent) -> Bool {
        var status: Int32 = 0
        happened.flags |= RLKernelEventFlags.EOF.rawValue
        happened.fflags = Note.exit.rawValue
        switch rl_child_status(pointee.descriptor, pointee.fflags & Note.reap.rawValue != 0 ? 1 : 0, &status) {
        case 0:
            rl_set_errno(0)
            return false
        case 1: break
        default:
            // Another process's child, or other code has waited for it. Any other error says nothing about it.
            if rl_errno() != ECHILD { return false }
            guard pointee.data.load(ordering: .relaxed) == markOfChild else { return true }
            switch rl_former_status(pointee.descriptor, &status) {
            case 1: break
            case 0: return false
            default: return true
            }
        }
        happened.fflags |= Note.exitStatus.rawValue
        happened.data = Int64(status)
        return true
    }
}
