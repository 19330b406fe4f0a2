#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// One object for each thread that asks, which lives as long as the thread.
package final class ThreadLocal<Object: AnyObject>: Sendable {
    private let key: pthread_key_t

    package init() {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { Unmanaged<AnyObject>.fromOpaque($0!).release() }
        precondition(status == 0, "RunLoopKit: no thread-specific key is left in this process")
        self.key = key
    }

    /// The calling thread's object, made by `make` if it has none yet.
    package func value(or make: () -> Object) -> Object {
        if let known = pthread_getspecific(key) {
            return unsafeDowncast(Unmanaged<AnyObject>.fromOpaque(known).takeUnretainedValue(), to: Object.self)
        }
        let object = make()
        let kept = Unmanaged<AnyObject>.passRetained(object)
        if pthread_setspecific(key, kept.toOpaque()) != 0 { kept.release() }
        return object
    }

    /// The calling thread's object, if it has one.
    package var known: Object? {
        pthread_getspecific(key).map {
            unsafeDowncast(Unmanaged<AnyObject>.fromOpaque($0).takeUnretainedValue(), to: Object.self)
        }
    }

    deinit { pthread_key_delete(key) }
}
