// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

extension RunLoop {
    /// The calling thread, by which two threads that live at one time are told apart.
    static var callingThread: UInt {
        #if canImport(Glibc)
        UInt(pthread_self())
        #else
        UInt(bitPattern: pthread_self())
        #endif
    }

    /// Whether the calling thread is the process's initial one, whose loop is ``main``.
    ///
    /// - Threads: any.
    /// - Foundation: `Thread.isMainThread`.
    public static var isMainThread: Bool { RLThreadIsMain() }

    /// Makes the main loop run the main thread of a program whose `main` is asynchronous.
    ///
    /// The Swift runtime gives the main thread of such a program to libdispatch at the first suspension of `main`, and no run
    /// loop ever runs there. After this call it runs ``main`` in the default mode instead, for as long as the program
    /// lives: `@MainActor` code, `DispatchQueue.main`, timers and sources of the main loop are all served. The program
    /// ends as before, when `main` returns. ``stop()`` ends only the run it meets, and the next one begins.
    ///
    ///     @main struct Program {
    ///         static func main() async {
    ///             RunLoop.adoptAsyncMain()
    ///             …
    ///         }
    ///     }
    ///
    /// - Returns: false if this runtime does not offer it; then nothing has changed.
    /// - Threads: call it on the main thread, before the first `await` of `main`. Later it has no effect.
    /// - Foundation, CF: no counterpart.
    @discardableResult
    public static func adoptAsyncMain() -> Bool {
        // The runtime calls what this variable points to, if it is set, when the main thread has nothing left to do.
        guard RLAttachMainQueue(), let variable = dlsym(nil, "swift_task_asyncMainDrainQueue_hook") else { return false }
        // The conventions of Swift and of C agree on a function of two pointers that never returns.
        typealias Drain = @convention(c) (UnsafeRawPointer?) -> Void
        let hook: @convention(c) (UnsafeRawPointer, UnsafeRawPointer?) -> Void = { original, argument in
            // The mode serves the main queue, so a run of it ends by a stop; a child of `fork` alone does not come here again.
            while RunResult(RLRunInMode(kRLDefaultMode, .infinity, false)) != .finished {}
            unsafeBitCast(original, to: Drain.self)(argument)
        }
        variable.assumingMemoryBound(to: UnsafeRawPointer?.self).pointee = unsafeBitCast(hook, to: UnsafeRawPointer?.self)
        return true
    }
}
