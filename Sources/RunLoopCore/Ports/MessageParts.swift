import CLinux
import Synchronization

/// Long messages in parts: the sender copies a part into a place of memory that it keeps for the connection, the receiver copies
/// it out and gives the place back, and both do so at the same time. There are never more copies of a message's bytes than the
/// places hold, and no pages are made for a message but those it ends in.
///
/// A sender never depends on the receiver's going on: if no place becomes free for a moment, because the receiver's loop is
/// busy or is run by the thread that sends, all the rest is the last part and lies in sealed memory of its own.
struct KeptMemory: ~Copyable {
    let file: Int32
    let pages: UnsafeMutableRawPointer
    /// A message is being sent by it. Guarded by the port's lock, as is `isOrphan`.
    var isBusy: Bool
    /// The connection is gone: whoever sends by it frees it.
    var isOrphan: Bool
}

typealias KeptMemoryPointer = UnsafeMutablePointer<KeptMemory>

extension UnsafeMutablePointer where Pointee == KeptMemory {
    /// Shorter messages stand in their datagrams.
    static var worthwhile: Int { WireHeader.inlineLimit + 1 }

    /// How long a place is waited for, in nanoseconds: about as long as the other way would take for what is left.
    private static func patience(_ left: Int) -> Int64 { Int64(Swift.min(Swift.max(left, 1_000_000), 20_000_000)) }

    /// nil if there is no memory or no descriptor.
    static func make() -> KeptMemoryPointer? {
        let file = highNumber(rl_memory_file())
        guard file >= 0 else { return nil }
        // The receiver must not make it shorter under the sender's hands.
        guard let pages = rl_map_kept(file, WireHeader.keptSize) else {
            close(file)
            return nil
        }
        let kept = makeRecord(KeptMemory.self)
        kept.initialize(to: KeptMemory(file: file, pages: pages, isBusy: false, isOrphan: false))
        return kept
    }

    func free() {
        munmap(pointee.pages, WireHeader.keptSize)
        close(pointee.file)
        CLinux.free(self)
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

    /// Copies the next part into the next place in turn. nil if that stays taken for too long.
    func fill(_ number: Int, _ bytes: UnsafeRawPointer, _ left: Int) -> OutgoingMessage? {
        let place = number % WireHeader.places
        if !isFree(place) && !waitFor(place, KeptMemoryPointer.patience(left)) { return nil }
        let count = Swift.min(left, WireHeader.placeSize)
        memcpy(pointee.pages + WireHeader.offset(ofPlace: place), bytes, count)
        word(place).pointee.store(1, ordering: .releasing)
        return OutgoingMessage(part: count, place: place, of: self)
    }

    /// The receiver gives places back without a call to wake by: they are looked for, ever more seldom.
    private func waitFor(_ place: Int, _ patience: Int64) -> Bool {
        let end = Clock.now() + patience
        var pause = 20_000
        repeat {
            var time = timespec(tv_sec: 0, tv_nsec: pause)
            nanosleep(&time, nil)
            if isFree(place) { return true }
            pause = Swift.min(pause * 2, 160_000)
        } while Clock.now() < end
        return isFree(place)
    }

    /// Takes a part that could not be sent out of its place again.
    func takeBack(_ part: OutgoingMessage) { word(Int(part.header.number)).pointee.store(0, ordering: .releasing) }
}

extension OutgoingMessage {
    /// The rest of a message as its last part, in memory of its own. nil if there is none.
    static func rest(_ bytes: UnsafeRawPointer, _ length: Int) -> OutgoingMessage? {
        let header = WireHeader(kind: .part, flags: 0, id: 0, number: 0, length: UInt64(length), descriptors: 0)
        var message = OutgoingMessage(header, bytes: bytes)
        return message.moveToMemory() ? message : nil
    }
}

/// A message that is arriving in parts. The zero value is none.
struct PartialMessage {
    private var message: IncomingMessage?
    private var got = 0

    init() {}

    /// A message that was begun before is one whose sender gave up.
    mutating func begin(_ new: IncomingMessage) -> Incoming {
        discard()
        message = new
        return .part
    }

    mutating func discard() {
        message?.discard()
        message = nil
        got = 0
    }

    /// Takes a part out of the memory, which is closed; -1: its descriptor was lost, and the message with it. Its place stays
    /// taken then, and the sender takes the other way from then on.
    mutating func append(_ header: WireHeader, _ memory: Int32) -> Incoming {
        defer { if memory >= 0 { close(memory) } }
        let count = Int(header.length)
        guard let total = message?.header.length, got + count <= Int(total) else {
            discard()
            return .refused(message == nil ? .order : .length)
        }
        if memory < 0 {
            message!.data?.release()
            message!.data = nil
        } else if !read(header, memory, count) {
            discard()
            return .refused(.length)
        }
        got += count
        guard got == Int(total) else { return .part }
        let complete = message!
        message = nil
        got = 0
        return .message(complete)
    }

    private func read(_ header: WireHeader, _ memory: Int32, _ count: Int) -> Bool {
        // Reading anything else might wait.
        guard rl_is_memory(memory) else { return false }
        let isKept = header.flags & WireHeader.inKeptMemory != 0
        let offset = isKept ? WireHeader.offset(ofPlace: Int(header.number)) : 0
        var done = 0
        // Without room for the data the place is given back all the same.
        while let data = message!.data, done < count {
            let taken = pread(memory, data.bytes + got + done, count - done, off_t(offset + done))
            guard taken > 0 else { return false }
            done += taken
        }
        if isKept {
            var free: UInt32 = 0
            _ = pwrite(memory, &free, 4, off_t(WireHeader.offsetOfWord(Int(header.number))))
        }
        return true
    }
}
