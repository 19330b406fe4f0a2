// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

internal import Synchronization

// The C library's locks are structures of the program's memory, which must not move while they are used. Here they lie in the
// object, or in the noncopyable value, that they belong to: in a cell of the standard library, which has the address of its owner
// and is no access to a variable of Swift's. (An access would last as long as a wait, and a second one from a callback of the same
// thread would stop the program.) Zeroes are a free lock (S-SYNC-1). The cells are of numbers, so that clients need to know none
// of the C types.

extension _Cell where Value == UInt64 {
    var lock: UnsafeMutablePointer<RLLock> { UnsafeMutableRawPointer(_address).assumingMemoryBound(to: RLLock.self) }
}

extension _Cell where Value == (UInt64, UInt64) {
    var recursiveLock: UnsafeMutablePointer<RLRecursiveLock> {
        UnsafeMutableRawPointer(_address).assumingMemoryBound(to: RLRecursiveLock.self)
    }
    var condition: UnsafeMutablePointer<RLCondition> {
        UnsafeMutableRawPointer(_address).assumingMemoryBound(to: RLCondition.self)
    }
}

extension _Cell where Value == (UInt64, UInt64, UInt64) {
    var conditionLock: UnsafeMutablePointer<RLConditionLock> {
        UnsafeMutableRawPointer(_address).assumingMemoryBound(to: RLConditionLock.self)
    }
}

/// `RLLock`'s functions. In a debug build they trap where a lock is misused, as in a C file with `RL_CHECKS` (S-SYNC-26).
extension UnsafeMutablePointer where Pointee == RLLock {
    func lockChecked() {
        expectNotMine()
        RLLockLock(self)
        becomeMine()
    }

    func tryLockChecked() -> Bool {
        let isLocked = RLLockTryLock(self)
        if isLocked { becomeMine() }
        return isLocked
    }

    func lockChecked(for seconds: RLTimeInterval) -> Bool {
        let isLocked = RLLockLockForSeconds(self, seconds)
        if isLocked { becomeMine() }
        return isLocked
    }

    func unlockChecked() {
        expectMine()
        RLLockUnlock(self)
    }

    /// Before a wait without an end.
    func expectNotMine() {
        #if DEBUG
        RLLockCheck_(self, false)
        #endif
    }

    /// After the lock was taken.
    func becomeMine() {
        #if DEBUG
        RLLockCheck_(self, true)
        #endif
    }

    /// Before the lock is given back, for good or for a wait.
    func expectMine() {
        #if DEBUG
        RLLockCheckUnlock_(self)
        #endif
    }
}

/// The name of a lock, for whoever debugs the program. It takes memory when it is set.
struct LockName: ~Copyable, Sendable {
    private let kept = AtomicLazyReference<Locked<String?>>()

    var value: String? {
        get { kept.load()?.withLock { $0 } }
        nonmutating set {
            if newValue == nil && kept.load() == nil { return }
            let name = kept.storeIfNil(Locked(nil))
            // What it was goes after the lock.
            let old = name.withLock { name in
                let old = name
                name = newValue
                return old
            }
            _ = old
        }
    }
}
