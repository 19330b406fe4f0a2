// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

internal import Synchronization

// Which object is whose, and what is said of all threads.

/// A thread's hold on its object.
private final class OwnThread {
    let thread: Thread

    init(_ thread: Thread) { self.thread = thread }

    deinit {
        // The last one hears of its end: of a thread that this class has not started nobody else tells.
        if thread.state.withLock({ $0.reference == nil }) { thread.finish() }
    }
}

extension Thread {
    private static let own = ThreadLocal<OwnThread>(outlivesLoop: true)

    /// The main thread's object, once anybody has asked for it.
    private static let mainObject = Locked<Thread?>(nil)

    private static let hasBecomeMany = Atomic(false)

    static func prepare() {
        _ = (own, mainObject)
        _ = hasBecomeMany.load(ordering: .relaxed)
    }

    /// In a child of `fork`, on the thread that is the main one there.
    static func forgetMain() { replaceMain(in: mainObject) }

    private static func replaceMain(in object: borrowing Locked<Thread?>) {
        let known = own.known?.thread
        let former = object.withLock { main in
            let former = main
            main = known
            return former
        }
        // Kept on: this is no place for its deinitializer.
        if let former { _ = Unmanaged.passRetained(former) }
    }

    /// What the runtime makes for ``forgetMain()`` at the first use.
    static func warmUp() { replaceMain(in: Locked<Thread?>(nil)) }

    /// The calling thread has that object from now on.
    static func become(_ thread: Thread) {
        if own.known?.thread === thread { return }
        _ = own.value { OwnThread(thread) }
    }

    /// The object of the calling thread, the same for the life of the thread.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public class var current: Thread { ownThread }

    private static var ownThread: Thread {
        own.value { OwnThread(RLThreadIsMain() ? mainThread(isOwn: true) : Thread(ofCallingThread: true)) }.thread
    }

    /// The object of the main thread; in a child of `fork` that is the thread that forked.
    public class var main: Thread { RLThreadIsMain() ? ownThread : mainThread(isOwn: false) }

    private static func mainThread(isOwn: Bool) -> Thread {
        if let known = mainObject.withLock({ $0 }) {
            if isOwn { known.noteHandle() }
            return known
        }
        let made = Thread(ofCallingThread: isOwn)
        let main = mainObject.withLock { main in
            if main == nil { main = made }
            return main!
        }
        if isOwn { main.noteHandle() }
        return main
    }

    /// Another name of ``main``.
    public class var mainThread: Thread { main }

    /// Whether the calling thread is the main one.
    @available(*, noasync, message: "an asynchronous function may change its thread at each await")
    public class var isMainThread: Bool { RLThreadIsMain() }

    /// Whether this is the main thread's object.
    public var isMainThread: Bool { Thread.main === self }

    /// Starts a thread that calls a closure, without returning its object.
    ///
    /// - Parameter block: called once, on the thread.
    public class func detachNewThread(_ block: @escaping @Sendable () -> Void) { Thread(block: block).start() }

    /// Starts a thread that performs a selector, without returning its object.
    ///
    /// - Parameters:
    ///   - selector: the action.
    ///   - target: the object that performs it.
    ///   - argument: the argument of the selector's action.
    public class func detachNewThreadSelector<Target: Performer>(
        _ selector: Selector<Target>, toTarget target: Target, with argument: (any Sendable)?
    ) {
        Thread(target: target, selector: selector, object: argument).start()
    }

    /// Whether the library has ever started a thread.
    public class func isMultiThreaded() -> Bool { RLThreadIsMultiThreaded() }

    /// Posts that there will be several threads, before the first one that the library starts.
    static func becomeMultiThreaded() {
        if hasBecomeMany.exchange(true, ordering: .relaxed) || RLThreadIsMultiThreaded() { return }
        NotificationCenter.default.post(name: .NSWillBecomeMultiThreaded, object: nil)
    }

    /// Ends the calling thread, after posting ``Notification/Name/NSThreadWillExit``.
    ///
    /// What the functions on its stack hold, memory and locks, is not released, so it is better to return. One that calls
    /// `RunLoop.current.run()` holds the loop: ended inside that, the thread leaves its loop's memory behind.
    @available(*, noasync, message: "it would end a thread that others use")
    public class func exit() -> Never {
        tellOwnEnd()
        RLThreadExit(nil)
    }

    /// Not in `exit`, whose variables are never released.
    @inline(never)
    private static func tellOwnEnd() { current.tellEnd() }

    /// Puts the calling thread to sleep until a date; its loop serves nothing meanwhile.
    ///
    /// - Parameter date: with a past date the thread does not sleep.
    @available(*, noasync, message: "it blocks the thread; await Task.sleep")
    public class func sleep(until date: ContinuousClock.Instant) { RLThreadSleepForSeconds(date.secondsFromNow) }

    /// Puts the calling thread to sleep for a time; its loop serves nothing meanwhile.
    ///
    /// - Parameter interval: with zero or less the thread does not sleep.
    @available(*, noasync, message: "it blocks the thread; await Task.sleep")
    public class func sleep(forTimeInterval interval: Duration) { RLThreadSleepForSeconds(interval.inSeconds) }
}

// MARK: - Stack

extension Thread {
    /// The return addresses of the calling thread's stack, the innermost first; empty where the C library does not know them.
    public class var callStackReturnAddresses: [UInt] {
        withCallStack { _, addresses in addresses.map { UInt(bitPattern: $0) } }
    }

    /// The same as text, each with the file and, where the file contains it, the function.
    public class var callStackSymbols: [String] {
        withCallStack { symbols, addresses in
            typealias Symbols = @convention(c) (UnsafePointer<UnsafeMutableRawPointer?>, CInt) -> UnsafeMutablePointer<UnsafePointer<CChar>?>?
            guard let symbols, let base = addresses.baseAddress else { return [] }
            guard let lines = unsafeBitCast(symbols, to: Symbols.self)(base, CInt(addresses.count)) else { return [] }
            defer { free(lines) }
            return addresses.indices.map { lines[$0].map { String(cString: $0) } ?? "" }
        }
    }

    /// With the functions of execinfo.h, which not every C library has.
    @inline(never)
    private static func withCallStack<Result>(
        _ body: (UnsafeMutableRawPointer?, UnsafeBufferPointer<UnsafeMutableRawPointer?>) -> Result
    ) -> Result {
        typealias Backtrace = @convention(c) (UnsafeMutablePointer<UnsafeMutableRawPointer?>, CInt) -> CInt
        guard let backtrace = systemFunction("backtrace") else { return body(nil, UnsafeBufferPointer(start: nil, count: 0)) }
        return withUnsafeTemporaryAllocation(of: UnsafeMutableRawPointer?.self, capacity: 256) { buffer in
            let count = unsafeBitCast(backtrace, to: Backtrace.self)(buffer.baseAddress!, CInt(buffer.count))
            return body(systemFunction("backtrace_symbols"), UnsafeBufferPointer(rebasing: UnsafeBufferPointer(buffer)[..<Int(count)]))
        }
    }
}

// MARK: - Notifications

extension Notification.Name {
    /// Posted before the library starts its first thread, if Swift code does that, by the thread that does. It has no sender.
    public static var NSWillBecomeMultiThreaded: Notification.Name { .init("NSWillBecomeMultiThreadedNotification") }

    /// Never posted: a process that has had several threads counts as multi-threaded permanently.
    public static var NSDidBecomeSingleThreaded: Notification.Name { .init("NSDidBecomeSingleThreadedNotification") }

    /// Posted by a ``Thread`` that ends, on that thread; the sender is the thread.
    public static var NSThreadWillExit: Notification.Name { .init("NSThreadWillExitNotification") }
}
