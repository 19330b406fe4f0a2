// SPDX-License-Identifier: MIT
import CRunLoop
import CRunLoopLinux

/// A number whose object has become invalid and that its thread has not closed yet. In the child of `fork` that thread may not exist: then the child
/// closes it. The thread meanwhile calls no client code and so does not end.
struct ClosingNumber: ~Copyable, Listed {
    /// -1 for none. Written by the thread.
    private var number: Int32
    private var file: FileIdentity
    private let thread: UInt
    /// Guarded by the registry's lock.
    var next: UnsafeMutablePointer<ClosingNumber>?
    var previous: UnsafeMutablePointer<ClosingNumber>?

    /// In the step that makes the object invalid. The registry's lock is held. nil if there is no memory: then a child does not close it.
    @inline(never)
    static func beginLocked(_ number: Int32, _ file: FileIdentity) -> UnsafeMutablePointer<ClosingNumber>? {
        guard let memory = malloc(MemoryLayout<ClosingNumber>.size) else { return nil }
        let closing = memory.assumingMemoryBound(to: ClosingNumber.self)
        closing.initialize(to: ClosingNumber(number: number, file: file, thread: RLThisThread_(), next: nil, previous: nil))
        process.pointee.closingNumbers.insert(closing)
        return closing
    }

    /// Right before the close. A child that is forked between the two leaves the number open, which is better than to close that of another file: many
    /// files, as those of eventfd(2), look the same.
    static func willClose(_ closing: UnsafeMutablePointer<ClosingNumber>?) {
        closing?.pointee.number = -1
        rl_compiler_barrier()
    }

    @inline(never)
    static func end(_ closing: UnsafeMutablePointer<ClosingNumber>?) {
        guard let closing else { return }
        process.pointee.registryLock.lockWord()
        process.pointee.closingNumbers.remove(closing)
        process.pointee.registryLock.unlockWord()
        CRunLoopLinux.free(closing)
    }

    /// Before a fork, in whose child a handler of the program's may come before the library's, and close and open files. The registry's lock is held.
    static func prepareFork() {
        process.pointee.closingNumbers.forEach { closing in
            if closing.pointee.file.isUnknown { closing.pointee.file = FileIdentity(closing.pointee.number) }
        }
    }

    static func forkedChild() {
        process.pointee.closingNumbers.forEach { closing in
            if closing.pointee.thread == RLThisThread_() { return }
            process.pointee.closingNumbers.remove(closing)
            // The last close of a socket that lingers would hold up fork(2).
            if closing.pointee.file.has(closing.pointee.number) { rl_close_without_wait(closing.pointee.number) }
            CRunLoopLinux.free(closing)
        }
    }
}
