// SPDX-License-Identifier: MIT
// Loads the plug-in that the first argument names and compares the main loops the two sides see. With one
// core they are the same, and a timer of the plug-in's fires in a run of the host's. Then loads it again and again while a thread is given
// names: its constructor makes objects, whose locks a thread must not hold that waits for the dynamic linker.
import Glibc
import RunLoopKit
import Synchronization

final class Flag: Sendable {
    let value = Atomic(false)
}

@main
enum Host {
    static func main() {
        guard CommandLine.arguments.count == 2 else { fatalError("usage: Host PLUGIN") }
        let ours = RunLoop.main.getRLRunLoop()
        guard let plugin = dlopen(CommandLine.arguments[1], RTLD_NOW | RTLD_LOCAL) else {
            fatalError(String(cString: dlerror()))
        }
        let mainLoop = unsafeBitCast(
            dlsym(plugin, "plugin_main_loop"), to: (@convention(c) () -> OpaquePointer).self)
        let theirs = mainLoop()
        precondition(ours == theirs, "the plug-in has a main loop of its own")
        let addTimer = unsafeBitCast(dlsym(plugin, "plugin_add_timer"), to: (@convention(c) () -> Void).self)
        addTimer()
        let result = RunLoop.main.run(mode: .default, for: .seconds(60))
        precondition(result == .stopped, "the plug-in's timer did not end the run: \(result)")
        print("host: one main loop for both")
        dlclose(plugin)
        loadWhileThreadsAreNamed(CommandLine.arguments[1])
        print("host: threads are named while plug-ins are loaded")
    }

    private static func loadWhileThreadsAreNamed(_ path: String) {
        let loads: @convention(c) () -> Void = {
            // At once, so that their locks are many.
            let timers = (0..<400).map { _ in Timer(timeInterval: .seconds(1), repeats: false) { _ in } }
            withExtendedLifetime(timers) {}
        }
        setenv("PLUGIN_LOADS", "\(UInt(bitPattern: unsafeBitCast(loads, to: UnsafeRawPointer.self)))", 1)
        let isOver = Flag()
        Thread.detachNewThread {
            let thread = Thread.current
            while !isOver.value.load(ordering: .acquiring) { thread.name = "named" }
        }
        // A process that waits for itself ends by this.
        alarm(60)
        for _ in 0..<100 {
            guard let plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL) else { fatalError(String(cString: dlerror())) }
            dlclose(plugin)
        }
        alarm(0)
        isOver.value.store(true, ordering: .releasing)
    }
}
