// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// What a descriptor is ready for, in the sense of select (S-SOCK-51).
struct Readiness: OptionSet {
    let rawValue: UInt32

    /// Data, end of file, hang-up or an error.
    static var read: Readiness { Readiness(rawValue: 1) }
    /// Room, or an error.
    static var write: Readiness { Readiness(rawValue: 2) }

    init(rawValue: UInt32) { self.rawValue = rawValue }

    /// From the bits of epoll(7), which are those of poll(2).
    init(events: UInt32) {
        let errors = EPOLLERR.rawValue
        var ready: UInt32 = 0
        if events & (EPOLLIN.rawValue | EPOLLHUP.rawValue | errors) != 0 { ready |= 1 }
        if events & (EPOLLOUT.rawValue | errors) != 0 { ready |= 2 }
        rawValue = ready
    }

    var events: UInt32 {
        (contains(.read) ? EPOLLIN.rawValue : 0) | (contains(.write) ? EPOLLOUT.rawValue : 0)
    }
}
