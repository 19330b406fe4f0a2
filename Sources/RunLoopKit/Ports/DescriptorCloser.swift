// SPDX-License-Identifier: MIT
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// Closes descriptors of which the close may wait, for the calling thread, by few threads.
///
/// - Sockets are closed by the end of a thread with a table of descriptors of its own, one for all that have come meanwhile: an ending
///   thread waits for nothing that lingers (socket(7)), neither for the socket nor for those in its queue. That table has all of the program's
///   files for a moment, and what the program closes meanwhile stays open as long; so such a thread is used only where something may wait. The
///   flush of each of these files is called, which may not end (FUSE, NFS): then there are few such threads.
/// - Other files, and sockets where a thread gets no such table, are closed by ``fileThreads`` threads, each of which may wait in a close.
///
/// The threads end when nothing is left. In a child of `fork`, which has none of them, new ones go on when the child runs its loop.
enum DescriptorCloser {
    /// At most so many closes wait at once; with more the others keep their numbers until one of these is over.
    private static var fileThreads: Int { 16 }
    /// So many threads at most wait for the flushes of the program's files, when none is done for a second; sockets that come later are closed like
    /// other files. Others are only slow.
    private static var fewOutliving: Int { 4 }
    private static var mostOutliving: Int { 256 }

    private struct State {
        /// Whose threads are counted.
        var generation = ForkedChild.generation
        /// Those that the program's table still has, in their order.
        var sockets: [CInt] = []
        var files: [CInt] = []
        var hasSocketThread = false
        var fileThreads = 0
        var outliving = 0
        /// When the first of these began, or one was done last.
        var lastDone = SuspendingClock.now

        /// In a child the threads are none.
        mutating func renew() {
            if generation == ForkedChild.generation { return }
            (generation, hasSocketThread, fileThreads, outliving) = (ForkedChild.generation, false, 0, 0)
        }
    }
    private static let state = Locked(State())

    static func prepare() { _ = state }

    static func add(sockets: [CInt], files: [CInt]) {
        state.withLock { state in
            state.renew()
            state.sockets += sockets
            state.files += files
        }
        start()
    }

    /// Starts the threads for what waits.
    private static func start() {
        let (socketThreads, fileThreads) = state.withLock { state in
            state.renew()
            let sockets = state.sockets.isEmpty || state.hasSocketThread ? 0 : 1
            let files = max(min(Self.fileThreads - state.fileThreads, state.files.count), 0)
            if sockets > 0 { state.hasSocketThread = true }
            state.fileThreads += files
            return (sockets, files)
        }
        for _ in 0..<socketThreads { startOne { closeSockets() } }
        for _ in 0..<fileThreads { startOne { closeFiles() } }
    }

    /// The thread, or where there is none the caller. A child that is forked before it is over goes on in its place.
    private static func startOne(_ body: @escaping @Sendable () -> Void) {
        let handler = Locked<UInt>(0)
        let number = ForkedChild.atBeginning {
            ForkedChild.forget(handler.withLock { $0 })
            start()
        }
        handler.withLock { $0 = number }
        let whole: @Sendable () -> Void = {
            body()
            ForkedChild.forget(number)
        }
        if !makeThread(whole) { whole() }
    }

    private static func closeFiles() {
        while true {
            let file = state.withLock { state -> CInt? in
                if state.files.isEmpty {
                    state.fileThreads -= 1
                    return nil
                }
                // Before it is closed: a number that is free is somebody else's, also in a child.
                return state.files.removeFirst()
            }
            guard let file else { return }
            SocketCalls.switchLingerOff(file)
            SocketCalls.end(file)
        }
    }

    private static func closeSockets() {
        while true {
            let sockets = state.withLock { state in
                if state.sockets.isEmpty { state.hasSocketThread = false }
                return state.sockets
            }
            if sockets.isEmpty { return }
            close(sockets)
        }
    }

    /// A thread that gets none of the program's signals: their handlers would not find the program's descriptors in a table of its own.
    static func makeThread(_ body: @escaping @Sendable () -> Void) -> Bool {
        var all = sigset_t(), before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_BLOCK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        return RunLoop.performInBackground(body)
    }

    /// Closes the first sockets of the list while a thread has them in its table, so that its end is their last close.
    private static func close(_ sockets: [CInt]) {
        let areClosed = Turn()
        let isOutlived = startOutliving(sockets, areClosed)
        state.withLock { state in
            state.sockets.removeFirst(sockets.count)
            if !isOutlived { state.files += sockets }
        }
        if isOutlived { for socket in sockets { SocketCalls.end(socket) } }
        areClosed.take()
        if !isOutlived { start() }
    }

    /// Starts a thread that has these sockets in a table of its own, and ends when they are closed. False if it is not to be had.
    private static func startOutliving(_ sockets: [CInt], _ areClosed: Turn) -> Bool {
        let isFree = state.withLock { state in
            state.renew()
            let now = SuspendingClock.now
            if state.outliving == 0 { state.lastDone = now }
            if state.outliving >= (now - state.lastDone < .seconds(1) ? mostOutliving : fewOutliving) { return false }
            state.outliving += 1
            return true
        }
        if !isFree { return false }
        let hasLooked = Turn()
        let hasTable = Locked(false)
        let outlive: @Sendable () -> Void = {
            let isOwn = unshareFiles(CInt(0x400)) == 0  // CLONE_FILES
            hasTable.withLock { $0 = isOwn }
            hasLooked.take()
            areClosed.wait()
            // Or the program's closes of its other files would be the last ones only after this thread's end.
            if isOwn { keepOnly(sockets) }
            state.withLock { state in
                state.outliving -= 1
                state.lastDone = .now
            }
        }
        guard makeThread(outlive) else {
            state.withLock { $0.outliving -= 1 }
            return false
        }
        hasLooked.wait()
        return hasTable.withLock { $0 }
    }

    /// Closes all that the calling thread's own table has beside these. A kernel without close_range(2) does it at the thread's end.
    private static func keepOnly(_ descriptors: [CInt]) {
        var first: UInt = 0
        for descriptor in descriptors.sorted() {
            let next = UInt(descriptor)
            if next > first { _ = systemCall(436, first, next - 1, 0) }
            first = next + 1
        }
        _ = systemCall(436, first, UInt(UInt32.max), 0)
    }

    /// A step of one thread for which another one waits.
    // Sendable: the semaphore is the system's, made and destroyed with the object.
    private final class Turn: @unchecked Sendable {
        private let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

        init() { sem_init(semaphore, 0, 0) }

        deinit {
            sem_destroy(semaphore)
            semaphore.deallocate()
        }

        func take() { sem_post(semaphore) }

        func wait() { while sem_wait(semaphore) != 0 {} }
    }
}

/// `unshare`, which the headers show to GNU sources alone.
@_silgen_name("unshare")
private func unshareFiles(_ flags: CInt) -> CInt

/// `syscall`, with three arguments of a word: Swift calls no function with a variable number of them. For close_range(2), which older C
/// libraries do not have.
@_silgen_name("syscall")
private func systemCall(_ number: Int, _ first: UInt, _ second: UInt, _ third: UInt) -> Int
