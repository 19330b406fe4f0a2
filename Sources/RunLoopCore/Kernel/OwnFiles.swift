// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// How the library recognises the files of kernel event sources: by an epoll set of the process in which their descriptors are, for no
/// events. The kernel looks up a member by the number and the file that it names, so a number that by now names a file of the program's, of
/// whatever kind, is no member (S-FD-18). That costs one call for each look, as the question for the kind does.
///
/// The set exists while there are sources with such descriptors. A descriptor is a member before other threads know it. The set does not
/// change while there is a member, except in the child of `fork`, so it is read without a lock.
///
/// Once the program has closed or replaced the set itself, and where the kernel had no room in the child of `fork`, the kind of the file has to do.
enum OwnFiles {
    /// Called when the library is loaded.
    static func load() { process.pointee.ownFiles = EpollSet() }

    /// One more source, or, with -1, one less, whose descriptors are closed. False with errno if the kernel makes no set; the source counts in any
    /// case. No lock is held.
    @discardableResult
    static func countUser(_ change: Int = 1) -> Bool {
        process.pointee.ownFilesLock.lockWord()
        process.pointee.ownFilesUsers &+= change
        var isOpen = false
        if process.pointee.ownFilesUsers == 0 { process.pointee.ownFiles.close() } else { isOpen = process.pointee.ownFiles.open() }
        process.pointee.ownFilesLock.unlockWord()
        return isOpen
    }

    /// Makes a descriptor a member. False with errno if the kernel has no room; with 0 if there is no set.
    @inline(never)
    static func enter(_ descriptor: Int32) -> Bool { process.pointee.ownFiles.add(descriptor) }

    /// Whether a number still names the file that it named when it became a member, which `isMember` says, and the number `beside` it as well: a
    /// set that has one of them is the library's. Keeps errno.
    @inline(never)
    static func has(_ descriptor: Int32, _ kind: rl_kind, isMember: Bool, beside other: Int32 = -1) -> Bool {
        if isMember {
            if let isOurs = process.pointee.ownFiles.has(descriptor) { return isOurs }
            if other >= 0, process.pointee.ownFiles.has(other) == true { return false }
        }
        return rl_is_kind(descriptor, kind)
    }

    /// In the child of `fork`, which shares the parent's set until then: an empty set of its own.
    @inline(always)
    static func renewInChild() {
        process.pointee.ownFilesLock.resetInChild()
        process.pointee.ownFiles.renewInChild()
    }
}
