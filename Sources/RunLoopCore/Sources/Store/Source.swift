// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A source, version 0 (signalled by hand) or 1 (signalled by a descriptor, or an inbox: see `Source+Inbox.swift`).
///
/// The record is followed in memory by its first `SourceLink`, which ties it to one loop; further loops have links of their own. Any thread may touch
/// `state` and the links' `loop` without a lock; the other atomic fields say how they are ordered; all else is fixed at creation.
struct Source: ~Copyable {
    let header: ObjectHeader
    /// The port of a version 1 source, as `getPort` returned it when the source was last added while in no loop. Relaxed: the thread
    /// that wrote it adds the source under the loop's lock.
    let port: Atomic<Int32>
    /// The hash folded to half its size, for sets; valid once `SourceState.hashed` is set.
    let hashCode: Atomic<UInt32>
    /// Signal flag, validity and what keeps the memory: see `SourceState`. Sequentially consistent with the links' `loop` and `isQueued`
    /// and with `moreLinks`. Read relaxed for a bit that is set at creation, and before an exchange. What keeps the memory is released
    /// by each holder and acquired by the last.
    let state: Atomic<UInt64>
    /// When the flag was set, as `rl_order_of_time` returns it. Written by the signaller before it sets the flag, which orders it.
    let signalTime: Atomic<UInt64>
    let order: Int
    /// What `retain` returned for the context's info.
    let info: UnsafeMutableRawPointer?
    /// Shared by all sources with the same functions.
    let callbacks: CallbacksPointer
    /// The second and further links, linked by `nextOfSource`; the list only grows while the source lives. Sequentially
    /// consistent with `state`, like the links' `loop`.
    let moreLinks: Atomic<SourceLinkPointer?>
}

typealias SourcePointer = UnsafeMutablePointer<Source>

extension Source: Object {
    static var type: ObjectType { .source }
    /// The last reference is gone, so the source is in no loop. Its context is released now (S-SRC-11, S-SRC-14); the memory may
    /// still be on a stack that a signaller reached late, and is then freed by the thread that takes it off.
    @inline(never)
    static func destroy(_ source: SourcePointer) {
        if let release = source.pointee.callbacks.pointee.functions.release {
            source.pointee.state.bitwiseOr(SourceState.invalid, ordering: .relaxed)
            callOutRelease(release, source.pointee.info)
        }
        source.header.markFreed()
        source.die()
    }
}

extension UnsafeMutablePointer where Pointee == Source {
    /// Creates a source with one reference and retains the context's info.
    static func make(
        order: Int, info: UnsafeMutableRawPointer?, functions: SourceFunctions, isVersionOne: Bool, isInbox: Bool = false, tail: Int = 0
    ) -> SourcePointer {
        let source = makeRecord(Source.self, tail: MemoryLayout<SourceLink>.stride + tail)
        let retained = functions.retain.map { UnsafeMutableRawPointer(mutating: callOutRetain($0, info)) } ?? info
        source.initialize(to: Source(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)), port: Atomic(-1), hashCode: Atomic(0),
            state: Atomic((isVersionOne ? SourceState.versionOne : 0) | (isInbox ? SourceState.inbox : 0)), signalTime: Atomic(0), order: order, info: retained,
            callbacks: Callbacks.shared(functions), moreLinks: Atomic(nil)))
        source.initializeHeader()
        if isInbox { source.firstLink.pointee.traits = .inbox }
        return source
    }

    var firstLink: SourceLinkPointer {
        (UnsafeMutableRawPointer(self) + MemoryLayout<Source>.stride).assumingMemoryBound(to: SourceLink.self)
    }

    /// It is the library's own (S-SEE-4). Before any other thread knows it.
    func becomeOwn() { firstLink.pointee.traits.insert(.own) }

    var functions: SourceFunctions { pointee.callbacks.pointee.functions }

    var signalCount: UInt64 { pointee.signalTime.load(ordering: .relaxed) }

    /// Whether it performs before the other in a batch (S-SRC-31): by order, then by the time of its signal.
    @inline(always)
    func performsBefore(_ other: SourcePointer) -> Bool {
        if pointee.order != other.pointee.order { return pointee.order < other.pointee.order }
        return signalCount < other.signalCount
    }

    func freeMemory() {
        Callbacks.release(pointee.callbacks)
        var link = pointee.moreLinks.load(ordering: .acquiring)
        while let current = link {
            link = current.further.pointee.nextOfSource.load(ordering: .relaxed)
            CRunLoopLinux.free(current)
        }
        CRunLoopLinux.free(self)
    }

    /// S-SRC-6. May call the client: no lock is held.
    var hashOfInfo: UInt { functions.hash.map { callOutHash($0, pointee.info) } ?? UInt(bitPattern: pointee.info) }

    /// Finds out, once, the number by which sets find the source. May call the client: no lock is held.
    @inline(always)
    func prepareHashCode() {
        if pointee.state.load(ordering: .acquiring) & SourceState.hashed == 0 { makeHashCode() }
    }

    @inline(never)
    private func makeHashCode() {
        let value = hashOfInfo
        pointee.hashCode.store(UInt32(truncatingIfNeeded: value ^ (value >> 32)), ordering: .relaxed)
        pointee.state.bitwiseOr(SourceState.hashed, ordering: .acquiringAndReleasing)
    }

    /// All of S-SRC-5 but the client's `equal`.
    func mayEqual(_ other: SourcePointer) -> Bool {
        let mine = functions
        let theirs = other.functions
        return pointee.order == other.pointee.order
            && isValid == other.isValid
            && isVersionOne == other.isVersionOne
            && isWatch == other.isWatch
            && sameFunction(mine.hash, theirs.hash)
            && sameFunction(mine.equal, theirs.equal)
            && sameFunction(mine.perform, theirs.perform)
    }

    /// Whether the two are equal (S-SRC-5). May call the client: no lock is held.
    func isEqual(_ other: SourcePointer) -> Bool {
        if self == other { return true }
        guard mayEqual(other) else { return false }
        if let equal = functions.equal { return callOutEqual(equal, pointee.info, other.pointee.info) }
        return pointee.info == other.pointee.info
    }
}

@inline(always)
func sameFunction<Function>(_ first: Function?, _ second: Function?) -> Bool {
    unsafeBitCast(first, to: UInt.self) == unsafeBitCast(second, to: UInt.self)
}
