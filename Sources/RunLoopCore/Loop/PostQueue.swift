import CLinux
import Synchronization

/// Functions posted to a loop by any thread, taken by the loop's thread (S-BLK-1 to 6). Many producers, one consumer, no lock.
///
/// Posts lie in chunks of `Chunk.slotCount` slots. `word` holds the last chunk's address and how many of its slots were claimed:
/// one fetch-and-add claims a slot, and the claim says where. The producer fills the slot and sets its `ready`. Nothing but
/// `word` is written by several producers, and the consumer writes neither.
///
/// A claim past the end of a chunk means that the chunk is full. Everyone who got one offers the next chunk and moves `word`
/// on; the first of each succeeds. The consumer frees a chunk when all its slots are taken and all those latecomers, whose
/// number the final value of `word` told, are done with it.
///
/// A slot that is claimed and not ready yet is a hole. A round passes over it and remembers it; the post is seen by
/// the first round after it became ready, that is at the latest in the pass that its own wake-up causes.
struct PostQueue: ~Copyable {
    /// The chunk's address without its low 12 bits, which are 0, above 28 bits of claims; 0: closed. Acquire and release.
    let word: Atomic<UInt64>
    /// A chunk to be used again, nil if there is none.
    let spare: Atomic<ChunkPointer?>
    /// What `word` was when a round last looked; if it is the same, nothing was posted since. Consumer only.
    var seen: UInt64
    /// The oldest chunk that is not freed. Consumer only.
    var first: ChunkPointer?
    /// The position up to which rounds have taken posts. Consumer only.
    var cursor: Position
    /// Claimed slots that were not ready when a round passed over them. Consumer only.
    var holes: HoleList
    /// Posts for several modes, for the pseudo-mode while it did not apply, in order. Consumer only.
    var waiting: PostList
    /// The mode for which `waiting` was looked through in vain, and how many common modes there were. Consumer only.
    var checkedFor: ModePointer?
    var checkedCommonModes: UInt32

    /// A place in the queue.
    struct Position {
        var chunk: ChunkPointer?
        var index: Int

        /// A number that grows along the queue.
        var sequence: UInt64 { (chunk?.pointee.base ?? 0) + UInt64(index) }
    }
}

/// A part of the queue: a header and slots, in one aligned block.
struct Chunk: ~Copyable {
    /// The chunk after this one. Set once; release.
    let next: Atomic<ChunkPointer?>
    /// Claims past the end whose owners have finished with the chunk. Release.
    let latecomersDone: Atomic<UInt32>
    /// How many there are, plus 1; 0 until `word` has moved on. Release.
    let latecomers: Atomic<UInt32>
    /// Sequence number of the first slot. Written before the chunk is published.
    var base: UInt64
    /// Slots that were taken. Consumer only.
    var taken: Int

    static var size: Int { 4096 }
    /// The slots begin on a cache line of their own, away from what latecomers write.
    static var headerSize: Int { 64 }
    static var slotCount: Int { (size - headerSize) / MemoryLayout<Slot>.stride }
}

typealias ChunkPointer = UnsafeMutablePointer<Chunk>

struct Slot: ~Copyable {
    /// 0 until the post is there; release. 2 when the consumer has taken it.
    let ready: Atomic<UInt32>
    var post: Post
}

typealias SlotPointer = UnsafeMutablePointer<Slot>

extension UnsafeMutablePointer where Pointee == Chunk {
    static func make() -> ChunkPointer {
        guard let memory = aligned_alloc(Chunk.size, Chunk.size) else { trap("RLPerformFunction", "out of memory") }
        memset(memory, 0, Chunk.size)
        return memory.assumingMemoryBound(to: Chunk.self)
    }

    @inline(__always)
    func slot(_ index: Int) -> SlotPointer {
        (UnsafeMutableRawPointer(self) + Chunk.headerSize).assumingMemoryBound(to: Slot.self) + index
    }
}

extension PostQueue {
    private static var claimBits: UInt64 { 28 }

    private static func pack(_ chunk: ChunkPointer, _ claims: UInt64) -> UInt64 {
        (UInt64(UInt(bitPattern: chunk)) >> 12) << claimBits | claims
    }

    private static func chunk(_ word: UInt64) -> ChunkPointer? {
        ChunkPointer(bitPattern: UInt((word >> claimBits) << 12))
    }

    private static func claims(_ word: UInt64) -> Int { Int(word & ((1 << claimBits) - 1)) }

    /// Makes the empty queue of a new loop.
    mutating func open() {
        let chunk = ChunkPointer.make()
        chunk.pointee.base = 1
        first = chunk
        cursor = Position(chunk: chunk, index: 0)
        seen = PostQueue.pack(chunk, 0)
        word.store(seen, ordering: .releasing)
    }

    /// Adds a post. False if the queue is closed; the post is then the caller's. Any thread.
    @inline(__always)
    func append(_ post: Post) -> Bool {
        let claim = word.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue
        guard let chunk = PostQueue.chunk(claim), PostQueue.claims(claim) < Chunk.slotCount else { return appendSlowly(post, claim) }
        PostQueue.publish(post, in: chunk.slot(PostQueue.claims(claim)))
        return true
    }

    @inline(__always)
    private static func publish(_ post: Post, in slot: SlotPointer) {
        slot.pointee.post = post
        slot.pointee.ready.store(1, ordering: .releasing)
    }

    @inline(never)
    private func appendSlowly(_ post: Post, _ firstClaim: UInt64) -> Bool {
        var claim = firstClaim
        while true {
            guard let chunk = PostQueue.chunk(claim) else {
                word.store(0, ordering: .relaxed)  // Closed for good: keeps the claims from growing into an address.
                return false
            }
            if PostQueue.claims(claim) < Chunk.slotCount {
                PostQueue.publish(post, in: chunk.slot(PostQueue.claims(claim)))
                return true
            }
            moveOn(from: chunk)
            // A turn is lost only when other producers filled the new chunk: they made progress.
            claim = word.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue
        }
    }

    /// Makes `word` point to the chunk after a full one. The caller is one of the full one's latecomers.
    private func moveOn(from chunk: ChunkPointer) {
        var next = chunk.pointee.next.load(ordering: .acquiring)
        if next == nil {
            let made = spare.exchange(nil, ordering: .acquiring) ?? ChunkPointer.make()
            made.pointee.base = chunk.pointee.base + UInt64(Chunk.slotCount)
            let (exchanged, original) = chunk.pointee.next.compareExchange(
                expected: nil, desired: made, ordering: .acquiringAndReleasing)
            if exchanged {
                next = made
            } else {
                next = original
                recycle(made)
            }
        }
        var current = word.load(ordering: .relaxed)
        while PostQueue.chunk(current) == chunk {
            let (exchanged, original) = word.compareExchange(
                expected: current, desired: PostQueue.pack(next!, 0), ordering: .acquiringAndReleasing)
            if exchanged {
                chunk.pointee.latecomers.store(UInt32(PostQueue.claims(current) - Chunk.slotCount) + 1, ordering: .releasing)
                break
            }
            current = original
        }
        chunk.pointee.latecomersDone.wrappingAdd(1, ordering: .releasing)
    }

    /// Keeps a zeroed chunk for later, or frees it.
    private func recycle(_ chunk: ChunkPointer) {
        chunk.pointee.base = 0
        if let old = spare.exchange(chunk, ordering: .acquiringAndReleasing) { CLinux.free(old) }
    }

    // MARK: The consumer

    /// Whether something was posted since the last look, or was being posted then. One load.
    @inline(__always)
    var hasNews: Bool { word.load(ordering: .relaxed) != seen || !holes.isEmpty }

    func wasWaitingChecked(for mode: ModePointer, commonModes: UInt32) -> Bool {
        checkedFor == mode && checkedCommonModes == commonModes
    }

    /// The end of what was posted so far.
    mutating func end() -> Position {
        seen = word.load(ordering: .acquiring)
        guard let chunk = PostQueue.chunk(seen) else {
            // Closed: the end is where the last chunk has a gap.
            var last = cursor
            while let next = last.chunk?.pointee.next.load(ordering: .acquiring) { last = Position(chunk: next, index: 0) }
            while last.index < Chunk.slotCount, last.chunk!.slot(last.index).pointee.ready.load(ordering: .acquiring) != 0 {
                last.index += 1
            }
            return last
        }
        return Position(chunk: chunk, index: min(PostQueue.claims(seen), Chunk.slotCount))
    }

    /// The next slot before `end`, which is then passed; nil at the end.
    @inline(__always)
    static func advance(_ position: inout Position, to end: Position) -> SlotPointer? {
        while true {
            guard let chunk = position.chunk else { return nil }
            if position.index < (chunk == end.chunk ? end.index : Chunk.slotCount) {
                position.index += 1
                return chunk.slot(position.index - 1)
            }
            if chunk == end.chunk { return nil }
            // A chunk before the last one has a successor: `word` moved on after it was set.
            position = Position(chunk: chunk.pointee.next.load(ordering: .acquiring), index: 0)
        }
    }

    /// Marks a slot as taken; the post was copied out of it.
    @inline(__always)
    static func take(_ slot: SlotPointer) {
        slot.pointee.ready.store(2, ordering: .relaxed)
        chunk(of: slot).pointee.taken += 1
    }

    private static func chunk(of slot: SlotPointer) -> ChunkPointer {
        ChunkPointer(bitPattern: UInt(bitPattern: slot) & ~UInt(Chunk.size - 1))!
    }

    /// The place of a slot in the order of posting.
    static func sequence(of slot: SlotPointer) -> UInt64 {
        let chunk = chunk(of: slot)
        return chunk.pointee.base + UInt64(slot - chunk.slot(0))
    }

    /// Gives chunks back whose slots are all taken, from the oldest on, but never one that a round under way looks at.
    mutating func reclaim() {
        while let chunk = first, chunk != cursor.chunk, chunk.pointee.taken == Chunk.slotCount {
            let latecomers = chunk.pointee.latecomers.load(ordering: .acquiring)
            guard latecomers > 0, chunk.pointee.latecomersDone.load(ordering: .acquiring) == latecomers - 1 else { return }
            first = chunk.pointee.next.load(ordering: .acquiring)
            memset(chunk, 0, Chunk.size)
            recycle(chunk)
        }
    }

    /// Closes the queue: later posts are refused. What is in it stays.
    func close() {
        _ = word.exchange(0, ordering: .acquiringAndReleasing)
    }

    mutating func free() {
        while let chunk = first {
            first = chunk.pointee.next.load(ordering: .acquiring)
            CLinux.free(chunk)
        }
        CLinux.free(spare.exchange(nil, ordering: .acquiring))
        holes.free()
        cursor = Position(chunk: nil, index: 0)
    }

    /// The state before `open`, but for `word`, which stays closed.
    mutating func reset() {
        seen = 0
        checkedFor = nil
        checkedCommonModes = 0
    }

    /// In the child of `fork`: producers that were filling a slot do not exist here; their slots are abandoned.
    mutating func abandonClaims() {
        // A full chunk whose latecomers vanished before `word` moved on has none; the next post moves it on, as always.
        let last = word.load(ordering: .relaxed)
        if let chunk = PostQueue.chunk(last), PostQueue.claims(last) > Chunk.slotCount {
            word.store(PostQueue.pack(chunk, UInt64(Chunk.slotCount)), ordering: .relaxed)
        }
        var position = Position(chunk: first, index: 0)
        let seenBefore = seen
        let end = end()
        seen = seenBefore
        while let slot = PostQueue.advance(&position, to: end) {
            if slot.pointee.ready.load(ordering: .relaxed) == 0 { PostQueue.take(slot) }
        }
        // A hole that was filled between the last round and the fork is a post like any other.
        var index = 0
        while index < holes.count {
            if holes[index].pointee.ready.load(ordering: .relaxed) == 1 { index += 1 } else { holes.remove(at: index) }
        }
        var chunk = first
        while let current = chunk {
            chunk = current.pointee.next.load(ordering: .relaxed)
            let latecomers = current.pointee.latecomers.load(ordering: .relaxed)
            if latecomers > 0 { current.pointee.latecomersDone.store(latecomers - 1, ordering: .relaxed) }
        }
    }
}
