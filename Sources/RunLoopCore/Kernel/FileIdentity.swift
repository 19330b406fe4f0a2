// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// What shows whether a number still names the same file.
struct FileIdentity {
    private var device: UInt64 = 0
    private var inode: UInt64 = 0
    private(set) var isOpen = false
    /// The kernel did not say which file it is, for lack of memory.
    private(set) var isUnknown = false

    /// No file.
    init() {}

    /// Whatever a number names, if it is open.
    static var any: FileIdentity {
        var file = FileIdentity()
        file.isOpen = true
        file.isUnknown = true
        return file
    }

    init(_ descriptor: Int32) {
        isOpen = rl_identify(descriptor, &device, &inode) == 0
        if !isOpen && rl_errno() != EBADF {
            isOpen = true
            isUnknown = true
        }
    }

    /// False if either is not open. True if that cannot be determined (S-SOCK-2).
    func isSame(as other: FileIdentity) -> Bool {
        guard isOpen && other.isOpen else { return false }
        return isUnknown || other.isUnknown || (device == other.device && inode == other.inode)
    }

    /// Whether a number names the file.
    @inline(never)
    func has(_ number: Int32) -> Bool { isOpen && isSame(as: FileIdentity(number)) }

    /// Closes a number, unless it names another file by now.
    @inline(never)
    func close(_ number: Int32) {
        if has(number) { rl_sys_close(number) }
    }
}
