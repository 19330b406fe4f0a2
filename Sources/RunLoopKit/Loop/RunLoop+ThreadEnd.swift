// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

internal import Synchronization

extension RunLoop {
    /// From now on the object lives as long as the loop's thread, since it knows what must not go with whoever holds it: the objects of
    /// timers (S-NSTM-13), and that the loop has a test clock (S-CLK-13). The first call counts.
    ///
    /// The loop has a source for that, in a mode that nobody runs. The end of the thread takes it out and so frees what it holds. It is one
    /// with a descriptor, though with none, because another thread's add of a custom one would wake the loop (S-WAKE-13, S-WAKE-15).
    func outliveThread() {
        if outlivesThread.load(ordering: .relaxed) || outlivesThread.exchange(true, ordering: .relaxed) { return }
        let hold = ThreadHold(self)
        let source = Source(descriptor: -1) { _ in withExtendedLifetime(hold) {} }
        add(source, forMode: RunLoopExecutor.endMode)
        // What a thread adds to its own loop, however late, is torn down (S-LOOP-11).
        if !isOfCallingThread && RunLoopExecutor.isGone(reference) { source.invalidate() }
    }
}

/// The hold of a living thread on the object of its loop.
private final class ThreadHold: Sendable {
    private let loop: RunLoop

    init(_ loop: RunLoop) { self.loop = loop }

    deinit { loop.timers.end() }
}
