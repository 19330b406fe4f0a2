// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// The replies in sealed memory that a peer may not have taken yet, oldest first. They hold memory of this process, and their datagrams have
/// hardly any room in the queue, whose limit therefore does not bound them. The zero value is none.
///
/// The kernel tells how much room all that is queued has. A peer takes datagrams in the order in which they were sent, so a reply was taken if
/// no more room is in use than what was sent after it takes. What a datagram takes is measured, and at least that: if the peer takes
/// something during the measurement, a reply is counted longer than it has to, at most until the queue is empty.
struct UnreadReplies {
    private var first: UnsafeMutablePointer<UnreadReply>?
    /// Bytes of memory, all together.
    private(set) var bytes = 0
    /// The room of all that was sent since there was the first.
    private var sent = 0

    var isEmpty: Bool { first == nil }

    /// Drops those that were taken. Whether one more may be sent: the limit of one message is that of all, and one may always be.
    mutating func hasRoom(for length: Int, queued: Int) -> Bool {
        while let reply = first, queued == 0 || reply.pointee.end <= sent - queued { removeFirst() }
        return length == 0 || bytes + length <= WireHeader.lengthLimit || bytes == 0
    }

    /// Notes what was sent: the length of its memory, which may be 0, and the room of its datagram as it was measured.
    mutating func add(_ length: Int, room: Int) {
        if first == nil { sent = 0 }
        sent += Swift.max(room, UnreadReplies.leastRoom)
        guard length > 0 else { return }
        let reply = makeArray(UnreadReply.self, count: 1)
        reply.initialize(to: UnreadReply(end: sent, length: length, next: nil))
        bytes += length
        guard var last = first else { return first = reply }
        while let next = last.pointee.next { last = next }
        last.pointee.next = reply
    }

    mutating func removeAll() {
        while first != nil { removeFirst() }
    }

    private mutating func removeFirst() {
        let reply = first!
        first = reply.pointee.next
        bytes -= reply.pointee.length
        free(reply)
    }

    /// Less than the kernel's own records of any datagram have.
    private static var leastRoom: Int { 256 }
}

private struct UnreadReply {
    /// `sent` after it was.
    let end: Int
    let length: Int
    var next: UnsafeMutablePointer<UnreadReply>?
}
