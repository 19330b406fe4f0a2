// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// A lock that is a file (section 33): `RLDistributedLockRef`. The operations on the file are in `CLinux/lockfiles.c`.
struct DistributedLock: ~Copyable, Listed {
    let header: ObjectHeader
    /// Guards `file`, but for its paths, which are fixed. Held while the file system is asked; nothing else is called under it.
    let lock: Lock
    /// The child of `fork` finds the descriptor in it.
    var file: rl_lock_file
    /// All locks of the process. Guarded by the lock of the list.
    var next: DistributedLockPointer?
    var previous: DistributedLockPointer?
}

typealias DistributedLockPointer = UnsafeMutablePointer<DistributedLock>

struct DistributedLocks: ~Copyable {
    /// Held by `fork`, and for the moment from the opening of a file until its descriptor is noted: so the child knows all
    /// descriptors that keep a lock of the parent's.
    let lock: Lock
    var all: RecordList<DistributedLock>

    static var shared: UnsafeMutablePointer<DistributedLocks> { rl_distributed_locks().cast(to: DistributedLocks.self) }
}

extension DistributedLock: Object {
    static var type: ObjectType { .distributedLock }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLDistributedLock"
        kind.pointee.destroy = { DistributedLock.destroy($0.cast(to: DistributedLock.self)) }
        kind.pointee.describe = .init { $0.cast(to: DistributedLock.self).describe(&$1) }
        kind.pointee.forkPrepare = { DistributedLocks.shared.pointee.lock.lockWord() }
        kind.pointee.forkParent = { DistributedLocks.shared.pointee.lock.unlockWord() }
        kind.pointee.forkChild = { DistributedLock.forkedChild() }
    }

    private static func destroy(_ lock: DistributedLockPointer) {
        rl_lock_file_end(&lock.pointee.file)
        DistributedLocks.shared.pointee.lock.lockWord()
        DistributedLocks.shared.pointee.all.remove(lock)
        DistributedLocks.shared.pointee.lock.unlockWord()
        lock.header.markFreed()
        CRunLoopLinux.free(lock.pointee.file.path)
        CRunLoopLinux.free(lock.pointee.file.folder)
        CRunLoopLinux.free(lock)
    }

    private static func forkedChild() {
        DistributedLocks.shared.pointee.lock.resetInChild()
        DistributedLocks.shared.pointee.all.forEach {
            $0.pointee.lock.resetInChild()
            rl_lock_file_forget(&$0.pointee.file)
        }
    }
}

extension UnsafeMutablePointer where Pointee == DistributedLock {
    /// nil with errno for a path that cannot be a file's.
    static func make(_ path: UnsafePointer<CChar>) -> DistributedLockPointer? {
        let lock = makeRecord(DistributedLock.self)
        guard rl_lock_file_init(&lock.pointee.file, path) else {
            CRunLoopLinux.free(lock)
            return nil
        }
        if lock.pointee.file.path == nil || lock.pointee.file.folder == nil { trap("RLDistributedLockCreate", "out of memory") }
        lock.initializeHeader()
        DistributedLocks.shared.pointee.lock.lockWord()
        DistributedLocks.shared.pointee.all.insert(lock)
        DistributedLocks.shared.pointee.lock.unlockWord()
        return lock
    }

    /// True for 0; else errno is what the body returns.
    @inline(always)
    private func call(_ body: (UnsafeMutablePointer<rl_lock_file>) -> Int32) -> Bool {
        pointee.lock.lockWord()
        let error = body(&pointee.file)
        pointee.lock.unlockWord()
        if error != 0 { rl_set_errno(error) }
        return error == 0
    }

    func take() -> Bool { call { rl_lock_file_take($0) { forkSection($0) } } }

    func giveBack() -> Bool { call { rl_lock_file_give_back($0) } }
    func getDate(_ date: UnsafeMutablePointer<Double>) -> Bool { call { rl_lock_file_date($0, date) } }
    func breakLock() -> Bool { call { rl_lock_file_break($0) { forkSection($0) } } }

    fileprivate func describe(_ text: inout TextBuffer) {
        text.append("path = ")
        text.appendPrintable(pointee.file.path)
        pointee.lock.lockWord()
        let isHeld = pointee.file.is_held
        pointee.lock.unlockWord()
        text.append(", held = ", isHeld)
    }
}

/// Keeps forks out while a descriptor whose locks a child would keep is opened and noted.
private func forkSection(_ begins: Bool) {
    let lock = DistributedLocks.shared
    if begins { lock.pointee.lock.lockWord() } else { lock.pointee.lock.unlockWord() }
}
