// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Functions posted to a loop by any thread, taken by the loop's thread (S-BLK-1 to 6). Many producers, one consumer, no lock.
///
/// Posts lie in chunks of `Chunk.slotCount` slots. `word` holds the last chunk's address and how many of its slots were claimed:
/// one fetch-and-add claims a slot, and the claim says where. The producer fills the slot and then says so in its `modes`.
/// Nothing but `word` is written by several producers, and the consumer writes neither `word` nor slots: a slot of a reused chunk
/// looks empty because the chunk's phase changes each time.
///
/// A claim past the end of a chunk means that the chunk is full. Each producer with such a claim, a latecomer, offers the next
/// chunk and moves `word` on; the first of each succeeds. The consumer puts a chunk at the far end again when all its slots are
/// taken and all latecomers, whose number is in the final value of `word`, are done with it.
///
/// A slot that is claimed and not ready yet is a hole. A round passes over it and remembers it; the post is seen by
/// the first round after it became ready, that is at the latest in the pass that its own wake-up causes.
struct PostQueue: ~Copyable {
    /// Room that keeps `word` on a cache line that nothing else is written on, wherever the queue lies.
    let before: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)
    /// The chunk's address without its low 12 bits, which are 0, above 28 bits of claims; no address: closed. Acquired and released
    /// with each claim, which thereby sees the chunk; relaxed where only the next claim or exchange matters.
    let word: Atomic<UInt64>
    let after: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64)
    /// What `word` was when a round last looked; if it is the same, nothing was posted since. Written by the consumer; relaxed, because
    /// other threads only report it.
    let seenWord: Atomic<UInt64>
    /// The oldest chunk in use. Consumer only.
    var first: ChunkPointer?
    /// The last chunk that the consumer knows of: chunks for reuse come before it. Consumer only.
    var last: ChunkPointer?
    /// The position up to which rounds have taken posts. Consumer only.
    var cursor: Position
    /// The chunk in which the innermost of the rounds under way ends; nil: none is. Consumer only.
    var roundEnd: ChunkPointer?
    /// Claimed slots that were not ready when a round passed over them. Consumer only.
    var holes: GrowingArray<SlotPointer>

    /// A place in the queue.
    struct Position {
        var chunk: ChunkPointer?
        var index: Int

        /// A number that grows along the queue.
        var sequence: UInt64 { (chunk?.pointee.base ?? 0) + UInt64(index) }
    }
}

extension PostQueue {
    var seen: UInt64 {
        @inline(always) get { seenWord.load(ordering: .relaxed) }
        @inline(always) nonmutating set { seenWord.store(newValue, ordering: .relaxed) }
    }

    private static var claimBits: UInt64 { 28 }

    private static func pack(_ chunk: ChunkPointer, _ claims: UInt64) -> UInt64 {
        (UInt64(UInt(bitPattern: chunk)) >> 12) << claimBits | claims
    }

    /// Whether the word has room for the chunk's address.
    static func canPack(_ chunk: ChunkPointer) -> Bool { PostQueue.chunk(pack(chunk, 0)) == chunk }

    private static func chunk(_ word: UInt64) -> ChunkPointer? {
        ChunkPointer(bitPattern: UInt((word >> claimBits) << 12))
    }

    private static func claims(_ word: UInt64) -> Int { Int(word & ((1 << claimBits) - 1)) }

    /// Makes the empty queue of a new loop.
    mutating func open() {
        let chunk = first ?? ChunkPointer.make()
        chunk.pointee.base = 1
        first = chunk
        last = chunk
        cursor = Position(chunk: chunk, index: 0)
        seen = PostQueue.pack(chunk, 0)
        word.store(seen, ordering: .releasing)
    }

    /// Adds a post. False if the queue is closed; the post is then the caller's. Any thread.
    @inline(always)
    func append(_ post: Post) -> Bool {
        let claim = word.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue
        guard let chunk = PostQueue.chunk(claim), PostQueue.claims(claim) < Chunk.slotCount else { return appendSlowly(post, claim) }
        chunk.slot(PostQueue.claims(claim)).publish(post, phase: chunk.pointee.phase)
        return true
    }

    @inline(never)
    private func appendSlowly(_ post: Post, _ firstClaim: UInt64) -> Bool {
        var claim = firstClaim
        while true {
            guard let chunk = PostQueue.chunk(claim) else {
                word.store(0, ordering: .relaxed)  // Closed permanently: keeps the claims from growing into an address.
                return false
            }
            if PostQueue.claims(claim) < Chunk.slotCount {
                chunk.slot(PostQueue.claims(claim)).publish(post, phase: chunk.pointee.phase)
                return true
            }
            moveOn(from: chunk)
            // An iteration is lost only when other producers filled the new chunk: they made progress.
            claim = word.wrappingAdd(1, ordering: .acquiringAndReleasing).oldValue
        }
    }

    /// Makes `word` point to the chunk after a full one. The caller is one of the full one's latecomers.
    private func moveOn(from chunk: ChunkPointer) {
        var next = chunk.pointee.next.load(ordering: .acquiring)
        if next == nil {
            let made = ChunkPointer.make()
            made.pointee.base = chunk.pointee.base + UInt64(Chunk.slotCount)
            let (exchanged, original) = chunk.pointee.next.compareExchange(
                expected: nil, desired: made, ordering: .acquiringAndReleasing)
            if exchanged {
                next = made
            } else {
                next = original
                made.free()
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

    /// How many posts came since a round last looked, or fewer if there are many. Any thread; reads no chunk.
    var unseenCount: Int {
        let last = word.load(ordering: .relaxed)
        let seen = seen
        let count = Swift.min(PostQueue.claims(last), Chunk.slotCount)
        let seenCount = Swift.min(PostQueue.claims(seen), Chunk.slotCount)
        return PostQueue.chunk(last) == PostQueue.chunk(seen) ? Swift.max(count - seenCount, 0) : Chunk.slotCount - seenCount + count
    }

    // MARK: The consumer

    /// Whether something was posted since the last look, or was being posted then. One load.
    @inline(always)
    var hasNews: Bool { hasNewClaims || !holes.isEmpty }

    /// The same without the slots that a round passed over because their posts were not whole.
    var hasNewClaims: Bool { word.load(ordering: .relaxed) != seen }

    /// A round has left something beyond its end.
    func expectMore(from end: Position) { seen = end.chunk.map { PostQueue.pack($0, UInt64(end.index)) } ?? 0 }

    /// The end of what was posted so far.
    mutating func end() -> Position {
        seen = word.load(ordering: .acquiring)
        guard let chunk = PostQueue.chunk(seen) else {
            // Closed: the end is where the last chunk has a gap, if there ever was one.
            var last = cursor
            while let next = last.chunk?.pointee.next.load(ordering: .acquiring) { last = Position(chunk: next, index: 0) }
            while let chunk = last.chunk, last.index < Chunk.slotCount, chunk.slot(last.index).isFilled { last.index += 1 }
            return last
        }
        return Position(chunk: chunk, index: min(PostQueue.claims(seen), Chunk.slotCount))
    }

    /// The next slot before `end`, which is then passed; nil at the end.
    @inline(always)
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

    /// Moves chunks whose posts are all taken to the far end, the oldest first, but never one that a current round looks at: those lie before
    /// the end of the innermost one, or are its last. That chunk's `next` is the consumer's when no latecomer asks for it any more.
    @inline(never)
    mutating func reclaim() {
        if let roundEnd, roundEnd == cursor.chunk || !roundEnd.isLeft { return }
        while let chunk = roundEnd == nil ? first : roundEnd!.pointee.next.load(ordering: .acquiring), chunk != cursor.chunk,
            chunk.pointee.holes == 0, chunk.isLeft
        {
            let next = chunk.pointee.next.load(ordering: .acquiring)
            if let roundEnd { roundEnd.pointee.next.store(next, ordering: .relaxed) } else { first = next }
            if last == chunk { last = next }
            useAgain(chunk)
        }
    }

    private mutating func useAgain(_ chunk: ChunkPointer) {
        // Producers may have added chunks of their own.
        while let next = last!.pointee.next.load(ordering: .acquiring) { last = next }
        if last!.pointee.base > cursor.chunk!.pointee.base + Chunk.spareLimit * UInt64(Chunk.slotCount) { return chunk.free() }
        chunk.pointee.phase ^= 1
        chunk.pointee.next.store(nil, ordering: .relaxed)
        chunk.pointee.latecomers.store(0, ordering: .relaxed)
        chunk.pointee.latecomersDone.store(0, ordering: .relaxed)
        while true {
            chunk.pointee.base = last!.pointee.base + UInt64(Chunk.slotCount)
            let (exchanged, original) = last!.pointee.next.compareExchange(
                expected: nil, desired: chunk, ordering: .acquiringAndReleasing)
            last = exchanged ? chunk : original
            if exchanged { return }  // Each iteration needs a producer that added a chunk.
        }
    }

    /// Closes the queue: later posts are refused. What is in it stays.
    func close() {
        _ = word.exchange(0, ordering: .acquiringAndReleasing)
    }

    /// Does not test whether the word is 0: a producer that is being refused has raised the claims.
    var isClosed: Bool { PostQueue.chunk(word.load(ordering: .acquiring)) == nil }

    /// Frees everything but an empty chunk for the next loop in this memory. Nothing is being posted any more.
    mutating func free() {
        while let chunk = first, let next = chunk.pointee.next.load(ordering: .acquiring) {
            first = next
            chunk.free()
        }
        // The last chunk: the others may be reused ones.
        first?.empty()
        last = nil
        holes.free()
        cursor = Position(chunk: nil, index: 0)
        roundEnd = nil
    }

    /// The state before `open`, except for `word`, which stays closed.
    mutating func reset(keepsChunk: Bool) {
        seen = 0
        if keepsChunk { return }
        first?.free()
        first = nil
    }

    /// In the child of `fork`: producers that were filling a slot do not exist here; their slots are abandoned.
    mutating func abandonClaims() {
        // A full chunk whose latecomers vanished before `word` moved on has none; the next post moves it on, as always.
        let last = word.load(ordering: .relaxed)
        if let chunk = PostQueue.chunk(last), PostQueue.claims(last) > Chunk.slotCount {
            word.store(PostQueue.pack(chunk, UInt64(Chunk.slotCount)), ordering: .relaxed)
        }
        var position = cursor
        let seenBefore = seen
        let end = end()
        seen = seenBefore
        while let slot = PostQueue.advance(&position, to: end) {
            if !slot.isFilled { slot.abandon() }
        }
        // A hole that was filled between the last round and the fork is a post like any other.
        for index in 0..<holes.count where !holes[index].isFilled { holes[index].abandon() }
        // The chunks before the word's are full, and their latecomers, if they were noted yet, are gone. Those behind it have none.
        var chunk = first
        while let current = chunk, current != PostQueue.chunk(last) {
            chunk = current.pointee.next.load(ordering: .relaxed)
            current.pointee.latecomers.store(1, ordering: .relaxed)
            current.pointee.latecomersDone.store(0, ordering: .relaxed)
        }
    }

    #if DEBUG
    /// See `Fork.rehearse`.
    static func rehearse() {
        let chunk = ChunkPointer.make()
        var position = Position(chunk: chunk, index: 0)
        while let slot = advance(&position, to: Position(chunk: chunk, index: 1)) {
            if !slot.isFilled { slot.abandon() }
        }
        CRunLoopLinux.free(chunk)
    }
    #endif
}
