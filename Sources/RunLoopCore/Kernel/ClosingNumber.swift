// SPDX-License-Identifier: MIT
import CRunLoop
import CRunLoopLinux

/// A number whose object has become invalid and that its thread has not closed yet. In the child of `fork` that thread may not exist: then the child
/// closes it. A part of the object, to which the thread has a reference; meanwhile it calls no client code and so does not end.
struct ClosingNumber: ~Copyable, Listed {
    /// -1 for none. Written by the thread.
    private var number: Int32 = -1
    private var file = FileIdentity()
    private var thread: UInt = 0
    /// Guarded by the registry's lock.
    var next: UnsafeMutablePointer<ClosingNumber>?
    var previous: UnsafeMutablePointer<ClosingNumber>?

    /// In the step that makes the object invalid. The registry's lock is held.
    @inline(never)
    static func beginLocked(_ closing: UnsafeMutablePointer<ClosingNumber>, _ number: Int32, _ file: FileIdentity) {
        closing.pointee.number = number
        closing.pointee.file = file
        closing.pointee.thread = RLThisThread_()
        process.pointee.closingNumbers.insert(closing)
    }

    /// Right before the close. Without an identity a child that is forked between the two leaves the number open, which is better than to close that of
    /// another file.
    static func willClose(_ closing: UnsafeMutablePointer<ClosingNumber>) {
        if closing.pointee.file.isUnknown { closing.pointee.number = -1 }
        rl_compiler_barrier()
    }

    @inline(never)
    static func end(_ closing: UnsafeMutablePointer<ClosingNumber>) {
        process.pointee.registryLock.lockWord()
        process.pointee.closingNumbers.remove(closing)
        process.pointee.registryLock.unlockWord()
    }

    static func forkedChild() {
        process.pointee.closingNumbers.forEach { closing in
            if closing.pointee.thread == RLThisThread_() { return }
            process.pointee.closingNumbers.remove(closing)
            closing.pointee.file.close(closing.pointee.number)
        }
    }
}
