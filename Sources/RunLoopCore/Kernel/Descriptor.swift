// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Closes a descriptor of the library's own, unless its number now belongs to a file of other code (S-FD-18). `isMember`: of `OwnFiles`.
@inline(never)
func closeOwn(_ descriptor: Int32, _ kind: rl_kind, isMember: Bool = false) {
    let isOurs = OwnFiles.has(descriptor, kind, isMember: isMember)
    // In this order, as in `EpollSet.close`.
    rl_number_ends(descriptor)
    if isOurs { rl_sys_close(descriptor) }
}

/// Whether a descriptor is an eventfd or a timerfd, which has a count (S-SRC-46), by its name in /proc.
func isCounter(_ descriptor: Int32) -> Bool {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 32) { buffer in
        guard rl_descriptor_target(descriptor, buffer.baseAddress!, buffer.count) else { return false }
        return strcmp(buffer.baseAddress!, "anon_inode:[eventfd]") == 0 || strcmp(buffer.baseAddress!, "anon_inode:[timerfd]") == 0
    }
}

/// The part of `wanted` that the descriptor is ready for now; nothing if the number is closed; `believed` if the kernel does not answer.
func readiness(of descriptor: Int32, _ wanted: Readiness, believed: Readiness = []) -> Readiness {
    guard let events = eventsNow(of: descriptor, wanted) else { return believed }
    return Readiness(events: events).intersection(wanted)
}

/// The same as bits of epoll(7), with hang-up and error; nil if the kernel does not answer, for instance if the limit of descriptors is zero.
func eventsNow(of descriptor: Int32, _ wanted: Readiness) -> UInt32? {
    var request = pollfd(fd: descriptor, events: Int16(wanted.events), revents: 0)
    let count = rl_sys_poll(&request, 1, 0)
    if count < 0 { return nil }
    guard count > 0, Int32(request.revents) & POLLNVAL == 0 else { return 0 }
    return UInt32(UInt16(bitPattern: request.revents))
}

/// Takes the count of an eventfd or timerfd without ever blocking. False if there was none, because other code took it.
@inline(never)
func takeCount(_ descriptor: Int32) -> Bool {
    var count: UInt64 = 0
    if rl_read_nowait(descriptor, &count, 8) == 8 { return true }
    // The failure that tells that the wall clock was set, to whoever reads first (TFD_TIMER_CANCEL_ON_SET of timerfd_create(2)).
    if rl_errno() == ECANCELED { return true }
    guard rl_errno() == EOPNOTSUPP || rl_errno() == EINVAL || rl_errno() == ESPIPE else { return false }
    // A kernel that cannot read these without waiting (timerfd before Linux 6.10): the descriptor was ready when its event was
    // fetched, but an observer or another loop may have drained it since. The process's loops check and read one at a time.
    process.pointee.counterLock.lockWord()
    defer { process.pointee.counterLock.unlockWord() }
    return !readiness(of: descriptor, .read).isEmpty && (rl_sys_read(descriptor, &count, 8) == 8 || rl_errno() == ECANCELED)
}
