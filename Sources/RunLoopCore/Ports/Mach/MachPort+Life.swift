// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The source of a port, and its death.
extension UnsafeMutablePointer where Pointee == MachPort {
    /// `RLMachPortInvalidate`, in the order of S-PORT-8.
    func invalidate() {
        pointee.lock.lockWord()
        guard isValid else { return pointee.lock.unlockWord() }
        pointee.state.bitwiseOr(MachPortState.invalid, ordering: .acquiringAndReleasing)
        let wakes = makeRoomLocked(forAll: true)
        let callout = pointee.invalidationCallout
        let source = pointee.source
        let hasSource = source?.tryRetain() ?? false
        pointee.lock.unlockWord()
        if wakes { pointee.room.futexWakeAll() }

        retain()
        if let callout { callOutInvalidation(callout, handle, pointee.context.infoOfClient) }
        if let source, hasSource {
            source.invalidate()
            source.release()
        }
        dropMessages()
        process.pointee.registryLock.lockWord()
        pointee.lock.lockWord()
        let isUsed = pointee.users.place { !$0.isCurrent } != nil
        if isUsed {
            pointee.state.bitwiseOr(MachPortState.releasePending, ordering: .relaxed)
            ContextUses.insertLocked(.releaseAfterCallback, header, pointee.context)
        }
        pointee.lock.unlockWord()
        process.pointee.registryLock.unlockWord()
        if !isUsed { pointee.context.releaseInfo(of: header) }
        // In `destroy` this is not the last reference.
        release()
    }

    /// Of a port that a message has the last reference to the messages are dropped here too, each as deep in the stack as the first one.
    private func dropMessages() {
        var own = takeMessages()
        var others: UnsafeMutablePointer<MachMessage>?
        while let current = others ?? own {
            let isOwn = others == nil
            if isOwn { own = current.pointee.next } else { others = current.pointee.next }
            // What another port's message keeps is counted there, and nobody looks at that count any more.
            let isKept = current.pointee.keepsReply
            let replyPort = isOwn || !isKept ? takeReply(current.pointee.replyPort, isKept: isKept) : current.pointee.replyPort
            CRunLoopLinux.free(current)
            guard let replyPort, replyPort.header.pointee.references.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0
            else { continue }
            var further = replyPort.takeMessages()
            replyPort.header.destroy()
            while let first = further {
                further = first.pointee.next
                first.pointee.next = others
                others = first
            }
        }
    }

    /// Takes the queued messages, a chain.
    private func takeMessages() -> UnsafeMutablePointer<MachMessage>? {
        pointee.lock.lockWord()
        let messages = pointee.first
        pointee.first = nil
        pointee.last = nil
        if pointee.count > 0 {
            pointee.count = 0
            setReadableLocked(false)
        }
        pointee.lock.unlockWord()
        return messages
    }

    /// `RLMachPortSetInvalidationCallBack` (S-PORT-10).
    func setInvalidationCallout(_ callout: InvalidationFunction?) {
        pointee.lock.lockWord()
        let isValid = isValid
        let isIgnored = !isValid && (callout == nil || pointee.invalidationCallout != nil)
        if !isIgnored { pointee.invalidationCallout = callout }
        pointee.lock.unlockWord()
        if isIgnored {
            Log.once(.invalidationCallBackOfDeadPort, "RLMachPortSetInvalidationCallBack", ": the port is invalid; ignored")
        } else if !isValid, let callout {
            callOutInvalidation(callout, handle, nil)
        }
    }

    var invalidationCallout: InvalidationFunction? {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        return pointee.invalidationCallout
    }

    /// The source, made if need be, with one more reference; nil if the port is invalid (S-PORT-12).
    func copySource(order: Int) -> SourcePointer? {
        pointee.lock.lockWord()
        let source = usableSourceLocked
        pointee.lock.unlockWord()
        if let source { return source }
        guard isValid else { return nil }
        var functions = SourceFunctions()
        functions.retain = { info in
            MachPortPointer(info: info).retain()
            return info
        }
        functions.release = { info in MachPortPointer(info: info).sourceDied() }
        functions.watch = { info, _ in MachPortPointer(info: info).receive() }
        let made = SourcePointer.makeInbox(order: order, info: self, functions: functions)
        pointee.lock.lockWord()
        // Another thread may have made one meanwhile, or the port may have died.
        let other = usableSourceLocked
        let isTaken = isValid && other == nil
        if isTaken {
            pointee.source = made
            if pointee.count > 0 { _ = made.setReady() }
        }
        pointee.lock.unlockWord()
        if isTaken { return made }
        made.release()
        return other
    }

    /// The source if it lives and is valid, with one more reference. Caller holds the lock.
    private var usableSourceLocked: SourcePointer? {
        guard isValid, let source = pointee.source, source.isValid, source.tryRetain() else { return nil }
        return source
    }

    /// A source's last reference is gone; its memory stays until this returns.
    fileprivate func sourceDied() {
        pointee.lock.lockWord()
        if let source = pointee.source, !source.isAlive { pointee.source = nil }
        pointee.lock.unlockWord()
        release()
    }
}
