// SPDX-License-Identifier: MIT
internal import CRunLoopFoundation

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// Wakes both loops of a thread in a tenth of a second, on a thread of its own: where the kernel has no descriptor for what serves one of them
/// while the other one waits, neither could have a timer for that either.
final class LaterLook: Sendable {
    private let loop: RunLoop
    nonisolated(unsafe) private let foundation: UnsafeMutableRawPointer

    private init(_ loop: RunLoop, _ foundation: UnsafeMutableRawPointer) {
        self.loop = loop
        self.foundation = rlf_retain(foundation)
    }

    deinit { rlf_release(foundation) }

    /// Does nothing where the kernel has no room for a thread.
    static func begin(_ loop: RunLoop, _ foundation: UnsafeMutableRawPointer) {
        let look = Unmanaged.passRetained(LaterLook(loop, foundation))
        // The program's signals are none of its business.
        var (all, former) = (sigset_t(), sigset_t())
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &former)
        defer { pthread_sigmask(SIG_SETMASK, &former, nil) }
        var thread = pthread_t()
        let status = pthread_create(
            &thread, nil,
            { info in
                let look = Unmanaged<LaterLook>.fromOpaque(info!).takeRetainedValue()
                usleep(100_000)
                look.loop.wakeUp()
                rlf_wake_up(look.foundation)
                return nil
            }, look.toOpaque())
        if status == 0 { pthread_detach(thread) } else { look.release() }
    }
}
