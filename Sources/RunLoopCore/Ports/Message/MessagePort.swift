// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A message port, local or remote.
///
/// A local port is a listening socket and the connections of its remotes, all of them in one epoll set whose descriptor is the
/// port of the run loop source: it is readable when one of them is, so each pass of a mode takes one message, and membership in
/// any number of modes and loops costs the same as a plain source's. A remote port is one connection; requests carry ids, so
/// replies find the request that waits (`MessagePort+Request.swift`).
///
/// `lock` guards the fields that say so; no client code runs and no other lock but the log's and the registry's is taken under it. The table of the
/// process (`MessagePortTable`) knows all ports, without references, so that `fork` finds the lock of each that can still be
/// called. The memory outlives the object while a source has it as info.
struct MessagePort: ~Copyable, Listed {
    let header: ObjectHeader
    /// Bits of `MessagePortState`. Changed under `lock` and read without it: sequentially consistent, so that a thread that finds
    /// the port invalid sees what came before.
    let state: Atomic<UInt32>
    /// What keeps the memory: the object itself and each source. Acquired and released by the last of them, as a count of references.
    let holds: Atomic<UInt32>
    /// Taken after the table's lock and before a loop's. Only system calls that do not wait are made under it.
    let lock: Lock
    /// The client's function, as an address. Written under `lock`, released; acquired without it.
    let invalidationCallBack: Atomic<UInt>
    let isRemote: Bool
    /// `Trace.generation` of the last trace that has its name. Relaxed: a name may be there twice.
    let traceGeneration: Atomic<UInt32>
    /// Of a remote port: how many replies have not come yet for which no request waits any more. Changed under `lock` and read without it, relaxed.
    let lateReplies: Atomic<Int32>
    /// The name; nil for none. Changed under the table's lock and the port's; that of a remote port never changes. Those that the
    /// port had before follow it, since threads may read what GetName returned.
    var name: MessagePortName?
    /// Guarded by the table's lock, as are the neighbours in it.
    var entry: MessagePortEntry
    var next: MessagePortPointer?
    var previous: MessagePortPointer?
    /// The source that serves a local port, or reads a remote port's replies; the port has a reference. Guarded by `lock`.
    var source: SourcePointer?
    /// Where a datagram is received; nil until the first. Guarded by `lock`.
    var scratch: UnsafeMutablePointer<UInt8>?
    /// Guarded by `lock`.
    var held = HeldByParts()
    var refusals = RefusalLimit()
    var local: LocalEnd
    var remote: RemoteEnd
}

typealias MessagePortPointer = UnsafeMutablePointer<MessagePort>

enum MessagePortState {
    static var invalid: UInt32 { 1 << 0 }
    /// Became invalid because the child of `fork` did not get it; no callback was called.
    static var lostInFork: UInt32 { 1 << 1 }
    /// It was valid at the fork, and has its hold of the context still.
    static var keepsContext: UInt32 { 1 << 2 }
    /// It has a reference to itself.
    static var kept: UInt32 { 1 << 3 }
}

extension MessagePort: Object {
    static var type: ObjectType { .messagePort }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLMessagePort"
        kind.pointee.destroy = { MessagePort.destroy($0.cast(to: MessagePort.self)) }
        kind.pointee.describe = .init { $0.cast(to: MessagePort.self).describe(&$1) }
        kind.pointee.forkPrepare = { MessagePortTable.prepareFork() }
        kind.pointee.forkParent = { MessagePortTable.forkedParent() }
        kind.pointee.forkChildEnd = { MessagePortTable.forkedChild() }
        kind.pointee.usesContextInChild = { $0.cast(to: MessagePort.self).pointee.local.contextUsers > 0 }
    }

    /// The last reference is gone: the port is invalidated, which needs an object that can be handed to the client's function,
    /// and then freed, unless that function kept it (S-MSG-38).
    static func destroy(_ port: MessagePortPointer) {
        if port.beginInvalidation() {
            port.header.pointee.references.store(1, ordering: .relaxed)
            return port.finishInvalidation()
        }
        if port.pointee.state.load(ordering: .relaxed) & MessagePortState.keepsContext != 0 {
            // The same, in a child of `fork`, for the function that releases the context.
            port.header.pointee.references.store(1, ordering: .relaxed)
            port.releaseLostContext()
            return port.release()
        }
        MessagePortTable.remove(port)
        port.header.markFreed()
        port.forgetSource()
        port.freeIdleWaiter()
        port.pointee.remote.begun.free()
        port.pointee.name?.freeAll()
        port.releaseMemory()
    }
}

extension UnsafeMutablePointer where Pointee == MessagePort {
    static func make(isRemote: Bool, name: MessagePortName?) -> MessagePortPointer {
        let port = makeRecord(MessagePort.self)
        port.initialize(to: MessagePort(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)), state: Atomic(0), holds: Atomic(1), lock: Lock.free(),
            invalidationCallBack: Atomic(0), isRemote: isRemote, traceGeneration: Atomic(0), lateReplies: Atomic(0), name: name,
            entry: MessagePortEntry(), next: nil, previous: nil, source: nil, scratch: nil, local: LocalEnd(), remote: RemoteEnd()))
        port.initializeHeader()
        return port
    }

    var isValid: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & MessagePortState.invalid == 0 }

    // Not inlined, and neither are those of the table: a message takes system calls anyway, and the code is smaller.
    @inline(never)
    func lock() { pointee.lock.lockWord() }
    @inline(never)
    func unlock() { pointee.lock.unlockWord() }

    func holdMemory() { pointee.holds.wrappingAdd(1, ordering: .relaxed) }

    func releaseMemory() {
        guard pointee.holds.wrappingSubtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
        CRunLoopLinux.free(pointee.scratch)
        CRunLoopLinux.free(pointee.local.connections)
        CRunLoopLinux.free(self)
    }

    /// Room for the longest datagram. The caller holds the lock.
    func scratchLocked() -> UnsafeMutablePointer<UInt8> {
        if let scratch = pointee.scratch { return scratch }
        let made = makeArray(UInt8.self, count: WireHeader.size + WireHeader.inlineLimit)
        pointee.scratch = made
        return made
    }

    // MARK: Invalidation

    /// `RLMessagePortInvalidate`.
    func invalidate() {
        // The client's function may drop the caller's reference.
        retain()
        if beginInvalidation() { return finishInvalidation() }
        releaseLostContext()
        forgetToKeep()
        release()
    }

    /// Makes the port invalid and gives its name back. True for the one caller that has to do the rest. One step for a thread that
    /// holds the table's lock: a thread that looks for a port of the name finds a valid one or a free name.
    fileprivate func beginInvalidation() -> Bool {
        guard isValid else { return false }
        MessagePortTable.lock()
        defer { MessagePortTable.unlock() }
        let old = pointee.state.bitwiseOr(MessagePortState.invalid, ordering: .sequentiallyConsistent).oldValue
        guard old & MessagePortState.invalid == 0 else { return false }
        giveNameBack()
        return true
    }

    /// Caller holds the table's lock, under which the name is changed.
    func giveNameBack() {
        MessagePortTable.leaveNameLocked(self)
        lock()
        if pointee.isRemote {
            disconnectLocked()
        } else {
            if !isValid { forgetLostSetLocked() }
            closeNameLocked()
        }
        unlock()
    }

    /// The rest, in the order of S-MSG-34, also if the client's function ends the thread (S-LOOP-19). A reference, and the valid port's hold of the
    /// context, are this function's now.
    @inline(never)
    fileprivate func finishInvalidation() {
        callOutGuarded(
            {
                let port = MessagePortPointer(info: $0!)
                port.lock()
                let context = port.pointee.local.context
                port.unlock()
                if let function = port.storedInvalidationCallBack { callOutInvalidation(function, port.handle, context.infoOfClient) }
            }, self,
            { MessagePortPointer(info: $0!).endInvalidation() }, self)
        endInvalidation()
    }

    @inline(never)
    private func endInvalidation() {
        MessagePortMonitor.forget(self)
        endHoldOfContext()
        endSources()
        if !pointee.isRemote { leaveDispatchQueue() }
        // Now that no loop waits for them the numbers may be reused.
        lock()
        if pointee.isRemote { closeConnectionLocked() } else { closeSetLocked() }
        unlock()
        forgetToKeep()
        release()
    }

    /// `RLMessagePortKeep_`. An invalidation waits for the lock before it looks.
    func keep() {
        lock()
        if isValid, pointee.state.bitwiseOr(MessagePortState.kept, ordering: .relaxed).oldValue & MessagePortState.kept == 0 { retain() }
        unlock()
    }

    private func forgetToKeep() {
        if pointee.state.bitwiseAnd(~MessagePortState.kept, ordering: .acquiringAndReleasing).oldValue & MessagePortState.kept != 0 { release() }
    }

    /// Takes what reads an invalid port out of all loops.
    func endSources() {
        lock()
        let source = pointee.source
        source?.retain()
        unlock()
        if let source {
            source.invalidate()
            source.release()
        }
        endServices()
    }

    /// Drops the port's reference to its source. The object is dying.
    fileprivate func forgetSource() {
        lock()
        let source = pointee.source
        pointee.source = nil
        unlock()
        source?.release()
    }

    var storedInvalidationCallBack: InvalidationFunction? {
        unsafeBitCast(pointee.invalidationCallBack.load(ordering: .acquiring), to: InvalidationFunction?.self)
    }

    /// S-MSG-37.
    func setInvalidationCallBack(_ function: InvalidationFunction?) {
        lock()
        let isValid = self.isValid
        if isValid {
            pointee.invalidationCallBack.store(unsafeBitCast(function, to: UInt.self), ordering: .releasing)
        }
        unlock()
        if !isValid {
            if let function { callOutInvalidation(function, handle, nil) }
        } else if pointee.isRemote && function != nil {
            MessagePortMonitor.watch(self)
        }
    }

    // MARK: Sources

    /// A source that has the port as its info and keeps its memory, not the object. Its handler returns whether a message was
    /// served: connections that come and go do not end a run.
    func makeWatch(descriptor: Int32, order: Int, fileSerial: UInt32 = 0, handler: @escaping WatchHandler) -> SourcePointer {
        let functions = SourceFunctions(
            retain: { info in
                MessagePortPointer(info: info).holdMemory()
                return info
            },
            release: { MessagePortPointer(info: $0).releaseMemory() })
        return SourcePointer.makeWatch(
            descriptor: descriptor, order: order, info: self, functions: functions, interest: .read, owned: true,
            fileSerial: fileSerial, handler: handler)
    }
}

extension UnsafeMutablePointer where Pointee == MessagePort {
    fileprivate func describe(_ text: inout TextBuffer) {
        lock()
        let context = pointee.local.context
        unlock()
        text.beginUse(of: header, context.copyDescription)
        let kind: StaticString = pointee.isRemote ? "remote" : "local"
        text.append(kind)
        text.append(", name = ")
        MessagePortTable.lock()
        if let name = pointee.name { text.appendPrintable(name.bytes) } else { text.append("(none)") }
        MessagePortTable.unlock()
        let isValid = isValid
        text.append(", valid = ", isValid)
        text.appendInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil)
    }
}
