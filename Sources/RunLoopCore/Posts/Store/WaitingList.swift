// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Something that is to be performed and waits for one of its modes: a post that was taken off the queue, or a request. It is on a
/// list of each of its modes, and for the pseudo-mode on one of the loop, so that a round or a batch finds what is for its mode and
/// looks at nothing else. The places on lists follow the whole record that it is the beginning of.
struct Waiting {
    var post: Post
    /// Its place in the order in which they came.
    var sequence: UInt64
    /// The next one of a chain, when it is on no list any more.
    var next: WaitingPointer?
    /// The first of the places, and how many there are.
    var places: WaitingPlacePointer
    var placeCount: Int
}

typealias WaitingPointer = UnsafeMutablePointer<Waiting>

struct WaitingPlace {
    var waiting: WaitingPointer
    /// nil: on no list.
    var list: UnsafeMutablePointer<WaitingList>?
    var next: WaitingPlacePointer?
    var previous: WaitingPlacePointer?
}

typealias WaitingPlacePointer = UnsafeMutablePointer<WaitingPlace>

/// What the lists of a mode hold: those of the posts belong to the loop's thread, those of the requests to their queue's lock.
enum WaitingKind: Int {
    case posts = 0
    case requests = 1
    case orderedRequests = 2
}

/// The lists of a mode, or those of a loop for the pseudo-mode. The zero value is empty.
struct WaitingLists {
    private var lists = (WaitingList(), WaitingList(), WaitingList())

    subscript(kind: WaitingKind) -> UnsafeMutablePointer<WaitingList> {
        @inline(always) mutating get {
            withUnsafeMutablePointer(to: &self) {
                UnsafeMutableRawPointer($0).assumingMemoryBound(to: WaitingList.self) + kind.rawValue
            }
        }
    }
}

/// Places in the order of their sequences. The zero value is empty.
struct WaitingList {
    private(set) var last: WaitingPlacePointer?
    /// The one that was inserted last: the next one usually belongs behind it.
    private var newest: WaitingPlacePointer?
    /// Where searches for floors have ended, the last one first: the floors of rounds in each other take turns.
    private var boundaries = (Boundary(), Boundary(), Boundary(), Boundary())
    private var boundaryCount = 0

    /// The last place that came before a floor.
    private struct Boundary {
        var floor: UInt64 = 0
        var lastBelow: WaitingPlacePointer?
    }

    var isEmpty: Bool { last == nil }

    /// Nearly always at the end. What a round kept while rounds nested in it kept what came later belongs before that: the place
    /// of the first is searched for from what came last to the list, which is what the next round in it kept, and those that follow are put behind it.
    @inline(never)
    mutating func insert(_ place: WaitingPlacePointer) {
        let sequence = place.pointee.waiting.pointee.sequence
        var before = last
        if let newest, newest.pointee.waiting.pointee.sequence > sequence || newest.pointee.next.map({ $0.pointee.waiting.pointee.sequence > sequence }) ?? true {
            before = newest
        }
        while let current = before, current.pointee.waiting.pointee.sequence > sequence { before = current.pointee.previous }
        place.pointee.previous = before
        place.pointee.next = before == nil ? first : before!.pointee.next
        if let before { before.pointee.next = place } else { first = place }
        if let next = place.pointee.next { next.pointee.previous = place } else { last = place }
        newest = place
        noteIfLastBelow(place)
    }

    /// A place that came to the list.
    private mutating func noteIfLastBelow(_ place: WaitingPlacePointer) {
        if boundaryCount == 0 { return }
        forEachBoundary {
            if place.pointee.previous == $0.pointee.lastBelow && place.pointee.waiting.pointee.sequence < $0.pointee.floor { $0.pointee.lastBelow = place }
        }
    }

    @inline(never)
    private mutating func forEachBoundary(_ body: (UnsafeMutablePointer<Boundary>) -> Void) {
        for index in 0..<boundaryCount { body(boundary(index)) }
    }

    private mutating func boundary(_ index: Int) -> UnsafeMutablePointer<Boundary> {
        withUnsafeMutablePointer(to: &boundaries) { UnsafeMutableRawPointer($0).assumingMemoryBound(to: Boundary.self) + index }
    }

    private(set) var first: WaitingPlacePointer?

    mutating func append(_ place: WaitingPlacePointer) {
        place.pointee.previous = last
        place.pointee.next = nil
        if let last { last.pointee.next = place } else { first = place }
        last = place
        newest = place
        noteIfLastBelow(place)
    }

    @inline(never)
    mutating func remove(_ place: WaitingPlacePointer) {
        if newest == place { newest = place.pointee.previous }
        if boundaryCount > 0 {
            forEachBoundary { if $0.pointee.lastBelow == place { $0.pointee.lastBelow = place.pointee.previous } }
        }
        if let previous = place.pointee.previous { previous.pointee.next = place.pointee.next } else { first = place.pointee.next }
        if let next = place.pointee.next { next.pointee.previous = place.pointee.previous } else { last = place.pointee.previous }
    }
}

extension UnsafeMutablePointer where Pointee == WaitingList {
    /// Takes those that came at `floor` or later off all their lists, of which this is one, and makes a chain of them, the first one
    /// first.
    @inline(never)
    func takeAll(from floor: UInt64) -> WaitingPointer? {
        var chain: WaitingPointer?
        while let waiting = pointee.last?.pointee.waiting, waiting.pointee.sequence >= floor {
            take(waiting, before: &chain)
        }
        return chain
    }

    /// The same of those that came before `end` too.
    func takeAll(from floor: UInt64, below end: UInt64) -> WaitingPointer? {
        var chain: WaitingPointer?
        var next = pointee.last
        while let place = next, place.pointee.waiting.pointee.sequence >= end { next = place.pointee.previous }
        // What stays begins behind this one.
        let staying = next == nil ? pointee.first : next!.pointee.next
        while let waiting = (staying == nil ? pointee.last : staying!.pointee.previous)?.pointee.waiting, waiting.pointee.sequence >= floor {
            take(waiting, before: &chain)
        }
        return chain
    }

    @inline(always)
    private func take(_ waiting: WaitingPointer, before chain: inout WaitingPointer?) {
        waiting.unlist()
        waiting.pointee.next = chain
        chain = waiting
    }
}

extension UnsafeMutablePointer where Pointee == WaitingList {
    /// The first of those that came at a floor or later, in this list and another one.
    func first(from floor: UInt64, or other: UnsafeMutablePointer<WaitingList>?, from otherFloor: UInt64) -> WaitingPointer? {
        let one = pointee.first(from: floor)
        guard let other = other?.pointee.first(from: otherFloor) else { return one }
        guard let one else { return other }
        return one.pointee.sequence < other.pointee.sequence ? one : other
    }
}

extension WaitingList {
    /// Without a floor no search is needed, and with one only where the boundary is not known.
    fileprivate mutating func first(from floor: UInt64) -> WaitingPointer? {
        if floor == 0 { return first?.pointee.waiting }
        let lastBelow = find(floor)
        return (lastBelow == nil ? first : lastBelow!.pointee.next)?.pointee.waiting
    }

    @inline(never)
    private mutating func find(_ floor: UInt64) -> WaitingPlacePointer? {
        // What is known on both sides.
        var low = Boundary(floor: 0, lastBelow: nil)
        var high = Boundary(floor: .max, lastBelow: last)
        var found = boundaryCount
        for index in 0..<boundaryCount {
            let known = boundary(index).pointee
            if known.floor == floor { found = index }
            if known.floor <= floor && known.floor >= low.floor { low = known }
            if known.floor > floor && known.floor < high.floor { high = known }
        }
        if low.floor != floor {
            // From both, a step here and one there: what lies between may be nearly all there is.
            while true {
                guard let current = high.lastBelow, current.pointee.waiting.pointee.sequence >= floor else {
                    low.lastBelow = high.lastBelow
                    break
                }
                high.lastBelow = current.pointee.previous
                guard let next = low.lastBelow == nil ? first : low.lastBelow!.pointee.next, next.pointee.waiting.pointee.sequence < floor else { break }
                low.lastBelow = next
            }
            low.floor = floor
            // It takes the place of the one that was used longest ago.
            boundaryCount = Swift.min(boundaryCount + 1, 4)
            found = Swift.min(found, 3)
        }
        for index in stride(from: found, to: 0, by: -1) { boundary(index).pointee = boundary(index - 1).pointee }
        boundary(0).pointee = low
        return low.lastBelow
    }
}

/// From which places in the order on functions are visible: what waited before a round began is not, to rounds in it (S-BLK-15), but for what its
/// limit has left on the list of its own mode, and on that of the common modes if it is one (S-LIM-6).
struct PostFloor {
    /// On the lists of other modes.
    private(set) var others: UInt64
    var common: UInt64
    var mode: ModePointer?
    var left: UInt64 = 0

    init(_ floor: UInt64 = 0) { (others, common) = (floor, floor) }

    func own(_ mode: ModePointer) -> UInt64 { mode == self.mode ? left : others }
}

/// A queue of what is on no list, linked by `next`. The zero value is empty.
struct WaitingChain {
    private(set) var first: WaitingPointer?
    private var last: WaitingPointer?

    mutating func append(_ waiting: WaitingPointer) {
        waiting.pointee.next = nil
        if let last { last.pointee.next = waiting } else { first = waiting }
        last = waiting
    }

    mutating func removeFirst() -> WaitingPointer {
        let waiting = first!
        first = waiting.pointee.next
        if first == nil { last = nil }
        return waiting
    }

    /// Inserts one at its place in the order.
    mutating func insert(_ waiting: WaitingPointer) {
        guard let last, last.pointee.sequence > waiting.pointee.sequence else { return append(waiting) }
        var before: WaitingPointer?
        var next = first
        while let current = next, current.pointee.sequence < waiting.pointee.sequence {
            before = current
            next = current.pointee.next
        }
        waiting.pointee.next = next
        if let before { before.pointee.next = waiting } else { first = waiting }
    }

    /// Appends two chains, both in order, as one.
    @inline(never)
    mutating func append(_ one: WaitingPointer?, _ other: WaitingPointer?) {
        var one = one
        var other = other
        while one != nil || other != nil {
            let takesOne = other == nil || (one != nil && one!.pointee.sequence < other!.pointee.sequence)
            let waiting = takesOne ? one! : other!
            if takesOne { one = waiting.pointee.next } else { other = waiting.pointee.next }
            append(waiting)
        }
    }
}

extension UnsafeMutablePointer where Pointee == Waiting {
    /// A post that waits.
    @inline(never)
    static func make(_ post: Post, sequence: UInt64) -> WaitingPointer {
        let count = post.modes.count
        let waiting = makeRecord(Waiting.self, tail: count * MemoryLayout<WaitingPlace>.stride)
        waiting.initialize(
            post, sequence: sequence,
            places: UnsafeMutableRawPointer(waiting + 1).assumingMemoryBound(to: WaitingPlace.self), count: count)
        return waiting
    }

    @inline(never)
    func initialize(_ post: Post, sequence: UInt64, places: WaitingPlacePointer, count: Int) {
        initialize(to: Waiting(post: post, sequence: sequence, next: nil, places: places, placeCount: count))
        for index in 0..<count { places[index].waiting = self }
    }

    /// Puts it on the lists of a kind of all its modes.
    @inline(never)
    func enlist(_ kind: WaitingKind, in loop: RunLoopPointer) {
        var place = pointee.places
        pointee.post.modes.forEach { mode in
            place.pointee.list = mode == nil ? loop.pointee.commonWaiting[kind] : mode!.pointee.waiting[kind]
            place.pointee.list!.pointee.insert(place)
            place += 1
        }
    }

    /// Takes it off all lists.
    @inline(never)
    func unlist() {
        for index in 0..<pointee.placeCount {
            let place = pointee.places + index
            place.pointee.list?.pointee.remove(place)
            place.pointee.list = nil
        }
    }
}
