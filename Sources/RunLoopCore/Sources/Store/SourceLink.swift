// SPDX-License-Identifier: MIT
import Synchronization

/// What ties a source to one loop: its node on that loop's stack of signalled sources and in the lists behind it, and the
/// modes of the loop that it is in. The first link follows the source in memory; a source in several loops has more, each in a
/// `FurtherLink`.
struct SourceLink: ~Copyable {
    /// The loop the source is in by this link, nil when the link is free. Changed under that loop's lock only; read by any
    /// thread. Sequentially consistent with `Source.state`: a signaller sets the flag and then looks at the loop, an Add sets the
    /// loop and then looks at the flag, and one of them sees the other.
    let loop: Atomic<RunLoopPointer?>
    /// Next on the stack (owned by the thread that pushes, then by the one that takes the stack) or in a list (guarded by the loop's lock).
    var next: SourceLinkPointer?
    var previous: SourceLinkPointer?
    /// For further links, what `SourceState.queued` is for the first; sequentially consistent with `loop` and `Source.state`.
    let isQueued: Atomic<Bool>
    /// The list that holds the link, by its mark; 0: none. Guarded by the loop's lock.
    var list: UInt8
    /// Bits of `SourceLink.Traits`. Written before the link is published.
    var traits: Traits
    /// Bits of `SourceLink.Conditions`. Guarded by the loop's lock.
    private var conditions: Conditions
    /// `WatchFlags`, in the first link of a watch. Relaxed, but changed by read-modify-write.
    let watchFlags: Atomic<UInt32>
    /// The modes it is in. Guarded by the loop's lock.
    var modes: SmallSet<Mode>

    /// Whether the source is a common item of the loop.
    var isCommon: Bool {
        get { conditions.contains(.common) }
        set { if newValue { conditions.insert(.common) } else { conditions.remove(.common) } }
    }

    /// Whether the kernel is not asked for its descriptor, for it has used up its limit.
    var isWithdrawn: Bool {
        get { conditions.contains(.withdrawn) }
        set { if newValue { conditions.insert(.withdrawn) } else { conditions.remove(.withdrawn) } }
    }

    /// Of a watch in several loops: whether this one found it ready and signalled it.
    var isFound: Bool {
        get { conditions.contains(.found) }
        set { if newValue { conditions.insert(.found) } else { conditions.remove(.found) } }
    }

    private struct Conditions: OptionSet {
        let rawValue: UInt8
        static var common: Conditions { Conditions(rawValue: 1) }
        static var withdrawn: Conditions { Conditions(rawValue: 2) }
        static var found: Conditions { Conditions(rawValue: 4) }
    }

    struct Traits: OptionSet {
        let rawValue: UInt8
        /// The source is an inbox.
        static var inbox: Traits { Traits(rawValue: 1) }
        /// The link is not the source's first.
        static var further: Traits { Traits(rawValue: 2) }
        /// In the first link: the source is the library's own, which `RLCopyItems` gives to nobody.
        static var own: Traits { Traits(rawValue: 4) }
    }
}

/// A link of a source in several loops, a block of its own: it has to store what the place of the first link implies.
struct FurtherLink: ~Copyable {
    /// The first field: a pointer to it is one to the whole.
    var link: SourceLink
    /// Written before the link is published.
    var source: SourcePointer
    /// The next of the source's further links. Set once, before the link is published, which orders it.
    let nextOfSource: Atomic<SourceLinkPointer?>
}

typealias SourceLinkPointer = UnsafeMutablePointer<SourceLink>

extension UnsafeMutablePointer where Pointee == SourceLink {
    @inline(always)
    var isFirst: Bool { !pointee.traits.contains(.further) }

    @inline(always)
    var isInbox: Bool { pointee.traits.contains(.inbox) }

    /// The source that the link is of.
    @inline(always)
    var ofSource: SourcePointer {
        if !isFirst { return further.pointee.source }
        return (UnsafeMutableRawPointer(self) - MemoryLayout<Source>.stride).assumingMemoryBound(to: Source.self)
    }

    /// Only for a link that is not the first.
    @inline(always)
    var further: UnsafeMutablePointer<FurtherLink> { UnsafeMutableRawPointer(self).assumingMemoryBound(to: FurtherLink.self) }

    /// Whether a thread has the right and duty to put the link on a stack, or the link is on a stack or in a list.
    var isQueued: Bool {
        isFirst ? ofSource.isFirstQueued : pointee.isQueued.load(ordering: .sequentiallyConsistent)
    }

    /// Takes the right and the duty to put the link on a stack. False: it is taken.
    func tryQueue() -> Bool {
        let source = ofSource
        if isFirst { return source.tryQueueFirst() }
        if pointee.isQueued.exchange(true, ordering: .sequentiallyConsistent) { return false }
        source.holdMemory()
        return true
    }

    /// Gives that back. The memory may go with it: the caller holds the source's memory if it looks at it again.
    func unqueue() {
        let source = ofSource
        if isFirst { return source.unqueueFirst() }
        pointee.isQueued.store(false, ordering: .sequentiallyConsistent)
        source.releaseMemory()
    }
}

/// A list of links in order, by `next` and `previous`. The loop's lock guards it. The zero value is the empty list.
struct LinkList {
    private(set) var first: SourceLinkPointer?
    private var last: SourceLinkPointer?

    var isEmpty: Bool { first == nil }

    static var pendingMark: UInt8 { 1 }
    static var parkedMark: UInt8 { 2 }
    static var readyMark: UInt8 { 3 }
    static var parkedReadyMark: UInt8 { 4 }
    /// In no list: it is in `RunLoop.waits`.
    static var heldMark: UInt8 { 5 }

    mutating func append(_ link: SourceLinkPointer, mark: UInt8) {
        link.pointee.list = mark
        link.pointee.next = nil
        link.pointee.previous = last
        if let last { last.pointee.next = link } else { first = link }
        last = link
    }

    @inline(always)
    mutating func remove(_ link: SourceLinkPointer) {
        if let previous = link.pointee.previous { previous.pointee.next = link.pointee.next } else { first = link.pointee.next }
        if let next = link.pointee.next { next.pointee.previous = link.pointee.previous } else { last = link.pointee.previous }
        link.pointee.next = nil
        link.pointee.previous = nil
        link.pointee.list = 0
    }

    /// Puts all of `other` before what is here.
    mutating func prepend(_ other: inout LinkList, mark: UInt8) {
        guard let otherFirst = other.first, let otherLast = other.last else { return }
        var link = other.first
        while let current = link {
            current.pointee.list = mark
            link = current.pointee.next
        }
        otherLast.pointee.next = first
        if let first { first.pointee.previous = otherLast } else { last = otherLast }
        first = otherFirst
        other = LinkList()
    }
}

/// The ready inboxes of a loop, in the order in which they became ready. The loop's lock guards it. The zero value is empty.
struct InboxList {
    var ready = LinkList()
    /// Ready, but not in the mode `parkedFor` when a run of that mode looked.
    var parked = LinkList()
    /// The mode for which `parked` was sorted out; nil: to be looked through again.
    var parkedFor: ModePointer?
}

extension UnsafeMutablePointer where Pointee == Source {
    /// The link to a loop. The caller holds the loop's lock.
    @inline(always)
    func link(in loop: RunLoopPointer) -> SourceLinkPointer? {
        if firstLink.pointee.loop.load(ordering: .relaxed) == loop { return firstLink }
        return furtherLink { $0.pointee.loop.load(ordering: .relaxed) == loop }
    }

    /// The first of the further links for which the body is true.
    func furtherLink(where matches: (SourceLinkPointer) -> Bool) -> SourceLinkPointer? {
        var link = pointee.moreLinks.load(ordering: .sequentiallyConsistent)
        while let current = link {
            if matches(current) { return current }
            link = current.further.pointee.nextOfSource.load(ordering: .acquiring)
        }
        return nil
    }

    /// Calls the body with every link, the first one first.
    @inline(always)
    func forEachLink(_ body: (SourceLinkPointer) -> Void) {
        body(firstLink)
        var link = pointee.moreLinks.load(ordering: .sequentiallyConsistent)
        while let current = link {
            link = current.further.pointee.nextOfSource.load(ordering: .acquiring)
            body(current)
        }
    }
}
