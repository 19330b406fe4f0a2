#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A value behind a lock. `Mutex` of the standard library does the same and is not seen by the thread sanitizer, which would
/// report every access to what it guards.
// Sendable: the value is touched under the lock only, and the pointer is constant.
final class Locked<Value>: @unchecked Sendable {
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private var value: Value

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
    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
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
