// SPDX-License-Identifier: MIT
import Synchronization

/// The source that an object of the library returns: the same each time while it is alive and valid. The source has a reference
/// to the object, the object none to the source, which calls `forgetIfDead` when it dies.
///
/// The registry's lock guards the pointer, and with it the memory behind it: a source whose last reference is gone stays in
/// memory until it has released its info, and that takes the lock.
struct OwnedSource: ~Copyable {
    private let source: Atomic<SourcePointer?>

    init() { source = Atomic(nil) }

    /// The source, retained, if it is alive and valid.
    func copy() -> SourcePointer? {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        return retainedLocked()
    }

    /// The source, retained; made if there is none.
    func copy(_ make: () -> SourcePointer) -> SourcePointer {
        if let source = copy() { return source }
        let made = make()
        process.pointee.registryLock.lockWord()
        let other = retainedLocked()
        if other == nil {
            // One that is being invalidated may be in a loop still, and what is of interest is one word for both.
            if source.load(ordering: .relaxed) != nil { made.noteOtherSource() }
            source.store(made, ordering: .relaxed)
        }
        process.pointee.registryLock.unlockWord()
        guard let other else { return made }
        // Another thread was faster.
        made.release()
        return other
    }

    private func retainedLocked() -> SourcePointer? {
        guard let source = source.load(ordering: .relaxed), source.isValid, source.tryRetain() else { return nil }
        return source
    }

    /// Called by a source that has lost its last reference.
    func forgetIfDead() {
        process.pointee.registryLock.lockWord()
        if let current = source.load(ordering: .relaxed), !current.isAlive { source.store(nil, ordering: .relaxed) }
        process.pointee.registryLock.unlockWord()
    }
}
