import CLinux
import Synchronization

/// A watch is the library's own kind of source: it calls a function of the library when a descriptor is ready for what is of
/// interest at that time. File descriptors, sockets and the like are made of it.
///
/// - `makeWatch` makes one; it is an ordinary source for Add, Remove, Contains and Invalidate, and content of its modes even
///   when nothing is of interest.
/// - `setInterest`, `enableInterest`, `disableInterest`, `takeInterest` work from any thread at any time, also before the
///   source is in a loop; the caller holds no lock that may come after a loop's. Less interest costs no system call, and
///   neither does interest that comes back before the next event.
/// - The handler runs on the loop's thread, without a lock, once per pass as long as the descriptor is ready for something of
///   interest, in turn with everything else that is ready. It gets the bits that are ready and of interest, and says whether
///   that counts as a handled source.
/// - A watch that signals is a version 0 source: what a wait or a poll finds ready signals it, and its handler runs where signalled
///   sources perform, with what was found (S-SOCK-52).
/// - A file that epoll refuses though it is open (regular files, /dev/null) is always ready. A number that is closed, or
///   names another file than when the watch was added, is never ready.
///
/// What it has beyond a source lies behind the source's first link in memory, so that other sources do not grow.
struct Watch: ~Copyable {
    /// A `Readiness`; sequentially consistent. It is the watch's own word or one that the owner keeps for it, with other bits
    /// above these.
    var word: UnsafePointer<Atomic<UInt32>>
    let ownWord: Atomic<UInt32>
    /// `WatchFlags`.
    let flags: Atomic<UInt32>

    /// A bit of a word that the owner keeps: there will be no more events, and the source is about to be invalid.
    static var ownerIsInvalid: UInt32 { 1 << 2 }
}

typealias WatchPointer = UnsafeMutablePointer<Watch>

enum WatchFlags {
    /// Nobody but the library can close the descriptor: it is not looked at again before each event.
    static var owned: UInt32 { 1 << 0 }
    /// The number names another file than it did when the source was added. Cleared by the next Add.
    static var stale: UInt32 { 1 << 1 }
    /// Readable is data alone, not hang-up or an error: there is nothing to accept then.
    static var onlyInput: UInt32 { 1 << 2 }
    /// Writable means that a connect is over: a socket that nobody has begun to connect, which is writable and hung up, is not
    /// ready (S-SOCK-30).
    static var connects: UInt32 { 1 << 3 }
    /// Version 0. Set at creation.
    static var signals: UInt32 { 1 << 4 }
    /// What a watch that signals was found ready for and not told yet: two bits of a `Readiness`. Set under a loop's lock,
    /// taken by the perform.
    static var found: UInt32 { 3 << 8 }
    static var foundShift: UInt32 { 8 }
    /// In which run of which loop, by the end of that number (`RunLoop.round`).
    static var rounds: UInt32 { 0xffff }
    static var roundShift: UInt32 { 16 }
}

/// What a descriptor is ready for, as select sees it (S-SOCK-51).
struct Readiness: OptionSet {
    let rawValue: UInt32

    /// Data, end of file, hang-up or an error.
    static var read: Readiness { Readiness(rawValue: 1) }
    /// Room, or an error.
    static var write: Readiness { Readiness(rawValue: 2) }

    init(rawValue: UInt32) { self.rawValue = rawValue }

    /// From the bits of epoll(7), which are those of poll(2).
    init(events: UInt32) {
        let errors = EPOLLERR.rawValue
        var ready: UInt32 = 0
        if events & (EPOLLIN.rawValue | EPOLLHUP.rawValue | errors) != 0 { ready |= 1 }
        if events & (EPOLLOUT.rawValue | errors) != 0 { ready |= 2 }
        rawValue = ready
    }

    var events: UInt32 {
        (contains(.read) ? EPOLLIN.rawValue : 0) | (contains(.write) ? EPOLLOUT.rawValue : 0)
    }
}

/// Called with the source's info and the `Readiness` bits; true: it counts as a handled source.
typealias WatchHandler = @convention(c) (_ info: UnsafeMutableRawPointer?, _ ready: UInt32) -> Bool

extension UnsafeMutablePointer where Pointee == Source {
    /// Creates a watch with one reference. Of the functions, `retain`, `release` and `copyDescription` care for the info and
    /// `schedule` and `cancel` tell of Add and Remove; the others are not used. `word` is where the owner keeps what is of
    /// interest, if it does; it must live as long as the info.
    static func makeWatch(
        descriptor: Int32, order: Int, info: UnsafeMutableRawPointer?, functions: SourceFunctions, interest: Readiness,
        word: UnsafePointer<Atomic<UInt32>>? = nil, owned: Bool = false, options: UInt32 = 0,
        handler: @escaping WatchHandler
    ) -> SourcePointer {
        var functions = functions
        functions.watch = handler
        let source = make(
            order: order, info: info, functions: functions, isPort: options & WatchFlags.signals == 0,
            tail: MemoryLayout<Watch>.stride)
        source.pointee.port.store(descriptor, ordering: .relaxed)
        source.pointee.state.bitwiseOr(SourceState.watch, ordering: .relaxed)
        let watch = source.watch
        watch.pointee.word = word ?? withUnsafePointer(to: watch.pointee.ownWord) { $0 }
        if word == nil { watch.pointee.ownWord.store(interest.rawValue, ordering: .relaxed) }
        watch.pointee.flags.store(options | (owned ? WatchFlags.owned : 0), ordering: .relaxed)
        return source
    }

    var isWatch: Bool { pointee.state.load(ordering: .relaxed) & SourceState.watch != 0 }

    /// Whether it is a watch whose owner is invalid.
    var isLeftOver: Bool {
        isWatch && watch.pointee.word.pointee.load(ordering: .relaxed) & Watch.ownerIsInvalid != 0
    }

    /// Whether its modes ask the kernel about it.
    var hasDescriptor: Bool {
        let kind = pointee.state.load(ordering: .relaxed)
        return kind & (SourceState.versionOne | SourceState.watch) != 0 && kind & SourceState.inbox == 0
    }

    /// A watch that is a version 0 source.
    var isSignallingWatch: Bool {
        pointee.state.load(ordering: .relaxed) & (SourceState.versionOne | SourceState.watch) == SourceState.watch
    }

    /// Adds to what a watch that signals was found ready for, in the run of that number (`RunLoop.round`).
    func noteFound(_ ready: Readiness, round: UInt32) {
        var flags = watch.pointee.flags.load(ordering: .relaxed)
        var desired: UInt32
        repeat {
            desired = flags & ~(WatchFlags.rounds << WatchFlags.roundShift) | ready.rawValue << WatchFlags.foundShift
            desired |= (round & WatchFlags.rounds) << WatchFlags.roundShift
            // Retried only when another thread changed the flags in between, which is progress of that thread.
        } while !watch.pointee.flags.replace(&flags, by: desired)
    }

    /// Takes that away.
    func takeFound() -> (ready: Readiness, round: UInt32) {
        let old = watch.pointee.flags.bitwiseAnd(~WatchFlags.found, ordering: .relaxed).oldValue
        return (Readiness(rawValue: (old & WatchFlags.found) >> WatchFlags.foundShift), old >> WatchFlags.roundShift)
    }

    /// Only for a watch.
    var watch: WatchPointer { UnsafeMutableRawPointer(firstLink + 1).assumingMemoryBound(to: Watch.self) }

    var interest: Readiness { Readiness(rawValue: watch.pointee.word.pointee.load(ordering: .sequentiallyConsistent) & 3) }

    func setInterest(_ new: Readiness) {
        let old = watch.pointee.word.pointee.exchange(new.rawValue, ordering: .sequentiallyConsistent)
        if new.rawValue & ~old != 0 { interestGrew() }
    }

    func enableInterest(_ more: Readiness) {
        let old = watch.pointee.word.pointee.bitwiseOr(more.rawValue, ordering: .sequentiallyConsistent).oldValue
        if more.rawValue & ~old != 0 { interestGrew() }
    }

    /// Takes no lock.
    func disableInterest(_ less: Readiness) { _ = takeInterest(less) }

    /// Switches off and says what of it was on.
    func takeInterest(_ ready: Readiness) -> Readiness {
        let old = watch.pointee.word.pointee.bitwiseAnd(~ready.rawValue, ordering: .sequentiallyConsistent).oldValue
        return Readiness(rawValue: old & ready.rawValue)
    }

    /// What of `interest` a watch with these flags sees in bits of epoll(7).
    static func seen(_ events: UInt32, _ interest: Readiness, _ flags: UInt32, _ descriptor: Int32) -> Readiness {
        var ready = Readiness(events: events).intersection(interest)
        if flags & WatchFlags.onlyInput != 0 && events & EPOLLIN.rawValue == 0 { ready.remove(.read) }
        let ends = events & (EPOLLHUP.rawValue | EPOLLERR.rawValue)
        if flags & WatchFlags.connects != 0 && ready.contains(.write) && ends == EPOLLHUP.rawValue
            && !rl_socket_has_peer(descriptor)
        {
            ready.remove(.write)
        }
        return ready
    }

    /// Registers the number with the kernel once more, wherever it is watched, because it may name another file now.
    func registerAnew() {
        forEachModeOfLoops { $0.pointee.ports.registerAnew(self, in: $0) }
    }

    /// Tells the modes that hold the watch. An Add claims the link and then reads the interest, this looks at the link after the
    /// interest has changed, both sequentially consistent. A loop that takes bits of a registration back reads the interest under its lock, and
    /// this takes that lock after the interest has changed: one of the two arms the registration.
    func interestGrew() {
        forEachModeOfLoops { $0.pointee.ports.interestGrew(of: self, in: $0) }
    }

    /// Calls the body with each mode that holds the watch, under the lock of its loop; true: the loop has to look again.
    private func forEachModeOfLoops(_ body: (ModePointer) -> Bool) {
        forEachLink { link in
            // The loop may be gone by now; its memory and lock are not, and the second look tells.
            guard let loop = link.pointee.loop.load(ordering: .sequentiallyConsistent), !loop.isVanished else { return }
            loop.lock()
            guard link.pointee.loop.load(ordering: .relaxed) == loop else { return loop.unlock() }
            var unseen = false
            for index in 0..<link.pointee.modes.count {
                let mode = link.pointee.modes[index]
                if body(mode) { unseen = true }
            }
            loop.unlock()
            if unseen { loop.lookAgainIfForeign() }
        }
    }
}
