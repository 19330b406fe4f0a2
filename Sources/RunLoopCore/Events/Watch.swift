// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A watch is the library's own kind of source: it calls a function of the library when a descriptor is ready for something that is of
/// interest at that time. File descriptors, sockets and the like are built on it.
///
/// - `makeWatch` makes one; it is an ordinary source for Add, Remove, Contains and Invalidate, and content of its modes even
///   when nothing is of interest.
/// - `enableInterest`, `disableInterest`, `takeInterest` work from any thread at any time, even before the
///   source is in a loop; the caller holds no lock that may come after a loop's. Less interest costs no system call, and
///   neither does interest that is enabled again before the next event.
/// - The handler runs on the loop's thread, without a lock, once per pass as long as the descriptor is ready for something of
///   interest, in turn with everything else that is ready. It gets the bits that are ready and of interest, and says whether
///   that counts as a handled source.
/// - A watch that signals is a version 0 source: readiness that a wait or a poll finds signals it, and its handler runs where signalled
///   sources perform, with the readiness that was found (S-SOCK-52).
/// - A file that epoll refuses though it is open (regular files, /dev/null) is always ready. A number that is closed, or
///   names another file than when the watch was added, is never ready.
///
/// The interest is an atomic word, a `Readiness`, sequentially consistent. Either the owner keeps it, with bits of `Watch` and of its own
/// above it, in the first field behind its header, or it lies behind the source's first link in memory. The flags are in that link.
enum Watch {
    /// A bit of a word that the owner keeps: there will be no more events, and the source is about to be invalid.
    static var ownerIsInvalid: UInt32 { 1 << 2 }
    /// A `Readiness`: what the kernel reports, or will be asked to report, wherever the watch is, whether or not it is of interest now. Interest
    /// that grows by no more than this need not be announced: `interestGrew` has the argument.
    static var armed: UInt32 { 3 << armedShift }
    static var armedShift: UInt32 { 3 }

    /// The owner counts its callbacks on stacks in what is left of the word.
    @inline(never)
    static func trapForCalls(_ owner: StaticString) -> Never { trap(owner, "more callbacks of one object in each other than can be counted") }
    /// It has been in two loops at a time, whose locks do not exclude each other, or its owner has had two sources: `armed` stays empty.
    static var isShared: UInt32 { 1 << 5 }

    /// Whether a step of the word from one value to another adds interest for which the kernel may not be asked.
    @inline(always)
    static func isNews(from old: UInt32, to new: UInt32) -> Bool { new & ~old & 3 & ~(old >> armedShift) != 0 }
}

enum WatchFlags {
    /// Only the library can close the descriptor: it is not checked again before each event.
    static var owned: UInt32 { 1 << 0 }
    /// Only data and room make it ready, not hang-up or an error: there is nothing to accept then, and an error may be one that stays
    /// and of which nothing comes (S-SOCK-51).
    static var onlyInput: UInt32 { 1 << 2 }
    /// Writable means that a connect is over: a socket without a connect, which is writable and hung up, is not
    /// ready (S-SOCK-30).
    static var connects: UInt32 { 1 << 3 }
    /// These make the readiness of a watch more than a comparison with its interest.
    static var special: UInt32 { onlyInput | connects }
    /// Version 0. Set at creation.
    static var signals: UInt32 { 1 << 4 }
    /// The word of interest lies behind the link, not in the owner. Set at creation.
    static var hasWord: UInt32 { 1 << 5 }
    /// Behind the word of interest lies a number of the watch's file, and a mode keeps the registration when the watch leaves (`PortSet.keep`). Set at
    /// creation.
    static var keeps: UInt32 { 1 << 6 }
    /// What a watch that signals was found ready for and has not reported yet: two bits of a `Readiness`. Set under a loop's lock,
    /// taken by the perform.
    static var found: UInt32 { 3 << 8 }
    static var foundShift: UInt32 { 8 }
    /// In which run of which loop: the low bits of that number (`RunLoop.round`).
    static var rounds: UInt32 { 0xffff }
    static var roundShift: UInt32 { 16 }
}

extension UnsafeMutablePointer where Pointee == Source {
    /// Whether it is a watch whose owner is invalid.
    var isLeftOver: Bool {
        isWatch && wordOfWatch.pointee.load(ordering: .relaxed) & Watch.ownerIsInvalid != 0
    }

    /// Adds to the found readiness of a watch that signals, in the run with that number (`RunLoop.round`). What an earlier run found and
    /// this one did not is over.
    func noteFound(_ ready: Readiness, round: UInt32) {
        let round = (round & WatchFlags.rounds) << WatchFlags.roundShift
        var flags = watchFlags.pointee.load(ordering: .relaxed)
        var desired: UInt32
        repeat {
            let isOld = (flags ^ round) & WatchFlags.rounds << WatchFlags.roundShift != 0
            desired = flags & ~(WatchFlags.rounds << WatchFlags.roundShift | (isOld ? WatchFlags.found : 0))
            desired |= ready.rawValue << WatchFlags.foundShift | round
            // Retried only when another thread changed the flags in between, which is progress of that thread.
        } while !watchFlags.pointee.replace(&flags, by: desired)
    }

    /// Takes the found readiness and clears it.
    func takeFound() -> (ready: Readiness, round: UInt32) {
        let old = watchFlags.pointee.bitwiseAnd(~WatchFlags.found, ordering: .relaxed).oldValue
        return (Readiness(rawValue: (old & WatchFlags.found) >> WatchFlags.foundShift), old >> WatchFlags.roundShift)
    }

    /// Only for a watch.
    @inline(always)
    var watchFlags: UnsafePointer<Atomic<UInt32>> { withUnsafePointer(to: firstLink.pointee.watchFlags) { $0 } }

    /// Only for a watch.
    @inline(always)
    var wordOfWatch: UnsafePointer<Atomic<UInt32>> {
        let isOwn = watchFlags.pointee.load(ordering: .relaxed) & WatchFlags.hasWord != 0
        let place = isOwn ? UnsafeRawPointer(firstLink + 1) : UnsafeRawPointer(pointee.info.unsafelyUnwrapped) + MemoryLayout<ObjectHeader>.stride
        return place.assumingMemoryBound(to: Atomic<UInt32>.self)
    }

    /// What `makeWatch` got; 0: nothing.
    @inline(always)
    var fileSerial: UInt32 {
        guard isWatch, watchFlags.pointee.load(ordering: .relaxed) & WatchFlags.keeps != 0 else { return 0 }
        return wordOfWatch[1].load(ordering: .relaxed)
    }

    var interest: Readiness { Readiness(rawValue: wordOfWatch.pointee.load(ordering: .sequentiallyConsistent) & 3) }

    /// The loop, whose lock the caller holds, is about to ask the kernel for less than before, or never to hear of it: from now on more interest
    /// is announced. The interest is read after this.
    @inline(always)
    func expectAnnouncements() {
        if wordOfWatch.pointee.load(ordering: .relaxed) & Watch.armed != 0 { forgetArmed() }
    }

    @inline(never)
    private func forgetArmed() {
        wordOfWatch.pointee.bitwiseAnd(~Watch.armed, ordering: .sequentiallyConsistent)
    }

    /// The watch comes into a mode of a loop whose lock the caller holds.
    func noteLoops() {
        if pointee.moreLinks.load(ordering: .relaxed) != nil { wordOfWatch.pointee.bitwiseOr(Watch.isShared, ordering: .sequentiallyConsistent) }
    }

    /// Its owner has had another source, which is alive: the locks of their loops do not exclude each other either.
    func noteOtherSource() {
        if isWatch { wordOfWatch.pointee.bitwiseOr(Watch.isShared, ordering: .sequentiallyConsistent) }
    }

    /// The kernel is asked for this in all modes of the loop whose lock the caller holds and that has the watch.
    func noteArmed(_ armed: Readiness) {
        var word = wordOfWatch.pointee.load(ordering: .relaxed)
        var desired: UInt32
        repeat {
            desired = word | armed.rawValue << Watch.armedShift
            if desired == word || word & Watch.isShared != 0 { return }
            // Retried only when another thread changed the word in between, which is progress of that thread.
        } while !wordOfWatch.pointee.replace(&word, by: desired)
    }

    /// Takes no lock.
    func disableInterest(_ less: Readiness) { _ = takeInterest(less) }

    /// Disables interest and returns the part of it that was enabled.
    func takeInterest(_ ready: Readiness) -> Readiness {
        let old = wordOfWatch.pointee.bitwiseAnd(~ready.rawValue, ordering: .sequentiallyConsistent).oldValue
        return Readiness(rawValue: old & ready.rawValue)
    }

    /// The part of `interest` that a watch with these flags sees in bits of epoll(7).
    static func seen(_ events: UInt32, _ interest: Readiness, _ flags: UInt32, _ descriptor: Int32) -> Readiness {
        var ready = Readiness(events: events).intersection(interest)
        if flags & WatchFlags.onlyInput != 0 {
            ready.formIntersection(Readiness(events: events & (EPOLLIN.rawValue | EPOLLOUT.rawValue)))
        }
        let ends = events & (EPOLLHUP.rawValue | EPOLLERR.rawValue)
        if flags & WatchFlags.connects != 0 && ready.contains(.write) && ends == EPOLLHUP.rawValue
            && !rl_socket_has_peer(descriptor)
        {
            ready.remove(.write)
        }
        return ready
    }
}
