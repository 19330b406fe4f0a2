#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A value behind a lock. `Mutex` of the standard library does the same and is not seen by the thread sanitizer, which would
/// report every access to what it guards.
// Sendable: the value is touched under the lock only, and the pointer is constant.
class Locked<Value>: @unchecked Sendable {
    fileprivate let mutex: UnsafeMutablePointer<pthread_mutex_t>
    fileprivate var value: Value

    init(_ value: sending Value) {
        self.value = value
        mutex = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    @inline(__always)
    final func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        pthread_mutex_lock(mutex)
        defer {
            changed()
            pthread_mutex_unlock(mutex)
        }
        return try body(&value)
    }

    /// Called with the lock held after each access.
    fileprivate func changed() {}
}

/// A value behind a lock whose changes a thread can wait for.
final class LockedCondition<Value>: Locked<Value>, @unchecked Sendable {
    // Sendable: the condition is constant and made for several threads.
    private let condition: UnsafeMutablePointer<pthread_cond_t>

    override init(_ value: sending Value) {
        condition = .allocate(capacity: 1)
        pthread_cond_init(condition, nil)
        super.init(value)
    }

    deinit {
        pthread_cond_destroy(condition)
        condition.deallocate()
    }

    override fileprivate func changed() { pthread_cond_broadcast(condition) }

    /// Returns as soon as the value is such.
    func wait(until isSuch: (Value) -> Bool) {
        pthread_mutex_lock(mutex)
        while !isSuch(value) { pthread_cond_wait(condition, mutex) }
        pthread_mutex_unlock(mutex)
    }
}

/// An object of each thread's own, kept by somebody else.
// Sendable: the key is constant.
final class ThreadKey<Object: AnyObject>: @unchecked Sendable {
    private let key: pthread_key_t

    init() {
        var key = pthread_key_t()
        let status = pthread_key_create(&key, nil)
        precondition(status == 0, "RunLoopKit: no thread-specific key is left in this process")
        self.key = key
    }

    func set(_ object: Object?) { pthread_setspecific(key, object.map { Unmanaged.passUnretained($0).toOpaque() }) }

    func get() -> Object? {
        pthread_getspecific(key).map { Unmanaged<Object>.fromOpaque($0).takeUnretainedValue() }
    }
}
