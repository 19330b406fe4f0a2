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

/// Finds the one `RunLoop` object of a loop.
///
/// Two places know the objects. The table has all that exist and keeps none alive, so a loop whose thread has ended goes when its
/// last holder does. A thread-specific value keeps the object of the thread's own loop, which makes ``current()`` cheap and its
/// answer the same object for the life of the thread. An object leaves the table when it dies; it holds a reference on its loop
/// until then, so a table key never names another, newer loop.
enum LoopRegistry {
    /// By address.
    private static let table = WeakTable<UInt, RunLoop>()

    /// The address of the main loop's object, which is retained, once somebody has asked for it; 0 before.
    private static let knownMain = Atomic<UInt>(0)

    /// The key under which a thread keeps a reference to its own loop's object.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { Unmanaged<RunLoop>.fromOpaque($0!).release() }
        precondition(status == 0, "RunLoopKit: no thread-specific key is left in this process")
        return key
    }()

    /// The object of the calling thread's loop, kept until the thread ends.
    static func current() -> RunLoop {
        if let known { return known }
        let reference = RLGetCurrent()
        let loop = reference == RLGetMain() ? main() : wrapper(of: reference)
        // A destructor of another key may come here after ours ran: the value set now is destroyed
        // in a later round of the thread's destructors.
        let kept = Unmanaged.passRetained(loop)
        if pthread_setspecific(key, kept.toOpaque()) != 0 { kept.release() }
        return loop
    }

    /// The object of the calling thread's loop, if the thread has asked for it.
    static var known: RunLoop? {
        pthread_getspecific(key).map { Unmanaged<RunLoop>.fromOpaque($0).takeUnretainedValue() }
    }

    /// The object of the main loop, which serves the main dispatch queue from the time anybody has asked for it (S-GCD-1). It is
    /// kept for the life of the process.
    static func main() -> RunLoop {
        if let known = UnsafeRawPointer(bitPattern: knownMain.load(ordering: .acquiring)) {
            return Unmanaged<RunLoop>.fromOpaque(known).takeUnretainedValue()
        }
        _ = RLAttachMainQueue()
        let loop = wrapper(of: RLGetMain())
        let kept = Unmanaged.passRetained(loop)
        let (isFirst, _) = knownMain.compareExchange(
            expected: 0, desired: UInt(bitPattern: kept.toOpaque()), ordering: .acquiringAndReleasing)
        if !isFirst { kept.release() }
        return loop
    }

    static func prepare() {
        _ = (table, key)
        _ = knownMain.load(ordering: .relaxed)
    }

    /// In a child of `fork` the main loop is that of the thread that forked. The former one's object is kept on, because code
    /// of the parent's that goes on here may hold it unretained.
    static func forgetMain() { knownMain.store(0, ordering: .releasing) }

    /// The object of any loop, made if none exists.
    static func wrapper(of reference: RLRunLoopRef) -> RunLoop {
        let address = UInt(bitPattern: reference)
        return table.object(of: address) { RunLoop(retaining: reference) }.object
    }

    /// Drops the entry of an object that is dying.
    static func forget(_ loop: RunLoop) { table.forget(UInt(bitPattern: loop.reference), of: loop) }
}
