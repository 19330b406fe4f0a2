// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Bytes that wait to be sent: a block from malloc with this header, made when the kernel has not taken everything and freed when
/// it has. nil means no queue. Guarded by the lock `writer` of its socket.
struct SocketQueue {
    /// Bytes `start ..< end` of the block wait; those before are sent. Invariant: start < end <= capacity.
    fileprivate var start: Int
    private var end: Int
    private let capacity: Int

    /// No program has more bytes, and sums of two such numbers do not overflow.
    static var longest: Int { 1 << 48 }
    private static var smallest: Int { 4096 }

    var count: Int { end - start }

    /// Adds bytes at the end, one at least and `longest` at most.
    static func append(_ bytes: UnsafeRawPointer, _ count: Int, to queue: inout SocketQueuePointer?) {
        let waiting = queue?.pointee.count ?? 0
        if let queue, queue.pointee.capacity - queue.pointee.end < count, queue.pointee.start >= waiting,
            queue.pointee.capacity - waiting >= count
        {
            // At least as many bytes were sent as are moved, so that each is moved once at most.
            memcpy(queue.block, queue.first, waiting)
            queue.pointee.start = 0
            queue.pointee.end = waiting
        }
        if queue == nil || queue!.pointee.capacity - queue!.pointee.end < count {
            let needed = waiting + count
            // Half as much again, so that many small writes do not move many bytes each.
            let capacity = max(needed + (waiting == 0 ? 0 : needed / 2), smallest)
            guard let memory = malloc(MemoryLayout<SocketQueue>.stride + capacity) else { trap("RLSocketWrite", "out of memory") }
            let larger = memory.assumingMemoryBound(to: SocketQueue.self)
            larger.initialize(to: SocketQueue(start: 0, end: waiting, capacity: capacity))
            if let queue { memcpy(larger.block, queue.first, waiting) }
            CRunLoopLinux.free(queue)
            queue = larger
        }
        memcpy(queue!.block + queue!.pointee.end, bytes, count)
        queue!.pointee.end += count
    }

    /// Removes bytes that were sent, or all; then there is no queue.
    static func drop(_ count: Int, from queue: inout SocketQueuePointer?) {
        guard let some = queue else { return }
        some.pointee.start += count
        if some.pointee.count > 0 { return }
        CRunLoopLinux.free(some)
        queue = nil
    }
}

typealias SocketQueuePointer = UnsafeMutablePointer<SocketQueue>

extension UnsafeMutablePointer where Pointee == SocketQueue {
    fileprivate var block: UnsafeMutableRawPointer { UnsafeMutableRawPointer(self + 1) }

    /// Where the bytes that wait are.
    var first: UnsafeMutableRawPointer { block + pointee.start }
}
