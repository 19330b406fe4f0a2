// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// The DistributedLock filter: a timerfd, at whose times the source checks whether the lock is free (S-DLOCK-12).
///
/// Where the kernel reports what happens to the file, a watch of it restarts the timer. The kernel reports the end of a process
/// before it releases the locks of the process, however much later it comes to that: so one look may come too early. And it reports
/// nothing of the removal of a folder for which there is a descriptor. So a look is repeated, first after a millisecond and then each time
/// after twice the pause. Elsewhere the looks go on in the interval that the source was made with.
///
/// Of the fields, `count` is the last pause in halves of a millisecond, odd if the last look found the lock free, with a further bit during
/// a look; it is 0 after an event and where the kernel does not report. And `data` is the descriptor for the threads that start the timer, with a further bit
/// while the source has its reference to the lock.
extension KernelFilter {
    static var distributedLock: KernelFilter {
        KernelFilter(
            number: .distributedLock, open: { $0.openLock() },
            watched: .init(kind: RL_TIMER, read: { $0.lookAtLock(&$1) }, renewInChild: .init { $0.renewLock() }), tell: .init { $0.tellLock() }, begin: .init { $0.pointee.source = $1 },
            close: .init { $0.closeLock() })
    }
}

extension UnsafeMutablePointer where Pointee == KernelEvent {
    private var lockFile: DistributedLockPointer { DistributedLockPointer(bitPattern: pointee.ident)! }
    private static var hasLock: Int64 { 1 << 32 }
    private static var longestPause: UInt64 { 1 << 33 }
    private static var hasLooked: UInt64 { 1 << 63 }
    private var interval: UInt64 { pointee.amount == 0 ? 1000 : UInt64(pointee.amount) }

    fileprivate func openLock() -> Bool {
        guard let lock = object(OpaquePointer(bitPattern: pointee.ident), as: DistributedLock.self, "RLKernelEventSourceCreate"),
            pointee.fflags == 0, pointee.amount >= 0, pointee.amount <= 1 << 32
        else { return refuse() }
        guard own(makeLookTimer()) else { return false }
        lock.retain()
        pointee.data.store(Int64(pointee.descriptor) | KernelEventPointer.hasLock, ordering: .relaxed)
        guard let path = strdup(lock.pointee.file.path) else { trap("RLKernelEventSourceCreate", "out of memory") }
        pointee.path = path
        // Where the kernel has no room for a watch the source looks periodically.
        _ = watchVnode(wants: Note.delete.rawValue | Note.rename.rawValue | Note.replace.rawValue | Note.closeWrite.rawValue)
        tellLock()
        return true
    }

    private func makeLookTimer() -> Int32 { rl_high_number(timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC | TFD_NONBLOCK))) }

    private func lookAgain(after milliseconds: UInt64) {
        var setting = itimerspec()
        // Not 0, which would stop it.
        setting.it_value = timespec(nanoseconds: Int64(milliseconds) * 1_000_000 + 1)
        let timer = Int32(truncatingIfNeeded: pointee.data.load(ordering: .relaxed))
        if OwnFiles.has(timer, RL_TIMER, isMember: pointee.isMember) { _ = timerfd_settime(timer, 0, &setting, nil) }
    }

    /// An event that came since the look began, when `count` was `last`, causes a look at once. It may come between any two lines here: so the timer is started
    /// before `count` tells whether one came; one that comes later starts it after this.
    private func lookAgain(after milliseconds: UInt64, unlessSince last: UInt64, _ next: UInt64) {
        lookAgain(after: milliseconds)
        if !pointee.count.compareExchange(expected: last | KernelEventPointer.hasLooked, desired: next, ordering: .acquiringAndReleasing).exchanged {
            lookAgain(after: 0)
        }
    }

    /// The file was removed, replaced, or closed by a process that could write it.
    fileprivate func tellLock() {
        pointee.count.store(0, ordering: .releasing)
        lookAgain(after: 0)
    }

    /// Caller holds the record's lock, also while it waits for the file system.
    fileprivate func lookAtLock(_ happened: inout RLKernelEvent) -> Bool {
        var count: UInt64 = 0
        // Another thread may have begun to close the source.
        guard pointee.data.load(ordering: .relaxed) & KernelEventPointer.hasLock != 0, rl_sys_read(pointee.descriptor, &count, 8) == 8
        else { return false }
        // An event that comes from here on causes its own look: it clears the bit, before it restarts the timer.
        let last = pointee.count.bitwiseOr(KernelEventPointer.hasLooked, ordering: .acquiringAndReleasing).oldValue & ~KernelEventPointer.hasLooked
        var isTold = false
        let isFree = rl_lock_file_is_free(&lockFile.pointee.file, &isTold)
        if !isTold || !isWatched {
            lookAgain(after: interval, unlessSince: last, 0)
            return isFree
        }
        let pause = last & ~1
        if pause < KernelEventPointer.longestPause {
            let next = Swift.max(pause * 2, 2)
            lookAgain(after: next / 2, unlessSince: last, isFree ? next | 1 : next)
        }
        return isFree && last == pause
    }

    /// Whether the kernel had room for the watches, and the path still leads to the directory that is watched.
    private var isWatched: Bool {
        let folder = lockFile.pointee.file.folder!
        var named = stat()
        var watched = stat()
        // Before the lock is taken: a path may lead through a file system that does not answer. The root is always the root.
        let isRoot = folder.pointee == 0
        if !isRoot && fstatat(AT_FDCWD, folder, &named, 0) != 0 { return false }
        Notifier.shared.lock()
        defer { Notifier.shared.unlock() }
        guard let vnode = pointee.vnode, let watch = vnode.pointee.folder, watch.pointee.number >= 0, isRoot || fstat(watch.pointee.descriptor, &watched) == 0,
            named.st_ino == watched.st_ino && named.st_dev == watched.st_dev
        else { return false }
        return !vnode.pointee.exists || vnode.pointee.file != nil
    }

    fileprivate func renewLock() {
        guard pointee.descriptor >= 0, renewDescriptor(&pointee.descriptor, { makeLookTimer() }) else { return }
        tellLock()
    }

    fileprivate func closeLock() {
        closeVnode()
        // A look in progress uses the lock's object.
        pointee.lock.lockWord()
        let old = pointee.data.bitwiseAnd(~KernelEventPointer.hasLock, ordering: .relaxed).oldValue
        pointee.lock.unlockWord()
        if old & KernelEventPointer.hasLock != 0 { lockFile.release() }
    }
}
