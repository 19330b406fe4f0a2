// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A part of the queue: a header and slots, in one aligned block.
struct Chunk: ~Copyable {
    /// The chunk after this one. Set once, by whoever comes first; release. When `isLeft` it is the consumer's, for rounds inside others
    /// (`PostQueue.reclaim`).
    let next: Atomic<ChunkPointer?>
    /// Claims past the end whose owners have finished with the chunk. Release.
    let latecomersDone: Atomic<UInt32>
    /// The number of such claims, plus 1; 0 until `word` has moved on. Release.
    let latecomers: Atomic<UInt32>
    /// Sequence number of the first slot. Written before the chunk is published.
    var base: UInt64
    /// What the lowest bit of `Slot.modes` is when the post is there: 0 or 1. Written before the chunk is published.
    var phase: UInt
    /// Slots that a round has passed over and no round has taken yet. Consumer only.
    var holes: Int
    /// Not from malloc but from mmap(2). Written before the chunk is published.
    var isMapped: Bool

    static var size: Int { 4096 }
    /// Chunks that are kept for reuse.
    static var spareLimit: UInt64 { 128 }
    /// The slots begin on a cache line of their own, away from what latecomers write.
    static var headerSize: Int { 64 }
    static var slotCount: Int { (size - headerSize) / MemoryLayout<Slot>.stride }
}

typealias ChunkPointer = UnsafeMutablePointer<Chunk>

/// Half a cache line.
struct Slot: ~Copyable {
    /// The bits of the post's `PostModes`, with the chunk's phase in the lowest one; release. Until the post is there, the other
    /// phase is in it.
    let modes: Atomic<UInt>
    var perform: PerformFunction?
    var release: PerformFunction?
    var info: UnsafeMutableRawPointer?
}

typealias SlotPointer = UnsafeMutablePointer<Slot>

extension UnsafeMutablePointer where Pointee == Slot {
    private static var phaseBit: UInt { 1 }
    /// Claimed by a thread that does not exist in this child of `fork`.
    private static var abandoned: UInt { 4 }

    private var chunk: ChunkPointer { ChunkPointer(bitPattern: UInt(bitPattern: self) & ~UInt(Chunk.size - 1))! }

    /// The place of the slot in the order of posting.
    var sequence: UInt64 {
        let chunk = chunk
        return chunk.pointee.base + UInt64(self - chunk.slot(0))
    }

    @inline(always)
    func publish(_ post: Post, phase: UInt) {
        pointee.perform = post.perform
        pointee.release = post.release
        pointee.info = post.info
        pointee.modes.store(post.modes.bits | phase, ordering: .releasing)
    }

    enum Content {
        case nothing
        case post(Post)
        case abandoned
    }

    /// Consumer only.
    @inline(always)
    var content: Content {
        let bits = pointee.modes.load(ordering: .acquiring)
        if bits & Self.phaseBit != chunk.pointee.phase { return .nothing }
        if bits & Self.abandoned != 0 { return .abandoned }
        return .post(Post(
            perform: pointee.perform.unsafelyUnwrapped, release: pointee.release, info: pointee.info,
            modes: PostModes(bits: bits & ~Self.phaseBit)))
    }

    var isFilled: Bool { pointee.modes.load(ordering: .acquiring) & Self.phaseBit == chunk.pointee.phase }

    func abandon() { pointee.modes.store(Self.abandoned | chunk.pointee.phase, ordering: .relaxed) }

    /// Counts the slot as passed over, or as taken after all.
    func addHole(_ difference: Int) { chunk.pointee.holes += difference }
}

extension UnsafeMutablePointer where Pointee == Chunk {
    /// Whether no producer will look at the chunk any more: the word has moved on, and all latecomers are done.
    var isLeft: Bool {
        let latecomers = pointee.latecomers.load(ordering: .acquiring)
        return latecomers > 0 && pointee.latecomersDone.load(ordering: .acquiring) == latecomers - 1
    }

    static func make() -> ChunkPointer {
        if let memory = aligned_alloc(Chunk.size, Chunk.size) {
            let chunk = memory.assumingMemoryBound(to: Chunk.self)
            if PostQueue.canPack(chunk) {
                memset(memory, 0, Chunk.size)
                chunk.pointee.phase = 1
                return chunk
            }
            CRunLoopLinux.free(memory)
        }
        return map()
    }

    /// An allocator may mark its pointers in their upper bits (MTE of ARM64, LAM of x86). The kernel marks none, and returns no
    /// address above 2^47 unless it is asked to.
    @inline(never)
    private static func map() -> ChunkPointer {
        guard let memory = rl_map_memory(Chunk.size) else { trap("RLPerformFunction", "out of memory") }
        let chunk = memory.assumingMemoryBound(to: Chunk.self)
        guard PostQueue.canPack(chunk) else { trap("RLPerformFunction", "no memory below 2^48") }
        chunk.pointee.phase = 1
        chunk.pointee.isMapped = true
        return chunk
    }

    /// Makes it like a new one. No other thread has it.
    func empty() {
        // The first slot is the first to be claimed.
        if pointee.base == 1 && slot(0).pointee.modes.load(ordering: .relaxed) == 0 && pointee.phase == 1 { return }
        let isMapped = pointee.isMapped
        memset(self, 0, Chunk.size)
        pointee.phase = 1
        pointee.isMapped = isMapped
    }

    func free() {
        if pointee.isMapped { munmap(self, Chunk.size) } else { CRunLoopLinux.free(self) }
    }

    @inline(always)
    func slot(_ index: Int) -> SlotPointer {
        (UnsafeMutableRawPointer(self) + Chunk.headerSize).assumingMemoryBound(to: Slot.self) + index
    }
}
