// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The common set, and questions about modes.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// `RLAddCommonMode`: every common item joins the mode at once (S-MODE-12).
    func addCommonMode(_ name: ModeName) {
        guard case .named(let name) = name, !pointee.closing.load(ordering: .acquiring) else { return }
        lock()
        let mode = makeModeRecordLocked(name)
        if mode.pointee.isCommon.load(ordering: .relaxed) { return unlock() }
        makeCommonLocked(mode)
        if mayBeAsleep { mode.pointee.isCommon.store(true, ordering: .sequentiallyConsistent) } else { noteOwnCommon(mode) }

        let sourceCount = pointee.commonSources.count
        if sourceCount + pointee.commonTimers.count + pointee.commonObservers.count > 0 {
            mode.pointee.exists.store(true, ordering: .releasing)  // S-MODE-4
        }
        pointee.commonTimers.forEach { addCommonLocked($0, to: mode) }
        pointee.commonObservers.forEach { addLocked($0, to: mode) }
        // Adding a source calls functions of the client: sources are added one by one without the lock.
        let sources = makeArray(SourcePointer.self, count: Swift.max(sourceCount, 1))
        var copied = 0
        pointee.commonSources.forEach { source in
            source.retain()
            sources[copied] = source
            copied += 1
        }
        unlock()

        lookAgainIfForeign()
        var wakes = false
        for index in 0..<sourceCount {
            if add(sources[index], to: mode, asCommon: true) && !sources[index].isVersionOne { wakes = true }
            sources[index].release()
        }
        CRunLoopLinux.free(sources)
        if wakes && mayBeAsleep { wakeUp() }  // S-WAKE-15
    }

    /// A callback has made the mode a common one: on the loop's own thread functions do not count, but requests do, for which a thread may wait.
    private func noteOwnCommon(_ mode: ModePointer) {
        var next = pointee.frame
        while let frame = next {
            if frame.pointee.mode == mode && frame.pointee.common == .unseen { frame.pointee.common = .byOwnThread }
            next = frame.pointee.outer
        }
    }

    /// A look of a wait: whether its mode has become a common one since the pass began, and something has waited for that, whose wake-up is spent. Each
    /// wait looks for itself: what is invisible to a nested run (S-BLK-15) is not to the run around it.
    @inline(never)
    func meetCommon(_ mode: ModePointer, _ state: inout CommonState) -> Bool {
        guard state != .seen, mode.pointee.isCommon.load(ordering: .sequentiallyConsistent) else { return false }
        defer { state = .seen }
        return hasRequests(for: mode) || (state == .unseen && hasPosts(for: mode))
    }

    /// The name of the innermost run's mode, from malloc (S-MODE-8).
    func copyCurrentMode() -> UnsafeMutablePointer<CChar>? {
        pointee.currentMode.load(ordering: .acquiring).flatMap { strdup($0.pointee.name) }
    }

    /// The names of all modes in one block from malloc: pointers, a NULL, and the text after them (S-MODE-6).
    func copyAllModes(_ count: UnsafeMutablePointer<Int>?) -> UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>? {
        lock()
        defer { unlock() }
        var modes = 0
        var text = 0
        forEachModeRecord { mode in
            guard mode.pointee.exists.load(ordering: .relaxed) else { return }
            modes += 1
            text += strlen(mode.pointee.name) + 1
        }
        let size = (modes + 1) * MemoryLayout<UnsafeMutablePointer<CChar>?>.stride + text
        guard let block = malloc(size) else { return nil }
        let names = block.assumingMemoryBound(to: UnsafeMutablePointer<CChar>?.self)
        var cursor = UnsafeMutableRawPointer(names + modes + 1).assumingMemoryBound(to: CChar.self)
        var room = text
        var index = 0
        forEachModeRecord { mode in
            // There is no room for modes that were made meanwhile.
            guard index < modes, mode.pointee.exists.load(ordering: .relaxed) else { return }
            let length = strlen(mode.pointee.name) + 1
            guard length <= room else { return }
            strlcpy(cursor, mode.pointee.name, room)
            names[index] = cursor
            cursor += length
            room -= length
            index += 1
        }
        names[index] = nil
        count?.pointee = index
        return names
    }
}
