// SPDX-License-Identifier: MIT
// The programs of the chapter on threads in Apple's Threading Programming Guide, without Foundation: a thread that nobody holds, one of POSIX,
// one that performs a selector, one that a subclass describes, one whose closure makes the scope and the loop of a thread, and
// what is told of all of them. One that ends itself is in Examples/ExitNow.
import RunLoopKit

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Lets the main thread wait for one thing after the other.
final class Gate: Sendable {
    private let isOpen = Guarded(false)
    private let condition = NSCondition()

    func open() {
        condition.withLock { isOpen.withLock { $0 = true } }
        condition.signal()
    }

    func wait() {
        condition.lock()
        while !isOpen.withLock({ $0 }) { condition.wait() }
        condition.unlock()
    }
}

/// A thread of POSIX that is detached from birth. It may use all of the library too.
func posixThread() {
    let done = Gate()
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
    var thread = pthread_t()
    let status = pthread_create(
        &thread, &attributes,
        { info in
            let done = Unmanaged<Gate>.fromOpaque(info!).takeRetainedValue()
            print("POSIX: detached, main thread: \(Thread.isMainThread)")
            done.open()
            return nil
        }, Unmanaged.passRetained(done).toOpaque())
    pthread_attr_destroy(&attributes)
    precondition(status == 0, "no thread to be had")
    done.wait()
}

/// An object with something that a thread is to do.
final class Document: Performer {
    let isSaved = Gate()
    func save(as name: String) {
        print("saved as \(name)")
        isSaved.open()
    }
}

extension Selector<Document> {
    static var save: Selector { Selector("save") { document, name in document.save(as: name as! String) } }
}

/// A subclass says what its threads do.
final class Worker: Thread, @unchecked Sendable {
    let isReady = Gate()
    private let knownLoop = Guarded<RunLoop?>(nil)
    var loop: RunLoop { knownLoop.withLock { $0! } }

    override func main() {
        // What belongs to the thread goes at the end of the scope, before the thread is told to be over.
        do {
            let scratch = Scratch()
            threadDictionary["scratch"] = scratch.name
            knownLoop.withLock { $0 = RunLoop.current }
            // A mode without a source is not waited in.
            let keep = RunLoop.Source { _ in }
            RunLoop.current.add(keep, forMode: .default)
            isReady.open()
            while !isCancelled { RunLoop.current.run(mode: .default) }
            keep.invalidate()
            withExtendedLifetime(scratch) {}
        }
        print("worker: end")
    }
}

final class Scratch {
    let name = "scratch"
    deinit { print("worker: scratch is freed") }
}

Thread.detachNewThread { Thread.current.name = "nobody's" }
posixThread()

let document = Document()
Thread.detachNewThreadSelector(.save, toTarget: document, with: "letter")
document.isSaved.wait()

let worker = Worker()
worker.name = "worker"
worker.stackSize = 256 * 1024
worker.qualityOfService = .utility
let isOver = Gate()
let observer = NotificationCenter.default.addObserver(forName: .NSThreadWillExit, object: worker, queue: nil) { _ in isOver.open() }
worker.start()
worker.isReady.wait()
worker.loop.perform {
    print("\(Thread.current.name!): a job")
    // Ends the run, and the thread, which looks at the flag.
    Thread.current.cancel()
    RunLoop.current.stop()
}
worker.loop.wakeUp()
isOver.wait()
print("main: \(worker.name!) has ended")
