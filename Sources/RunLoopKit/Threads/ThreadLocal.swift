// SPDX-License-Identifier: MIT
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// One object for each thread that asks, which lives as long as the thread.
package final class ThreadLocal<Object: AnyObject>: Sendable {
    private let key: pthread_key_t
    private let outlivesLoop: Bool

    /// - Parameter outlivesLoop: whether what the thread's loop calls when it is torn down finds the object too. The loop is in the
    ///   second round of the thread's destructors (S-LOOP-11), before those of keys that were made later than its own.
    package init(outlivesLoop: Bool = false) {
        var key = pthread_key_t()
        let status = pthread_key_create(&key) { ThreadValue.threadEnds($0!) }
        precondition(status == 0, "RunLoopKit: no thread-specific key is left in this process")
        self.key = key
        self.outlivesLoop = outlivesLoop
    }

    /// The calling thread's object, made by `make` if it has none yet.
    package func value(or make: () -> Object) -> Object {
        if let known { return known }
        let object = make()
        let kept = Unmanaged.passRetained(ThreadValue(object, key, rounds: outlivesLoop ? 1 : 0))
        if pthread_setspecific(key, kept.toOpaque()) != 0 { kept.release() }
        return object
    }

    /// The calling thread's object, if it has one.
    package var known: Object? {
        pthread_getspecific(key).map {
            unsafeDowncast(Unmanaged<ThreadValue>.fromOpaque($0).takeUnretainedValue().object, to: Object.self)
        }
    }

    deinit { pthread_key_delete(key) }
}

/// A thread's hold on an object.
private final class ThreadValue {
    let object: AnyObject
    private let key: pthread_key_t
    /// For how many rounds of destructors it stays on.
    private var rounds: Int

    init(_ object: AnyObject, _ key: pthread_key_t, rounds: Int) {
        self.object = object
        self.key = key
        self.rounds = rounds
    }

    static func threadEnds(_ info: UnsafeMutableRawPointer) {
        let value = Unmanaged<ThreadValue>.fromOpaque(info)
        let stays = value._withUnsafeGuaranteedRef { value in
            value.rounds -= 1
            return value.rounds >= 0 && pthread_setspecific(value.key, info) == 0
        }
        if !stays { value.release() }
    }
}
