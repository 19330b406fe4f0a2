// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

/// Why a context cannot be released yet although its object is invalid (S-THR-8): a callback on another thread uses the info, or another
/// thread's `copyDescription` does. The last of them releases it. There are few at any time, in one list of the process.
///
/// A `copyDescription` that runs has a record, by which an Invalidate finds it. A callback has none, because its object knows of it: when it
/// has ended it looks for a release that an Invalidate left to it. The thread that takes the record of a release out makes the release. In
/// the child of `fork` some of these threads do not exist: a loop's next wait releases what was left to them (S-FORK-5).
struct ContextUse: ~Copyable, Listed {
    enum Reason {
        case description
        case releaseAfterCallback
        case releaseAfterDescriptions
        case releaseAfterFork
    }

    var reason: Reason
    let object: ObjectPointer
    /// Whose `copyDescription` it is, or whose Invalidate has left the release.
    let thread: UInt
    /// What is released.
    let context: ClientContext
    var next: UnsafeMutablePointer<ContextUse>?
    var previous: UnsafeMutablePointer<ContextUse>?
}

/// All of the process.
struct ContextUses: ~Copyable {
    /// Guarded by the registry's lock.
    fileprivate var all: RecordList<ContextUse>
    /// How many are descriptions. Sequentially consistent: a description is counted before it looks whether its object is valid, and an
    /// Invalidate looks here after it has made the object invalid. Released at the end of a description, which has used the info.
    fileprivate let descriptions: Atomic<Int>

    static var shared: UnsafeMutablePointer<ContextUses> { rl_context_uses().assumingMemoryBound(to: ContextUses.self) }

    /// A release for that reason, or a description. The registry's lock is held.
    @discardableResult @inline(never)
    static func insertLocked(
        _ reason: ContextUse.Reason, _ object: ObjectPointer, _ context: ClientContext = ClientContext()
    ) -> UnsafeMutablePointer<ContextUse> {
        let use = makeRecord(ContextUse.self)
        use.initialize(to: ContextUse(reason: reason, object: object, thread: RLThisThread_(), context: context, next: nil, previous: nil))
        shared.pointee.all.insert(use)
        return use
    }

    /// The same without the lock.
    @inline(never)
    static func insert(_ reason: ContextUse.Reason, _ object: ObjectPointer, _ context: ClientContext = ClientContext()) {
        process.pointee.registryLock.lockWord()
        insertLocked(reason, object, context)
        process.pointee.registryLock.unlockWord()
    }

    /// Makes a release that has waited for that reason, unless the object is described: then the last description makes it. A thread's own
    /// descriptions keep nothing from its own Invalidate, but from another thread's. No object: any. False: there is none.
    @discardableResult @inline(never)
    static func settle(_ reason: ContextUse.Reason, _ object: ObjectPointer?) -> Bool {
        process.pointee.registryLock.lockWord()
        let use = shared.pointee.all.first { $0.pointee.reason == reason && (object == nil || $0.pointee.object == object) }
        var isReady = false
        if let use {
            use.pointee.reason = .releaseAfterDescriptions
            isReady = !isDescribedLocked(use, byOthers: use.pointee.thread == RLThisThread_())
            if isReady { shared.pointee.all.remove(use) }
        }
        process.pointee.registryLock.unlockWord()
        guard let use else { return false }
        if isReady {
            use.pointee.context.releaseInfo()
            CRunLoopLinux.free(use)
        }
        return true
    }

    /// Whether the object of a release is described, by any thread or by others than the caller.
    @inline(never)
    private static func isDescribedLocked(_ use: UnsafeMutablePointer<ContextUse>, byOthers: Bool) -> Bool {
        shared.pointee.all.first {
            $0.pointee.reason == .description && $0.pointee.object == use.pointee.object && !(byOthers && $0.pointee.thread == RLThisThread_())
        } != nil
    }

    /// From before a description looks whether its object is valid.
    static func beginDescription(of object: ObjectPointer) -> UnsafeMutablePointer<ContextUse> {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        shared.pointee.descriptions.wrappingAdd(1, ordering: .sequentiallyConsistent)
        return insertLocked(.description, object)
    }

    static func endDescription(_ use: UnsafeMutablePointer<ContextUse>) {
        let object = use.pointee.object
        process.pointee.registryLock.lockWord()
        forgetLocked(use)
        process.pointee.registryLock.unlockWord()
        settle(.releaseAfterDescriptions, object)
    }

    private static func forgetLocked(_ description: UnsafeMutablePointer<ContextUse>) {
        shared.pointee.all.remove(description)
        shared.pointee.descriptions.wrappingSubtract(1, ordering: .releasing)
        CRunLoopLinux.free(description)
    }

    #if DEBUG
    /// See `Fork.rehearse`.
    static func rehearse() { shared.pointee.all.forEach { _ in } }
    #endif

    /// In the child of `fork`, while there is one thread and no client code may be called. The memory of an object whose callback has a release left to
    /// it is there: the thread of the callback takes the release before it gives the object back.
    static func forkedChild() {
        shared.pointee.all.forEach { if $0.pointee.reason == .description && $0.pointee.thread != RLThisThread_() { forgetLocked($0) } }
        shared.pointee.all.forEach { use in
            let object = use.pointee.object
            switch use.pointee.reason {
            case .description: return
            case .releaseAfterCallback: if object.kind.pointee.usesContextInChild!(object) { return }
            default: break
            }
            let isDescribed = isDescribedLocked(use, byOthers: false)
            use.pointee.reason = isDescribed ? .releaseAfterDescriptions : .releaseAfterFork
            if !isDescribed { Losses.note() }
        }
    }
}

extension ClientContext {
    /// Releases the info of an object that has become invalid, after other threads' calls of `copyDescription` for it.
    @inline(always)
    func releaseInfo(of object: ObjectPointer) {
        if release != nil { releaseAfterDescriptions(object) }
    }

    @inline(never)
    private func releaseAfterDescriptions(_ object: ObjectPointer) {
        guard ContextUses.shared.pointee.descriptions.load(ordering: .sequentiallyConsistent) != 0 else { return releaseInfo() }
        ContextUses.insert(.releaseAfterDescriptions, object, self)
        ContextUses.settle(.releaseAfterDescriptions, object)
    }
}
