import CLinux
import CRunLoop

/// A filter of kernel events: what the kernel is asked for a source, and what it tells. Each has a file of its own, which makes one
/// of these; `enter` is the list of all.
struct KernelFilter {
    var number: RLKernelFilter
    /// Asks the kernel. False with errno if it refuses. What has a descriptor after it is a watch of that, what has none an inbox.
    var open: (KernelEventPointer) -> Bool

    // With a descriptor.

    var descriptorKind = RL_PROCESS
    /// What the descriptor, which is ready, tells; false if that interests nobody. Caller holds the record's lock.
    var read: ((KernelEventPointer, inout RLKernelEvent) -> Bool)?
    /// In the child of `fork`, if the descriptor is not to be shared with the parent: another one under the same number, or none.
    var renewInChild: ((KernelEventPointer) -> Void)?

    // With an inbox.

    /// Takes what there is to report; false if there is nothing.
    var take: ((KernelEventPointer, inout RLKernelEvent) -> Bool)?
    /// The inbox is marked by whoever reads the notifier of files.
    var isNotified = false
    var takesPath = false

    /// Gives the source to its record, after which there may be events for it; nil: that is all there is to do.
    var begin: ((KernelEventPointer, SourcePointer) -> Void)?
    /// The source is invalid, or dies, or could not be opened: the kernel is asked no more. It may be called twice.
    var close: ((KernelEventPointer) -> Void)?

    /// Fills in the table, when the library is loaded.
    static func enter() {
        enter(0, .vnode)
        enter(1, .process)
        enter(2, .signal)
        enter(3, .timer)
        enter(4, .user)
        NotifierPort.shared.pointee.read = { Notifier.shared.readEvents() }
        RunLoopCore.process.pointee.tellLost = { KernelEvent.tellLost() }
    }

    static var count: Int { 5 }

    private static var table: UnsafeMutablePointer<KernelFilter> { rl_kernel_filters().assumingMemoryBound(to: KernelFilter.self) }

    private static func enter(_ place: Int, _ filter: KernelFilter) { (table + place).initialize(to: filter) }

    /// nil if there is no such filter.
    static func of(_ number: RLKernelFilter) -> UnsafePointer<KernelFilter>? {
        for place in 0..<count where table[place].number == number { return UnsafePointer(table + place) }
        return nil
    }
}
