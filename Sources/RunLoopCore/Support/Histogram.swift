// SPDX-License-Identifier: MIT
import Synchronization

/// Times by how often they came, in fixed memory: 16 buckets for each power of two, so that a bucket is not wider than a sixteenth of
/// what it begins with, up to half an hour in nanoseconds. Longer times are in the last. (The layout of HdrHistogram, by Gil Tene.)
///
/// One thread adds; relaxed, because the numbers order nothing.
struct Histogram {
    private let counts: UnsafeMutablePointer<Atomic<UInt64>>

    static var bucketCount: Int { (lastPower - 3) * 16 + 16 }
    static var size: Int { bucketCount * MemoryLayout<UInt64>.stride }
    private static var lastPower: Int { 40 }

    /// The memory is zeroed, for `size` bytes.
    init(at memory: UnsafeMutableRawPointer) { counts = memory.assumingMemoryBound(to: Atomic<UInt64>.self) }

    static func bucket(of time: UInt64) -> Int {
        let time = min(time, 1 << (UInt64(lastPower) + 1) - 1)
        let shift = max(59 - time.leadingZeroBitCount, 0)
        return shift * 16 + Int(time >> UInt64(shift))
    }

    /// The last time that belongs to a bucket.
    static func end(of bucket: Int) -> UInt64 {
        let shift = max(bucket / 16 - 1, 0)
        return UInt64(bucket - shift * 16 + 1) << UInt64(shift) - 1
    }

    @inline(never)
    func add(_ time: Int64) {
        let count = counts + Histogram.bucket(of: UInt64(max(time, 0)))
        count.pointee.store(count.pointee.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    }

    subscript(bucket: Int) -> UInt64 { counts[bucket].load(ordering: .relaxed) }
}
