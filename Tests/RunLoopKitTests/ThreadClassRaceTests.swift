// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// Members of one object that meet on several threads.
@Suite(.timeLimit(.minutes(10))) struct ThreadClassRaceTests {
    @Test("What others set, ask and cancel meets the start and the end of the thread at any instruction: S-NSTH-1 S-NSTH-2 S-NSTH-6 S-NSTH-7")
    func othersMeetTheThread() {
        for round in 0..<200 {
            let thread = Thread {
                Thread.current.name = "own"
                Thread.current.threadDictionary["own"] = round
                if round % 3 == 0 { Thread.exit() }
            }
            let others = (0..<2).map { other in
                TestThread {
                    while !thread.isFinished {
                        thread.name = "other \(other)"
                        thread.qualityOfService = .utility
                        thread.threadPriority = 0.4
                        _ = (thread.stackSize, thread.isExecuting, thread.description, thread.threadDictionary.count)
                        if other == 1 && round % 5 == 0 { thread.cancel() }
                    }
                    return thread.isExecuting
                }
            }
            thread.start()
            #expect(others.map { $0.join() } == [false, false])
            // One that was cancelled in time has not begun.
            #expect(thread.threadDictionary["own"] != nil || thread.isCancelled)
        }
    }

    @Test("What another thread sets while the thread starts holds for it: S-NSTH-6 S-NSTH-7")
    func setDuringStart() {
        for _ in 0..<200 {
            let (isSet, seen) = (Promise<Void>(), Promise<String>())
            let thread = Thread {
                isSet.value
                var name = [UInt8](repeating: 0, count: 64)
                let file = open("/proc/thread-self/comm", O_RDONLY)
                let count = read(file, &name, name.count)
                close(file)
                seen.fulfil("\(String(decoding: name.prefix(max(count - 1, 0)), as: UTF8.self)) \(getpriority(.init(0), 0))")
            }
            thread.name = "early"
            let setter = TestThread {
                thread.name = "late"
                thread.qualityOfService = .background
                isSet.fulfil(())
            }
            thread.start()
            #expect(seen.value == "late 10")
            setter.join()
        }
    }

    @Test("Of many starts of one thread one does it: S-NSTH-1")
    func oneStart() async {
        await #expect(processExitsWith: .failure) {
            let starters = (0..<2).map { _ in
                TestThread { shared.start() }
            }
            for starter in starters { starter.join() }
        }
    }

    @Test("All threads find the same object of the main thread, whoever asks first: S-NSTH-3")
    func mainObject() {
        let askers = (0..<4).map { _ in TestThread { ObjectIdentifier(Thread.main) } }
        #expect(Set(askers.map { $0.join() }) == [ObjectIdentifier(Thread.main)])
    }

    @Test("A lock between many threads is nobody's twice, with attempts and limits that run out: S-NSLK-1 S-SYNC-8")
    func limits() {
        let (lock, recursive, numbered) = (NSLock(), NSRecursiveLock(), NSConditionLock(condition: 0))
        let counts = (Unguarded(), Unguarded(), Unguarded())
        let threads = (0..<4).map { thread in
            TestThread {
                var own = [0, 0, 0]
                for round in 0..<2000 {
                    if round % 3 == 0 ? lock.try() : lock.lock(before: .now + .microseconds(20)) {
                        counts.0.number += 1
                        own[0] += 1
                        lock.unlock()
                    }
                    if recursive.lock(before: .now + .microseconds(round % 50)) {
                        _ = recursive.try()
                        counts.1.number += 1
                        own[1] += 1
                        recursive.unlock()
                        recursive.unlock()
                    }
                    if numbered.lock(whenCondition: thread % 2, before: .now + .microseconds(30)) {
                        counts.2.number += 1
                        own[2] += 1
                        numbered.unlock(withCondition: 1 - thread % 2)
                    }
                }
                return own
            }
        }
        let sums = threads.map { $0.join() }.reduce([0, 0, 0]) { zip($0, $1).map(+) }
        #expect(sums == [counts.0.number, counts.1.number, counts.2.number])
        #expect(lock.try() && recursive.try() && numbered.try())
        lock.unlock()
        recursive.unlock()
        numbered.unlock()
    }
}

private let shared = Thread {}

/// What a thread that the class did not start asks for in the rounds of its destructors, the last one too.
@Suite(.timeLimit(.minutes(10))) struct ThreadDestructorTests {
    /// Asks in every round that there is; its objects stay.
    private final class Asker: Sendable {
        static let key: pthread_key_t = {
            var key = pthread_key_t()
            pthread_key_create(&key) { info in Unmanaged<Asker>.fromOpaque(info!)._withUnsafeGuaranteedRef { $0.ask() } }
            return key
        }()
        let objects = Mutex<[Thread]>([])

        func ask() {
            objects.withLock { $0.append(Thread.current) }
            pthread_setspecific(Asker.key, Unmanaged.passUnretained(self).toOpaque())
        }
    }

    /// The thread sanitizer's part of a thread ends before the last round.
    @Test("The objects of a thread that has ended, whenever it asked for them, can be used: S-NSTH-3 S-NSTH-6", .disabled(if: isThreadSanitized))
    func lastRound() {
        // The rounds are in the order of the keys: that of the objects comes first.
        _ = Thread.current
        let asker = Asker()
        // So large that the system unmaps it at the end.
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        pthread_attr_setstacksize(&attributes, 256 << 20)
        var thread = pthread_t()
        let status = pthread_create(
            &thread, &attributes,
            { info in
                pthread_setspecific(Asker.key, info)
                return nil
            }, Unmanaged.passUnretained(asker).toOpaque())
        pthread_attr_destroy(&attributes)
        #expect(status == 0)
        pthread_join(thread, nil)
        let objects = asker.objects.withLock { $0 }
        #expect(objects.count >= 4)
        for object in objects {
            object.name = "of the dead"
            object.qualityOfService = .background
            #expect(object.name == "of the dead" && object.stackSize > 0)
        }
    }
}
