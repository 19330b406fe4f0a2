// SPDX-License-Identifier: MIT
// Who runs what is queued for the main thread: a loop of RunLoopKit, Foundation's, and either under the other. Prints
// what happens; the test knows what has to be printed.
import Dispatch
import Foundation
import class RunLoopKit.MessagePort
import class RunLoopKit.MessagePortNameServer
import class RunLoopKit.RunLoop
import class RunLoopKit.RunLoopExecutor
import class RunLoopKit.RunLoopThread
import class RunLoopKit.Timer

let main = RunLoop.main

func queue(_ name: String) {
    DispatchQueue.main.async { print("  dispatch \(name), main thread: \(Thread.isMainThread)") }
    Task { @MainActor in
        MainActor.assertIsolated()
        print("  main actor \(name)")
    }
}

/// Ends the run that serves the queue after what is in it now.
func stopLater() { DispatchQueue.main.async { main.stop() } }

print("RunLoopKit")
queue("a")
stopLater()
print("  \(main.run(mode: .default))")

print("a mode that is not common")
queue("b")
main.add(RunLoop.Source { _ in }, forMode: .init("other"))
print("  \(main.run(mode: .init("other"), for: .zero))")

print("Foundation serves what RunLoopKit left")
Foundation.RunLoop.main.run(until: Date(timeIntervalSinceNow: 0.02))

print("RunLoopKit again, and nothing is left for it")
print("  \(main.run(mode: .default, for: .milliseconds(20), returnAfterSourceHandled: true))")

print("Foundation's loop under a timer of RunLoopKit's")
let outer = Timer(timeInterval: .zero, repeats: false) { _ in
    queue("c")
    Foundation.RunLoop.main.run(until: Date(timeIntervalSinceNow: 0.02))
    print("  timer ends")
    stopLater()
}
main.add(outer, forMode: .default)
print("  \(main.run(mode: .default))")

print("RunLoopKit's loop under a timer of Foundation's")
let inner = Foundation.Timer(timeInterval: 0, repeats: false) { _ in
    queue("d")
    stopLater()
    print("  \(RunLoop.main.run(mode: .default))")
}
Foundation.RunLoop.main.add(inner, forMode: .default)
Foundation.RunLoop.main.run(until: Date(timeIntervalSinceNow: 0.02))

print("a block that waits for another by running the loop waits in vain")
DispatchQueue.main.async {
    DispatchQueue.main.async {
        print("  second block")
        main.stop()
    }
    print("  first block: \(main.run(mode: .default, for: .zero))")
}
print("  \(main.run(mode: .default))")

print("a message port that the main queue serves")
let port = MessagePort()
let name = "MainQueue.\(getpid())"
print("  registered: \(MessagePortNameServer.sharedInstance().registerPort(port, name: name))")
port.setRequestHandler { _, request in
    let taken = request.msgid == 1 ? request.takeDescriptors() : []
    print("  takes \(taken.count), main thread: \(Thread.isMainThread)")
    for descriptor in taken { close(descriptor) }
    return []
}
port.setDispatchQueue(.main)
let client = RunLoopThread { _ in
    let remote = MessagePortNameServer.sharedInstance().port(forName: name) as! MessagePort
    for msgid in [1, 2] as [Int32] {
        var ends: [CInt] = [-1, -1]
        guard pipe(&ends) == 0, (try? remote.request(msgid: msgid, descriptors: [ends[1]])) != nil else { continue }
        close(ends[1])
        // Nobody has the other end any more.
        var byte: UInt8 = 0
        print("  the end of the pipe: \(read(ends[0], &byte, 1))")
        close(ends[0])
    }
    stopLater()
}
do { try client.start() } catch { print("  \(error)") }
print("  \(main.run(mode: .default))")
client.join()
port.invalidate()

// The last scenario: nobody gets the main thread back.
print("dispatchMain ends the main loop, and whoever waits for it goes on")
actor OnMainLoop {
    nonisolated let executor: RunLoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }
    init(_ executor: RunLoopExecutor) { self.executor = executor }
    func value() -> Int { 7 }
}
let actor = OnMainLoop(main.executor)
let ticks = main.ticks(every: .seconds(3600))
let waiting = Task.detached { [main] in try await main.call {} }
Task.detached { [main] in
    for await _ in ticks {}
    print("  the sequence is over")
    for call in [waiting, Task { try await main.call {} }] {
        do { try await call.value } catch { print("  \(error)") }
    }
    print("  an actor's value: \(await actor.value())")
    exit(0)
}
// A task that waits in vain is no reason to stay.
alarm(120)
// The address sanitizer is not told that this thread's frames go, in whose place its destructors run.
if let forget = dlsym(nil, "__asan_handle_no_return") { unsafeBitCast(forget, to: (@convention(c) () -> Void).self)() }
dispatchMain()
