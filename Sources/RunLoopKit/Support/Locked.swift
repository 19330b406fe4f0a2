// SPDX-License-Identifier: MIT
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A value behind a lock. `Mutex` of the standard library does the same and is not seen by the thread sanitizer, which would
/// report every access to what it guards; and it knows nothing of `fork`.
///
/// The closure touches the value and nothing else: it calls neither client code nor the C library, enters no other `Locked`, and
/// lets go of no object, whose deinitializer might do so. What it takes out it returns. So a lock is held for a moment only, holders
/// wait for nobody, and `fork` can take all locks there are (``LockStripes``).
///
/// The value is not itself a closure, but may be a structure with one: the compiler gives a generic value that is a closure another form for
/// each access, and puts one more call around it each time.
// Sendable: the value is touched under the lock only.
final class Locked<Value>: @unchecked Sendable {
    private var value: Value

    init(_ value: sending Value) { self.value = value }

    @inline(__always)
    func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
        let mutex = LockStripes.stripe(of: Unmanaged.passUnretained(self).toOpaque())
        LockStripes.lock(mutex)
        defer { LockStripes.unlock(mutex) }
        return try body(&value)
    }
}

/// The mutexes behind all ``Locked`` values: a fixed number, shared by address. That makes a `Locked` cost no memory, and there is
/// no other list of them needed for `fork`, whose handlers take them all, so that the child gets every value whole.
enum LockStripes {
    static let count = 64
    /// In bytes; a mutex each, so that two do not share a line of a cache.
    private static let distance = 64

    // Sendable: made once, and never changed after that.
    nonisolated(unsafe) private static let first: UnsafeMutableRawPointer = {
        let first = UnsafeMutableRawPointer.allocate(byteCount: count * distance, alignment: distance)
        for index in 0..<count {
            let mutex = (first + index * distance).bindMemory(to: pthread_mutex_t.self, capacity: 1)
            pthread_mutex_init(mutex, nil)
        }
        return first
    }()

    /// Prepare handlers run in reverse order of registration. Being registered when the program is loaded, this one runs after a
    /// client's own, which may wait for a thread that needs one of these locks. What the C library's handlers take has no order
    /// with these, since nobody calls it under one.
    fileprivate static func surviveFork() {
        pthread_atfork(
            {
                ForkedChild.prepare()
                ForkGuard.take()
                LockStripes.lockAll()
            },
            {
                LockStripes.unlockAll()
                ForkGuard.giveBack()
            },
            {
                LockStripes.unlockAll()
                ForkGuard.renew()
                ForkedChild.begin()
            })
    }

    static func prepare() {
        _ = first
        #if DEBUG
        _ = held
        #endif
    }

    private static func stripe(_ index: Int) -> UnsafeMutablePointer<pthread_mutex_t> {
        (first + index * distance).assumingMemoryBound(to: pthread_mutex_t.self)
    }

    /// The stripe of an object. Neighbours in the allocator's memory are on different ones.
    @inline(__always)
    static func stripe(of object: UnsafeMutableRawPointer) -> UnsafeMutablePointer<pthread_mutex_t> {
        let hash = UInt64(UInt(bitPattern: object) >> 4) &* 0x9E37_79B9_7F4A_7C15
        return stripe(Int(truncatingIfNeeded: hash >> 58))
    }

    // Without a range: without optimisation that is a generic call, whose first one needs a lock of the runtime's.
    private static func lockAll() {
        var index = 0
        while index < count {
            pthread_mutex_lock(stripe(index))
            index += 1
        }
    }

    private static func unlockAll() {
        var index = count
        while index > 0 {
            index -= 1
            pthread_mutex_unlock(stripe(index))
        }
    }

    #if DEBUG
    /// The stripe that the thread holds. Two held at once could be taken by `fork`, or by another thread, in the other order.
    private static let held: pthread_key_t = {
        var key = pthread_key_t()
        let status = pthread_key_create(&key, nil)
        precondition(status == 0, "RunLoopKit: no thread-specific key is left in this process")
        return key
    }()

    static func lock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) {
        precondition(pthread_getspecific(held) == nil, "RunLoopKit: a lock is taken under another")
        pthread_mutex_lock(mutex)
        pthread_setspecific(held, mutex)
    }

    static func unlock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) {
        pthread_setspecific(held, nil)
        pthread_mutex_unlock(mutex)
    }
    #else
    @inline(__always)
    static func lock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) { pthread_mutex_lock(mutex) }

    @inline(__always)
    static func unlock(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) { pthread_mutex_unlock(mutex) }
    #endif
}

@section(".init_array") @used
private let loadConstructor: @convention(c) () -> Void = { LockStripes.surviveFork() }

/// An object that may die, and who it was. An object itself: the compiler copies a weak property of a structure that a dictionary
/// gives out wrongly, where the dictionary's type is generic.
private final class WeakEntry {
    private(set) weak var object: AnyObject?
    let id: ObjectIdentifier

    init(_ object: AnyObject) {
        self.object = object
        id = ObjectIdentifier(object)
    }
}

/// Finds the one object of a key and keeps none alive; every table of that kind is of this type.
///
/// A weak reference that is loaded may become the last one at once. So what is loaded leaves the lock with the result, and an
/// object that dies takes its entry out by its address, without a look at what a newer entry refers to.
final class WeakTable<Key: Hashable & Sendable, Object: AnyObject & Sendable>: Sendable {
    private let entries = Locked<[Key: WeakEntry]>([:])

    /// The object of the key, if there is one.
    func find(_ key: Key) -> Object? {
        entries.withLock { $0[key]?.object }.map { unsafeDowncast($0, to: Object.self) }
    }

    /// The object of the key. If there is none `make` is called without the lock: of two threads that make one the first to come
    /// back gives it to both.
    ///
    /// - Returns: the object, and whether it is the one that this call made.
    func object(of key: Key, or make: () -> Object) -> (object: Object, isNew: Bool) {
        if let known = find(key) { return (known, false) }
        let made = make()
        let known: AnyObject? = entries.withLock { entries in
            if let known = entries[key]?.object { return known }
            entries[key] = WeakEntry(made)
            return nil
        }
        return known.map { (unsafeDowncast($0, to: Object.self), false) } ?? (made, true)
    }

    /// Notes the one object of a key, in place of any that was known.
    func note(_ object: Object, for key: Key) {
        entries.withLock { $0[key] = WeakEntry(object) }
    }

    /// Takes the object out, unless a newer one has its place: for its deinitializer, or earlier.
    func forget(_ key: Key, of object: Object) {
        let id = ObjectIdentifier(object)
        entries.withLock { entries in
            if entries[key]?.id == id { entries[key] = nil }
        }
    }

    /// All that are alive.
    var all: [Object] {
        entries.withLock { $0.values.compactMap(\.object) }.map { unsafeDowncast($0, to: Object.self) }
    }
}

/// A lock that may be held for long, because its holder waits for something outside of the process. `fork` does not wait for it:
/// in the child it is free, and what it guards may have been left in the middle of a change.
// Sendable: it is what makes others so.
final class LongLock: @unchecked Sendable {
    /// Held for a moment, by those who take the lock, give it back or wait for it.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    /// The lock was given back. By the monotonic clock.
    private let isFree = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    /// In which process it is held, by the generation; a holder of the parent's is none in a child. Guarded by the mutex.
    private var holder: UInt?
    /// Of which process these are. They are made anew before anybody has waited for them in a child.
    private let generation = Locked(ForkedChild.generation)
    /// Of which process the last holder was; guarded by the lock.
    private var lastGeneration = ForkedChild.generation

    init() { LongLock.make(mutex, isFree) }

    deinit {
        // In a child somebody who does not exist there may still use them.
        if generation.withLock({ $0 }) == ForkedChild.generation {
            pthread_cond_destroy(isFree)
            pthread_mutex_destroy(mutex)
        }
        isFree.deallocate()
        mutex.deallocate()
    }

    private static func make(_ mutex: UnsafeMutablePointer<pthread_mutex_t>, _ isFree: UnsafeMutablePointer<pthread_cond_t>) {
        pthread_mutex_init(mutex, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(isFree, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    /// Calls the closure with the lock held, and tells it whether this is the first time in a child of `fork`.
    func withLock<Result>(_ body: (_ isForked: Bool) throws -> Result) rethrows -> Result {
        _ = take(until: nil)
        return try whileHeld(body)
    }

    /// The same, if the lock gets free before the limit; otherwise nil.
    func withLock<Result>(until limit: ContinuousClock.Instant, _ body: (_ isForked: Bool) throws -> Result) rethrows -> Result? {
        take(until: limit) ? try whileHeld(body) : nil
    }

    private func renew() {
        let (mutex, isFree) = (mutex, isFree)
        generation.withLock { generation in
            if generation == ForkedChild.generation { return }
            generation = ForkedChild.generation
            LongLock.make(mutex, isFree)
        }
    }

    private func take(until limit: ContinuousClock.Instant?) -> Bool {
        renew()
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while holder == ForkedChild.generation {
            guard let limit else {
                pthread_cond_wait(isFree, mutex)
                continue
            }
            let left = limit.secondsFromNow
            if left <= 0 { return false }
            var end = timespec()
            clock_gettime(CLOCK_MONOTONIC, &end)
            let nanoseconds = end.tv_nsec + Int(min(left, 86_400) * 1e9)
            end.tv_sec += nanoseconds / 1_000_000_000
            end.tv_nsec = nanoseconds % 1_000_000_000
            pthread_cond_timedwait(isFree, mutex, &end)
        }
        holder = ForkedChild.generation
        return true
    }

    private func whileHeld<Result>(_ body: (_ isForked: Bool) throws -> Result) rethrows -> Result {
        let own = ForkedChild.generation
        defer { giveBack(own) }
        let isForked = lastGeneration != own
        lastGeneration = own
        return try body(isForked)
    }

    /// In the child of a fork in the closure there is nothing to give back.
    private func giveBack(_ own: UInt) {
        guard own == ForkedChild.generation else { return }
        pthread_mutex_lock(mutex)
        holder = nil
        pthread_mutex_unlock(mutex)
        pthread_cond_signal(isFree)
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
