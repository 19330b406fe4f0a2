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

/// Finds the one `RunLoop` object of a loop.
///
/// Two places know the objects. The table, guarded by its lock, has all that exist and keeps none
/// alive, so a loop whose thread has ended goes when its last holder does. A thread-specific value
/// keeps the object of the thread's own loop, which makes ``current()`` cheap and its answer the
/// same object for the life of the thread. An object leaves the table when it dies; it holds a
/// reference on its loop until then, so a table key never names another, newer loop.
enum LoopRegistry {
    private struct Entry {
        weak var loop: RunLoop?
    }

    /// By address, since a pointer may not cross into the lock's closure.
    private static let table = Locked<[UInt: Entry]>([:])

    /// The key under which a thread keeps a reference to its own loop's object.
    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { value in
            let loop = Unmanaged<RunLoop>.fromOpaque(value!).takeRetainedValue()
            loop.ports.forgetAll()
        }
        precondition(status == 0, "RunLoopKit: no thread-specific key is left in this process")
        return key
    }()

    /// The object of the calling thread's loop, kept until the thread ends.
    static func current() -> RunLoop {
        if let known = pthread_getspecific(key) {
            return Unmanaged<RunLoop>.fromOpaque(known).takeUnretainedValue()
        }
        let reference = RLGetCurrent()
        let loop = reference == RLGetMain() ? RunLoop.main : wrapper(of: reference)
        // A destructor of another key may come here after ours ran: the value set now is destroyed
        // in a later round of the thread's destructors.
        let kept = Unmanaged.passRetained(loop)
        if pthread_setspecific(key, kept.toOpaque()) != 0 { kept.release() }
        return loop
    }

    /// The object of any loop, made if none exists.
    static func wrapper(of reference: RLRunLoopRef) -> RunLoop {
        let address = UInt(bitPattern: reference)
        return table.withLock { table in
            if let loop = table[address]?.loop { return loop }
            let loop = RunLoop(retaining: RLRunLoopRef(bitPattern: address)!)
            table[address] = Entry(loop: loop)
            return loop
        }
    }

    /// Drops the entry of an object that is dying, unless a newer object has taken it over.
    static func forget(_ reference: RLRunLoopRef) {
        let address = UInt(bitPattern: reference)
        let newer = table.withLock { table in
            let newer = table[address]?.loop
            if newer == nil { table[address] = nil }
            return newer
        }
        // Perhaps the last reference by now, whose end comes here again and must not find the lock taken.
        withExtendedLifetime(newer) {}
    }
}
