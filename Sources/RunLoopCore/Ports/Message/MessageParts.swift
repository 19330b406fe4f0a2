// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Long messages in parts: the sender copies a part into a place of memory that it keeps for the connection, the receiver copies
/// it out and gives the place back, and both do so at the same time. No more of a message's bytes are ever copied at once than
/// the places hold, and no new pages are made for a message but those it ends in.
///
/// A sender never depends on the receiver's progress: if places do not become free, because the receiver's loop is busy or is run
/// by the thread that sends, all the rest is the last part and is in sealed memory of its own. All waits of one message share one
/// time limit (`PartsPatience`).
struct KeptMemory: ~Copyable {
    let file: Int32
    let identity: FileIdentity
    let pages: UnsafeMutableRawPointer
    /// A bit for each place that has its memory. Used by the sending thread.
    var taken: UInt32
    /// A message is being sent through it. Guarded by the port's lock, as is `isOrphan`.
    var isBusy: Bool
    /// The connection is gone: the thread that is sending through it frees it.
    var isOrphan: Bool
}

typealias KeptMemoryPointer = UnsafeMutablePointer<KeptMemory>

extension UnsafeMutablePointer where Pointee == KeptMemory {
    /// Shorter messages are inside their datagrams; longer ones are in sealed memory, which the receiver does not pay for.
    static func isWorthwhile(_ length: UInt64) -> Bool { length > UInt64(WireHeader.inlineLimit) && length <= 64 << 20 }

    /// nil if there is no memory or no descriptor.
    static func make() -> KeptMemoryPointer? {
        // The receiver must not truncate it while the sender writes to it.
        let file = rl_kept_memory(WireHeader.keptSize)
        guard file >= 0 else { return nil }
        guard rl_take_room(file, 0, WireHeader.placesOffset), let pages = rl_map_kept(file, WireHeader.keptSize) else {
            rl_sys_close(file)
            return nil
        }
        let kept = makeRecord(KeptMemory.self)
        kept.initialize(to: KeptMemory(file: file, identity: FileIdentity(file), pages: pages, taken: 0, isBusy: false, isOrphan: false))
        return kept
    }

    @inline(never)
    func free() {
        munmap(pointee.pages, WireHeader.keptSize)
        pointee.identity.close(pointee.file)
        CRunLoopLinux.free(self)
    }

    private func word(_ place: Int) -> UnsafeMutablePointer<Atomic<UInt32>> {
        (pointee.pages + WireHeader.offsetOfWord(place)).assumingMemoryBound(to: Atomic<UInt32>.self)
    }

    private func isFree(_ place: Int) -> Bool { word(place).pointee.load(ordering: .acquiring) == 0 }

    /// Nothing of an earlier message is left in it.
    var isEmpty: Bool {
        for place in 0..<WireHeader.places where !isFree(place) { return false }
        return true
    }

    /// Copies the next part into the next place in turn. nil if that place stays taken for too long, there is no memory for it, or the program has
    /// closed the file.
    @inline(never)
    func fill(_ number: Int, _ bytes: UnsafeRawPointer, _ left: Int, _ patience: inout PartsPatience) -> OutgoingMessage? {
        let place = number % WireHeader.places
        let offset = WireHeader.offset(ofPlace: place)
        if !isFree(place) && !waitFor(place, left, &patience) { return nil }
        guard pointee.identity.has(pointee.file) else { return nil }
        // A store to a page that the kernel has no memory for would end the process.
        if pointee.taken & 1 << UInt32(place) == 0 {
            guard rl_take_room(pointee.file, offset, WireHeader.placeSize) else { return nil }
            pointee.taken |= 1 << UInt32(place)
        }
        let count = Swift.min(left, WireHeader.placeSize)
        memcpy(pointee.pages + offset, bytes, count)
        word(place).pointee.store(1, ordering: .releasing)
        return OutgoingMessage(part: count, place: place, of: self)
    }

    /// The receiver gives places back without waking the sender: the sender polls for them, at growing intervals.
    private func waitFor(_ place: Int, _ left: Int, _ patience: inout PartsPatience) -> Bool {
        let start = Clock.now()
        let end = start + Swift.min(patience.left, Int64(Swift.min(Swift.max(left, 1_000_000), 20_000_000)))
        var now = start
        var pause = 20_000
        while now < end && !isFree(place) {
            var time = timespec(tv_sec: 0, tv_nsec: pause)
            rl_sys_nanosleep(&time)
            pause = Swift.min(pause * 2, 160_000)
            now = Clock.now()
        }
        patience.left -= now - start
        return isFree(place)
    }

    /// Takes back out of its place a part that could not be sent.
    func takeBack(_ part: OutgoingMessage) { word(Int(part.header.number)).pointee.store(0, ordering: .releasing) }
}

extension OutgoingMessage {
    /// The rest of a message as its last part, in memory of its own. nil if there is no memory.
    static func rest(_ bytes: UnsafeRawPointer, _ length: Int) -> OutgoingMessage? {
        let header = WireHeader(kind: .part, flags: 0, id: 0, number: 0, length: UInt64(length), descriptors: 0)
        var message = OutgoingMessage(header, bytes: bytes)
        return message.moveToMemory() ? message : nil
    }
}

/// How long the sender of a message waits for places in all, in nanoseconds; for one place it waits about as long as the other
/// way would take for the rest. So a receiver that gives places back slowly does not delay the sender again and again.
struct PartsPatience {
    var left: Int64

    /// `limit`: what the message's own time leaves.
    init(_ length: Int, limit: Int64 = .max) { left = Swift.min(20_000_000 + Int64(length), limit) }
}

/// What the messages that are arriving in parts hold in a port, all its connections together. The port's lock guards it.
struct HeldByParts {
    var memory = 0
    var descriptors = 0

    static var memoryLimit: Int { 256 << 20 }
    static var descriptorLimit: Int { 256 }

    /// So much that stalled messages have to make room.
    var isMuch: Bool { memory > HeldByParts.memoryLimit / 2 || descriptors > HeldByParts.descriptorLimit / 2 }
}

/// A message that is arriving in parts. The zero value is none.
struct PartialMessage {
    /// Has data from the first part on; memory is taken as parts come, never for what a header announces.
    private var message: IncomingMessage?
    private var got = 0
    /// What the message has of the port's `HeldByParts`.
    private var room = 0
    private var descriptors = 0
    /// There was no descriptor or no room for something of it. Its parts are still taken, and it is answered with a failure.
    private var isLost = false
    /// When its last datagram came, or was there to be taken.
    var time: Int64 = 0

    init() {}

    /// Whether it is begun, and nothing has come since that time.
    func isStill(since past: Int64) -> Bool { message != nil && time < past }

    /// A message that was begun before is one whose sender gave up.
    mutating func begin(_ new: IncomingMessage, isLost lost: Bool, _ held: inout HeldByParts) -> Incoming {
        discard(&held)
        message = new
        isLost = lost
        if held.descriptors + new.descriptorCount > HeldByParts.descriptorLimit {
            message!.discard()
            isLost = true
        }
        descriptors = message!.descriptorCount
        // They stay here for a while: as those of the library's own.
        for index in 0..<descriptors { new.descriptors![index] = rl_high_number(new.descriptors![index]) }
        held.descriptors += descriptors
        time = Clock.now()
        return .part(0)
    }

    @inline(never)
    mutating func discard(_ held: inout HeldByParts) {
        message?.discard()
        forget(&held)
    }

    private mutating func forget(_ held: inout HeldByParts) {
        held.memory -= room
        held.descriptors -= descriptors
        self = PartialMessage()
    }

    /// Takes a part out of the memory, whose descriptor is closed; -1: its descriptor was lost, and the message with it. Its
    /// place stays taken then, and the sender takes the other way from then on.
    mutating func append(_ header: WireHeader, _ memory: Int32, _ held: inout HeldByParts) -> Incoming {
        defer { if memory >= 0 { rl_drop(memory) } }
        let count = Int(header.length)
        guard let total = message.map({ Int($0.header.length) }), count <= total - got else {
            defer { discard(&held) }
            return .refused(message == nil ? .order : .length)
        }
        if memory < 0 {
            isLost = true
        } else if !isReadable(header, memory, count) {
            discard(&held)
            return .refused(.memory)
        }
        if !isLost && !takeRoom(count, of: total, &held) { isLost = true }
        if isLost {
            dropData(&held)
        } else if !read(header, memory, count) {
            discard(&held)
            return .refused(.memory)
        }
        // Without room for the data the place is given back nevertheless.
        if memory >= 0 && header.flags & WireHeader.inKeptMemory != 0 {
            rl_write_word(memory, 0, WireHeader.offsetOfWord(Int(header.number)))
        }
        got += count
        guard got == total else {
            time = Clock.now()
            return .part(count)
        }
        let complete = message!
        message = nil
        forget(&held)
        return .message(complete)
    }

    private mutating func dropData(_ held: inout HeldByParts) {
        message!.data?.release()
        message!.data = nil
        held.memory -= room
        room = 0
    }

    /// Reading anything but memory might wait; and the sender pays for a part in memory of its own.
    private func isReadable(_ header: WireHeader, _ memory: Int32, _ count: Int) -> Bool {
        header.flags & WireHeader.inKeptMemory != 0 ? rl_is_memory(memory) : rl_holds(memory, count, false)
    }

    private mutating func takeRoom(_ count: Int, of total: Int, _ held: inout HeldByParts) -> Bool {
        let needed = got + count
        guard needed > room else { return true }
        guard held.memory - room + Swift.min(total, needed * 4) <= HeldByParts.memoryLimit else { return false }
        let grown = message!.data.map { $0.grown(total, for: needed) } ?? DataPointer.growing(total, for: needed)
        guard let grown else { return false }
        message!.data = grown.data
        held.memory += grown.room - room
        room = grown.room
        return true
    }

    private func read(_ header: WireHeader, _ memory: Int32, _ count: Int) -> Bool {
        let isKept = header.flags & WireHeader.inKeptMemory != 0
        let offset = isKept ? WireHeader.offset(ofPlace: Int(header.number)) : 0
        var done = 0
        while done < count {
            let taken = rl_sys_pread(memory, message!.data!.bytes + got + done, count - done, off_t(offset + done))
            guard taken > 0 else { return false }
            done += taken
        }
        return true
    }
}
