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
        if mayBeAsleep { mode.pointee.isNewlyCommon.store(true, ordering: .sequentiallyConsistent) }

        let sourceCount = pointee.commonSources.count
        if sourceCount + pointee.commonTimers.count + pointee.commonObservers.count > 0 {
            mode.pointee.exists.store(true, ordering: .releasing)  // S-MODE-4
        }
        pointee.commonTimers.forEach { addLocked($0, to: mode) }
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
        // S-WAKE-15. On the loop's own thread requests alone count: a thread may wait for them.
        if mayBeAsleep ? wakes : hasRequests(for: mode) { wakeUp() }
    }

    /// A look in a mode that another thread has made a common one: what waited for that, and whose wake-up is spent, wakes the loop. True if there is
    /// anything.
    @inline(never)
    func meetNewlyCommon(_ mode: ModePointer) -> Bool {
        mode.pointee.isNewlyCommon.store(false, ordering: .sequentiallyConsistent)
        guard hasPosts(for: mode) || hasRequests(for: mode) else { return false }
        wakeUp()
        return true
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
