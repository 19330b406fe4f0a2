// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Functions of a descriptor's context, whose pointers are not const, unlike those of the other contexts.
typealias FileDescriptorRetain = @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer?
typealias FileDescriptorRelease = @convention(c) (UnsafeMutableRawPointer?) -> Void
typealias FileDescriptorDescribe = @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutablePointer<CChar>?

/// A client's descriptor with a callback for each direction, which is disabled before it is called (S-FD-3).
///
/// Its source is a watch whose interest is kept in `state` here, so that a callback costs one exchange, and callbacks that are
/// enabled again before the next event cost nothing else. The source has a reference to the descriptor object, the object none to
/// the source (S-FD-13).
struct FileDescriptor: ~Copyable {
    let header: ObjectHeader
    /// Bits of `FileDescriptorState`; the lowest are the enabled callbacks. Changed by read-modify-write. Sequentially
    /// consistent, because it is the watch's word, behind the header; relaxed before an exchange.
    let state: Atomic<UInt32>
    /// -1 once it is invalid. Relaxed: exchanged by the thread that closes it, and a number orders nothing.
    let descriptor: Atomic<Int32>
    // These two are fixed at creation.
    let info: UnsafeMutableRawPointer?
    /// `retain`, `release` and `copyDescription`, and the callout as `perform`; shared by all objects that have the same.
    let callbacks: CallbacksPointer
    let source: OwnedSource
}

typealias FileDescriptorPointer = UnsafeMutablePointer<FileDescriptor>

enum FileDescriptorState {
    /// `Readiness`: the callbacks that are enabled.
    static var enabled: UInt32 { 3 }
    /// Of the enabled callbacks, those that a report leaves enabled: the same bits, further up.
    static var persistentShift: UInt32 { 6 }
    static var closesOnInvalidate: UInt32 { 1 << 8 }
    static var invalid: UInt32 { Watch.ownerIsInvalid }
    /// An Invalidate left the release of the context to the last callback that runs (S-THR-8).
    static var releasePending: UInt32 { 1 << 9 }
    /// The process whose callbacks `uses` counts: the low bits of its number of forks. In the child of `fork` the count of an object that is called by
    /// the forking thread is made anew (`renewInChild`), and any other count is one of threads that vanished, so that no list of all objects is
    /// needed. A count that stood for 64 forks, each by a child of the one before, is taken for one of today: then an Invalidate leaves the
    /// release of the context to a callback that never ends.
    static var generations: UInt32 { 0x3f << 10 }
    private static var generation: UInt32 { process.pointee.forkGeneration.load(ordering: .relaxed) << 10 & generations }
    /// A count: callbacks on the stack.
    static var use: UInt32 { 1 << 16 }
    static var uses: UInt32 { 0xffff << 16 }

    /// The state without the callbacks of vanished threads.
    @inline(always)
    static func current(_ state: UInt32) -> UInt32 {
        (state ^ generation) & generations == 0 ? state : state & ~(uses | generations) | generation
    }
}

extension FileDescriptor: Object {
    static var type: ObjectType { .fileDescriptor }
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLFileDescriptor"
        kind.pointee.destroy = { FileDescriptor.destroy($0.cast(to: FileDescriptor.self)) }
        kind.pointee.describe = .init { $0.cast(to: FileDescriptor.self).describe(&$1) }
        kind.pointee.forkChild = { FileDescriptor.renewInChild() }
        kind.pointee.usesContextInChild = { $0.cast(to: FileDescriptor.self).state & FileDescriptorState.uses != 0 }
    }

    fileprivate static var handler: WatchHandler { { info, ready in FileDescriptorPointer(info: info).report(ready) } }

    /// In the child of `fork`: callbacks of vanished threads have ended (S-FORK-3), those of this one have not. Called by the only thread.
    private static func renewInChild() {
        // The first time that an object is met its count is of the process that forked, and becomes zero.
        RunLoop.forEachWatchOnStack(of: handler) {
            let file = FileDescriptorPointer(info: $0)
            file.pointee.state.store(file.state + FileDescriptorState.use, ordering: .relaxed)
        }
    }

    #if DEBUG
    /// See `Fork.rehearse`.
    static func rehearse() {
        RunLoop.forEachWatchOnStack(of: handler) { _ in }
    }
    #endif

    /// The last reference is gone, so there is no source. The object thereby becomes invalid (S-FD-13).
    static func destroy(_ file: FileDescriptorPointer) {
        let state = file.pointee.state.bitwiseOr(FileDescriptorState.invalid, ordering: .acquiring).oldValue
        if state & FileDescriptorState.invalid == 0 {
            file.closeIfOwned(state)
            file.context.releaseInfo()
        }
        file.header.markFreed()
        Callbacks.release(file.pointee.callbacks)
        CRunLoopLinux.free(file)
    }
}

extension UnsafeMutablePointer where Pointee == FileDescriptor {
    static func make(
        descriptor: Int32, closesOnInvalidate: Bool, callout: @escaping FileDescriptorFunction,
        info: UnsafeMutableRawPointer?, functions: SourceFunctions
    ) -> FileDescriptorPointer {
        let file = makeRecord(FileDescriptor.self)
        var functions = functions
        functions.perform = unsafeBitCast(callout, to: PerformFunction.self)
        let retained = functions.retain.map { UnsafeMutableRawPointer(mutating: callOutRetain($0, info)) } ?? info
        file.initialize(to: FileDescriptor(
            header: ObjectHeader(type: Atomic(0), references: Atomic(0)),
            state: Atomic(closesOnInvalidate ? FileDescriptorState.closesOnInvalidate : 0), descriptor: Atomic(descriptor),
            info: retained, callbacks: Callbacks.shared(functions), source: OwnedSource()))
        file.initializeHeader()
        return file
    }

    fileprivate var state: UInt32 { FileDescriptorState.current(pointee.state.load(ordering: .relaxed)) }

    private var callout: FileDescriptorFunction {
        unsafeBitCast(pointee.callbacks.pointee.functions.perform, to: FileDescriptorFunction.self)
    }

    var isValid: Bool { pointee.state.load(ordering: .sequentiallyConsistent) & FileDescriptorState.invalid == 0 }

    /// The source, retained; nil once the object is invalid (S-FD-14).
    func copySource(order: Int) -> SourcePointer? {
        guard isValid else { return nil }
        let source = pointee.source.copy {
            let functions = SourceFunctions(
                retain: {
                    FileDescriptorPointer(info: $0).retain()
                    return $0
                },
                release: {
                    FileDescriptorPointer(info: $0).pointee.source.forgetIfDead()
                    FileDescriptorPointer(info: $0).release()
                },
                abandoned: { FileDescriptorPointer(info: $0).endUse() })
            return SourcePointer.makeWatch(
                descriptor: pointee.descriptor.load(ordering: .relaxed), order: order, info: UnsafeMutableRawPointer(self),
                functions: functions, interest: nil, handler: FileDescriptor.handler)
        }
        // Invalidated meanwhile: the Invalidate may have looked for a source before there was one.
        if !isValid { source.invalidate() }
        return source
    }

    /// S-FD-6: also before there is a source, or before it is in a loop.
    func enable(_ types: UInt32, persistently: Bool = false) {
        let types = types & FileDescriptorState.enabled
        let bits = persistently ? types | types << FileDescriptorState.persistentShift : types
        var state = pointee.state.load(ordering: .relaxed)
        repeat {
            if state & FileDescriptorState.invalid != 0 { return }
        } while !pointee.state.replace(&state, by: state | bits)
        guard Watch.isNews(from: state, to: state | bits) else { return }
        // In its own callback, where most are enabled again, the source is known and kept.
        if state & FileDescriptorState.uses != 0, let source = RunLoop.ofThread?.innermostWatch(ofInfo: self) { return source.interestGrew() }
        guard let source = pointee.source.copy() else { return }
        source.interestGrew()
        source.release()
    }

    func disable(_ types: UInt32) {
        let types = types & FileDescriptorState.enabled
        let bits = types | types << FileDescriptorState.persistentShift
        pointee.state.bitwiseAnd(~bits, ordering: .sequentiallyConsistent)
    }

    /// Calls the client for what is ready and enabled at this moment (S-FD-7). Loop's thread.
    fileprivate func report(_ ready: UInt32) -> Bool {
        var state = pointee.state.load(ordering: .relaxed)
        var types: UInt32
        var ending: UInt32
        repeat {
            types = state & ready & FileDescriptorState.enabled
            if types == 0 || state & FileDescriptorState.invalid != 0 { return false }
            ending = types & ~(state >> FileDescriptorState.persistentShift)
            if FileDescriptorState.current(state) >= FileDescriptorState.uses { Watch.trapForCalls("RLFileDescriptor") }
        } while !pointee.state.replace(&state, by: FileDescriptorState.current(state) & ~ending &+ FileDescriptorState.use)
        callOutFileDescriptor(callout, handle, UInt(types), pointee.info)
        endUse()
        return true
    }

    private func endUse() {
        let state = pointee.state.wrappingSubtract(FileDescriptorState.use, ordering: .sequentiallyConsistent).newValue
        if state & (FileDescriptorState.uses | FileDescriptorState.releasePending) == FileDescriptorState.releasePending {
            ContextUses.settle(.releaseAfterCallback, header)
        }
    }

    /// `RLFileDescriptorInvalidate`, in the order of S-FD-11.
    func invalidate() {
        var state = pointee.state.load(ordering: .relaxed)
        var desired: UInt32
        // Callbacks of this thread end after the call, so that the context is released inside it; those of other threads still use it.
        let own = RunLoop.watchesOnStack(ofInfo: UnsafeMutableRawPointer(self))
        // In one step for the child of a fork.
        process.pointee.registryLock.lockWord()
        repeat {
            if state & FileDescriptorState.invalid != 0 { return process.pointee.registryLock.unlockWord() }
            desired = state & ~FileDescriptorState.enabled | FileDescriptorState.invalid
            if FileDescriptorState.current(state) / FileDescriptorState.use > own {
                desired |= FileDescriptorState.releasePending
            }
        } while !pointee.state.replace(&state, by: desired)
        let isLeft = desired & FileDescriptorState.releasePending != 0
        if isLeft { ContextUses.insertLocked(.releaseAfterCallback, header, context) }
        let mayClose = state & FileDescriptorState.closesOnInvalidate != 0
        let closing = mayClose ? ClosingNumber.beginLocked(pointee.descriptor.load(ordering: .relaxed), .any) : nil
        process.pointee.registryLock.unlockWord()
        retain()
        let source = pointee.source.copy()
        source?.leaveAllLoops()
        ClosingNumber.willClose(closing)
        closeIfOwned(state)
        ClosingNumber.end(closing)
        if let source {
            source.invalidate()
            source.release()
        }
        if !isLeft { context.releaseInfo(of: header) }
        release()
    }

    fileprivate func closeIfOwned(_ state: UInt32) {
        let number = pointee.descriptor.exchange(-1, ordering: .relaxed)
        if state & FileDescriptorState.closesOnInvalidate != 0 { rl_sys_close(number) }
    }

    fileprivate var context: ClientContext { ClientContext(info: pointee.info, sharedFunctions: pointee.callbacks) }
}

extension UnsafeMutablePointer where Pointee == FileDescriptor {
    fileprivate func describe(_ text: inout TextBuffer) {
        let context = context
        text.beginUse(of: header, context.copyDescription)
        let state = pointee.state.load(ordering: .acquiring)
        text.append("descriptor = ", Int(pointee.descriptor.load(ordering: .relaxed)))
        text.append(", callbacks enabled = 0x", UInt(state & FileDescriptorState.enabled), radix: 16)
        text.append(", closed on invalidation = ", state & FileDescriptorState.closesOnInvalidate != 0)
        let isValid = state & FileDescriptorState.invalid == 0
        text.append(", valid = ", isValid)
        text.appendCallback(callout as FileDescriptorFunction?)
        text.appendInfo(isValid ? context.info : nil, isValid ? context.copyDescription : nil)
    }
}
