// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

/// A filter of kernel events: what the kernel is asked for a source, and what it reports. Each has a file of its own, which makes
/// one of these; `enter` has the list of all.
struct KernelFilter {
    var number: RLKernelFilter
    /// Asks the kernel. False with errno if it refuses. A source that has a descriptor after this is a watch of it, one that has none is an inbox.
    var open: (KernelEventPointer) -> Bool

    // Functions that not every filter has are in structures of their own: a call of a function that is an optional itself allocates.

    struct Look { let call: (KernelEventPointer, inout RLKernelEvent) -> Bool }
    struct Begin { let call: (KernelEventPointer, SourcePointer) -> Void }
    struct Step { let call: (KernelEventPointer) -> Void }

    /// What a filter says of its descriptors: all of it, so none has a default.
    struct Watched {
        /// Shows whether the client closed or replaced the number. A new kind goes into `rl_is_kind`.
        let kind: rl_kind
        /// What the ready descriptor reports; false if that is not of interest. It may not wait: the caller holds the record's lock.
        let read: (KernelEventPointer, inout RLKernelEvent) -> Bool
        /// In the child of `fork`: another descriptor under the same number, or none. nil: the object is shared with the parent.
        let renewInChild: Step?
    }

    /// nil: with an inbox.
    var watched: Watched?

    /// With an inbox: takes what there is to report; false if there is nothing.
    var take: Look?
    var takesPath = false

    /// What the thread that reads the notifier of files does for a source with a descriptor; nil: it marks the inbox. Caller holds the
    /// notifier's lock.
    var tell: Step?

    /// Gives the record its source, after which there may be events for it; nil: nothing else is to be done.
    var begin: Begin?
    /// The source is invalid, or dies, or could not be opened: the kernel is not asked any more. It may be called twice.
    var close: Step?

    /// Fills in the table, when the library is loaded.
    static func enter() {
        enter(.vnode)
        enter(.process)
        enter(.signal)
        enter(.timer)
        enter(.user)
        enter(.distributedLock)
        OwnFiles.load()
        NotifierPort.shared.pointee.read = { Notifier.shared.readEvents() }
    }

    /// Ends with an entry of zeroes, which no filter has as its number.
    private static var table: UnsafeMutablePointer<KernelFilter> { rl_kernel_filters().assumingMemoryBound(to: KernelFilter.self) }

    /// When the library is loaded: one more, also of a part above this folder.
    static func enter(_ filter: consuming KernelFilter) {
        var entry = table
        while entry.pointee.number.rawValue != 0 { entry += 1 }
        if UnsafeRawPointer(entry + 2) > UnsafeRawPointer(rl_kernel_filters()) + rl_kernel_filters_size() {
            trap("RunLoop", "RL_STATES has too little room for the filters")
        }
        entry.initialize(to: filter)
    }

    /// nil if there is no such filter.
    static func of(_ number: RLKernelFilter) -> UnsafePointer<KernelFilter>? {
        var entry = table
        while entry.pointee.number.rawValue != 0 {
            if entry.pointee.number == number { return UnsafePointer(entry) }
            entry += 1
        }
        return nil
    }
}
