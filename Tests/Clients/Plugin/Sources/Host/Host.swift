// Loads the plug-in that the first argument names and compares the main loops the two sides see. With one
// core they are the same, and a timer of the plug-in's fires in a run of the host's.
import Glibc
import RunLoopKit

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
    }
}
