import Synchronization

extension RunLoop {
    static var kind: Kind {
        Kind(
            name: "RLRunLoop", destroy: { $0.cast(to: RunLoop.self).destroy() }, describe: .init { $0.cast(to: RunLoop.self).describe(&$1) },
            retain: { $0.cast(to: RunLoop.self).retainByClient() }, release: { $0.cast(to: RunLoop.self).releaseByClient() },
            forkPrepare: { RunLoop.prepareFork() }, forkParent: { RunLoop.forkedParent() }, forkChild: { RunLoop.forkedChild() })
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Clients' references are counted apart: the thread's own must not be released by them (S-LOOP-15).
    fileprivate func retainByClient() {
        pointee.clientReferences.wrappingAdd(1, ordering: .relaxed)
        retain()
    }

    fileprivate func releaseByClient() {
        if pointee.clientReferences.wrappingSubtract(1, ordering: .relaxed).newValue < 0 {
            trap("RLRelease", "a run loop was released more often than it was retained")
        }
        release()
    }

    fileprivate func describe(_ text: inout TextBuffer) {
        text.append("current mode = ")
        if let mode = pointee.currentMode.load(ordering: .acquiring) {
            text.appendPrintable(mode.pointee.name)
        } else {
            text.append("(none)")
        }
        text.append(", waiting = ", pointee.waiting.load(ordering: .acquiring))
        text.append(", modes = (")
        lock()
        forEachModeRecord { mode in
            guard mode.pointee.exists.load(ordering: .relaxed) else { return }
            text.append(" ")
            text.appendPrintable(mode.pointee.name)
            if mode.pointee.isCommon.load(ordering: .relaxed) { text.append(" (common)") }
            text.append(": ", mode.pointee.sources.count)
            text.append(" sources, ", mode.pointee.timerCount)
            text.append(" timers;")
        }
        unlock()
        text.append(" )")
    }
}
