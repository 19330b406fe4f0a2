import CLinux
import Synchronization

/// The version 1 sources of a mode and their registrations in the mode's epoll set. The loop's lock guards it.
///
/// Slots are found by descriptor number. Each has a generation, which stands in the kernel's event beside the number: an event
/// of a registration that was replaced is dropped. The sources on one number form a set whose last member gets the events
/// (S-SRC-44). A mode without ports has no descriptor and sleeps on the futex.
struct PortSet {
    var epoll: EpollSet
    /// Sources in the set, those with unwatchable ports included.
    private(set) var count: Int
    /// Slots that wait for room in the kernel, or for the epoll set itself.
    private var unregistered: Int
    private var slots: UnsafeMutablePointer<Slot>?
    private var capacity: Int

    struct Slot {
        var sources: SmallSet<Source>
        var generation: UInt32
        var state: State
        /// An eventfd or timerfd, whose count is taken before perform (S-SRC-46).
        var isCounter: Bool
    }

    enum State: UInt8 {
        case unused = 0
        /// Not told to the kernel yet: no descriptor or no room.
        case waiting
        case registered
        /// Not watchable.
        case refused
    }

    /// Zeroed memory is right but for the descriptor.
    mutating func initialize() { epoll = EpollSet() }

    /// Whether a wait has to look at the kernel's set.
    var needsKernel: Bool { count > 0 }
    var needsRetry: Bool { unregistered > 0 }

    mutating func insert(_ source: SourcePointer, in mode: ModePointer) {
        count += 1
        let port = source.pointee.port.load(ordering: .relaxed)
        guard port >= 0 else { return }
        let index = Int(port)
        if index >= capacity { grow(to: index + 1) }
        // A wrong number as large as this is no descriptor; see `grow`.
        guard index < capacity else { return }
        slots![index].sources.insert(source)
        slots![index].generation &+= 1
        slots![index].isCounter = isCounter(port)
        if slots![index].state == .waiting { unregistered -= 1 }
        slots![index].state = .waiting
        unregistered += 1
        // A loop whose thread is gone never waits: it needs no descriptor.
        if mode.pointee.loop.pointee.threadAlive.load(ordering: .relaxed) { register(index) }
    }

    mutating func remove(_ source: SourcePointer, in mode: ModePointer) {
        count -= 1
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard index >= 0 && index < capacity && slots![index].sources.contains(source) else { return }
        slots![index].sources.remove(source)
        guard slots![index].sources.isEmpty else { return }
        switch slots![index].state {
        case .registered: epoll.unregister(Int32(index))
        case .waiting: unregistered -= 1
        case .unused, .refused: break
        }
        slots![index].state = .unused
    }

    private mutating func grow(to needed: Int) {
        // No process has more descriptors than this (sysctl fs.nr_open's default); a larger number is no port.
        guard needed <= 1 << 20 else { return }
        let old = capacity
        capacity = max(16, nextPowerOfTwo(needed))
        slots = growArray(slots, count: capacity)
        memset(slots! + old, 0, (capacity - old) * MemoryLayout<Slot>.stride)
    }

    private mutating func register(_ index: Int) {
        guard slots![index].state == .waiting, epoll.open() else { return }
        let token = UInt64(slots![index].generation) << 32 | UInt64(index)
        switch epoll.register(Int32(index), token: token) {
        case .accepted: slots![index].state = .registered
        case .refused: slots![index].state = .refused
        case .later: return
        }
        unregistered -= 1
    }

    /// Tells the kernel of the ports it had no room for. True if all are told.
    mutating func retry() -> Bool {
        guard unregistered > 0 else { return true }
        guard epoll.open() else { return false }
        for index in 0..<capacity where slots![index].state == .waiting { register(index) }
        return unregistered == 0
    }

    /// Whether an event is for a registration that stands. If not, the kernel watches a file that is gone from here but open
    /// elsewhere under another number, and cannot be told to stop: the set is made anew.
    mutating func accepts(token: UInt64) -> Bool {
        let index = Int(token & 0xffff_ffff)
        if index < capacity && slots![index].state == .registered && slots![index].generation == UInt32(token >> 32) {
            return true
        }
        closeKernelSet()
        _ = retry()
        return false
    }

    /// The source that gets an event, nil if the registration is not the one the event is for, or the event is over.
    func source(forToken token: UInt64, mayBeDrained: Bool) -> SourcePointer? {
        let index = Int(token & 0xffff_ffff)
        guard index < capacity, slots![index].state == .registered,
            slots![index].generation == UInt32(token >> 32)
        else { return nil }
        if slots![index].isCounter ? !takeCount(Int32(index)) : mayBeDrained && !isReadable(Int32(index)) { return nil }
        return slots![index].sources.last
    }

    /// Gives the descriptor back; everything registered is registered anew when a set is made again.
    mutating func closeKernelSet() {
        epoll.close()
        for index in 0..<capacity where slots![index].state == .registered || slots![index].state == .refused {
            slots![index].state = .waiting
            unregistered += 1
        }
    }

    mutating func free() {
        epoll.close()
        for index in 0..<capacity { slots![index].sources.removeAll() }
        CLinux.free(slots)
        slots = nil
        capacity = 0
    }
}
