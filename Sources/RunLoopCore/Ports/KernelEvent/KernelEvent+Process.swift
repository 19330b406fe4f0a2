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
        guard let process = Int32(exactly: pointee.ident), process > 0, pointee.fflags & ~known == 0 else { return refuse() }
        pointee.flags |= RLKernelEventFlags.oneShot.rawValue
        return own(highNumber(rl_pidfd_open(process)))
    }

    fileprivate func readProcess(_ happened: inout RLKernelEvent) -> Bool {
        var status: Int32 = 0
        happened.flags |= RLKernelEventFlags.EOF.rawValue
        happened.fflags = Note.exit.rawValue
        let reaps = pointee.fflags & Note.reap.rawValue != 0
        if reaps { noteStatus() }
        switch rl_child_status(pointee.descriptor, reaps ? 1 : 0, &status) {
        case 0:
            rl_set_errno(0)
            return false
        case 1:
            happened.fflags |= Note.exitStatus.rawValue
            happened.data = Int64(status)
        default:
            // Another process's child, or other code has waited for it. Any other error says nothing about it.
            if rl_errno() != ECHILD { return false }
            let noted = pointee.data.load(ordering: .acquiring)
            if noted != 0 {
                happened.fflags |= Note.exitStatus.rawValue
                happened.data = noted & 0xffff_ffff
            }
        }
        return true
    }

    /// Tells all sources of a child that has ended how it did, before this one reaps it: the kernel tells that once.
    @inline(never)
    private func noteStatus() {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        KernelEvents.shared.pointee.all.forEach { record in
            var status: Int32 = 0
            // The descriptor shows that it is of this process, and not of an earlier one with its number.
            if record.pointee.filter == pointee.filter && record.pointee.ident == pointee.ident
                && rl_child_status(record.pointee.descriptor, 0, &status) == 1
            {
                record.pointee.data.store(Int64(status) | 1 << 32, ordering: .releasing)
            }
        }
    }
}
