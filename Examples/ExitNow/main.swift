// SPDX-License-Identifier: MIT
// The pattern of Apple's Threading Programming Guide for a thread that ends itself: it does its work in portions, runs its loop
// between them, and looks at a value in its dictionary that an input source may set.
import RunLoopKit

let key = "ThreadShouldExitNow"

let thread = RunLoopThread(name: "portions") { thread in
    var exitNow = false
    var isMoreWorkToDo = true
    var portions = 0

    // An input source that sets exitNow.
    thread.threadDictionary[key] = exitNow
    let installed = RunLoop.Source { _ in RunLoopThread.current?.threadDictionary[key] = true }
    thread.loop.add(installed, forMode: .default)

    while isMoreWorkToDo && !exitNow {
        // One portion of a larger body of work. After a while somebody asks the thread to end.
        portions += 1
        isMoreWorkToDo = portions < 1000
        if portions == 3 { installed.signal() }

        // Run the loop without waiting, so that its sources and timers are served.
        thread.loop.run(mode: .default, for: .zero)

        // Whether an input source has changed the value.
        exitNow = thread.threadDictionary[key] as! Bool
    }
    print(exitNow ? "told to exit after \(portions) portions" : "all portions done")
}

try thread.start()
thread.join()
print("the thread has ended")
