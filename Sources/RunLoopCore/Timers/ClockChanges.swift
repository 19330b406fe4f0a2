// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The thread that watches for changes of the system's clocks (S-TMR-64), one for the process. It sleeps until the kernel reports that the
/// wall clock was set or that the machine has resumed, and then has each loop look at its timers.
///
/// It is a thread and not a descriptor of the loops: if several loops watch a descriptor the kernel may report to only one of them, and a
/// loop may wait where it watches none. It calls no client code but the log handler.
struct ClockChanges: ~Copyable {
    /// A `ClockListener`. Relaxed: it orders nothing.
    let listener: Atomic<UInt32>
    /// The number of the kernel's timer, plus one. Written under the registry's lock, which `fork` takes: the child closes it.
    var number: Int32

    static var shared: UnsafeMutablePointer<ClockChanges> { rl_clock_changes().cast(to: ClockChanges.self) }

    /// Makes the thread if there is none. No lock is held: it may call the log handler.
    static func listen() {
        let former = shared.pointee.listener.exchange(ClockListener.running, ordering: .relaxed)
        if former == ClockListener.running || former == ClockListener.runningAgain { return }
        // The child has set `lostDescriptor`, which a loop has yet to find, so it is noted that this was the reason.
        if former == ClockListener.lost { shared.pointee.listener.store(ClockListener.runningAgain, ordering: .relaxed) }
        startThread()
    }

    @inline(never)
    fileprivate static func startThread() {
        if rl_start_thread({ _ in ClockChanges.run() }, nil) { return }
        shared.pointee.listener.store(ClockListener.none, ordering: .relaxed)
        Log.once(.noClockThread, "RLTimerCreateWithClock", ": no thread to hear of clocks that are set")
    }

    /// Called when a waiting loop finds something lost: whether it was this thread.
    static func listenAgain() -> Bool {
        let state = shared.pointee.listener.load(ordering: .relaxed)
        guard state == ClockListener.lost || state == ClockListener.runningAgain else { return false }
        if state == ClockListener.lost { listen() }
        _ = shared.pointee.listener.compareExchange(
            expected: ClockListener.runningAgain, desired: ClockListener.running, ordering: .relaxed)
        return true
    }

    private static func run() -> Never {
        rl_set_thread_name("runloop-clock")
        var wall = Int64.min
        var boot = Int64.min
        while true {
            let descriptor = makeDescriptor()
            // What came before the descriptor is found here, and what comes after it by the next wait. Where there is none a clock that was set is
            // known by its distance to the monotonic one, which also grows slowly while a clock is adjusted.
            let (wallNow, bootNow) = (Clock.wallOffsetNow(), Clock.bootOffset())
            if descriptor >= 0 || (wallNow &- wall).magnitude > 1_000_000 || (bootNow &- boot).magnitude > 1_000_000 {
                (wall, boot) = (wallNow, bootNow)
                followAll()
            }
            if descriptor < 0 || !rl_await_clock_change(descriptor) {
                // The log handler may end the thread: then another one takes its place.
                callOutGuarded({ _ in ClockChanges.tellOfNoDescriptor() }, nil, { _ in ClockChanges.startThread() }, shared)
                var second = timespec(tv_sec: 1, tv_nsec: 0)
                rl_sys_nanosleep(&second)
            }
        }
    }

    fileprivate static func tellOfNoDescriptor() {
        Log.once(.noClockDescriptor, "RLTimerCreateWithClock", ": no descriptor to hear of clocks that are set; looking each second")
    }

    /// The present one, or a new one if the program closed that; below zero if none is available.
    private static func makeDescriptor() -> Int32 {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        let descriptor = shared.pointee.number - 1
        if rl_is_clock_watch(descriptor) { return descriptor }
        let made = rl_high_number(rl_watch_clocks())
        shared.pointee.number = made + 1
        return made
    }

    private static func followAll() {
        process.pointee.registryLock.lockWord()
        var next = registry.pointee.loopRecords
        process.pointee.registryLock.unlockWord()
        while let loop = next {
            next = loop.pointee.olderRecord
            loop.followClocks(nil)
        }
    }

    /// In the child of `fork`, where the thread does not exist: a waiting loop makes another.
    static func forkedChild() {
        if shared.pointee.listener.load(ordering: .relaxed) == ClockListener.none { return }
        if rl_is_clock_watch(shared.pointee.number - 1) { rl_sys_close(shared.pointee.number - 1) }
        shared.pointee.number = 0
        shared.pointee.listener.store(ClockListener.lost, ordering: .relaxed)
        Losses.note()
    }
}

/// The values of `ClockChanges.listener`. Every legal value is here.
enum ClockListener {
    static var none: UInt32 { 0 }
    /// There is a thread, or one is being started.
    static var running: UInt32 { 1 }
    /// There was one in the parent of this process.
    static var lost: UInt32 { 2 }
    /// There is one again, and no loop has noticed since that there was none.
    static var runningAgain: UInt32 { 3 }
}
