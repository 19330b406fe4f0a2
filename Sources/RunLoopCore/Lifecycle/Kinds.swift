// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// All kinds of objects: the only place that names them all. A new kind needs a folder and a line here.
enum Kinds {
    /// Fills the table when the library is loaded. `fork` takes the kinds' locks in this order: the table of message ports, a
    /// loop, the registry, the notifier of files, a Mach-like port, the list of distributed locks.
    static func enter() {
        var last: UnsafeMutablePointer<Kind>?
        enter(.messagePort, MessagePort.kind, &last)
        enter(.runLoop, RunLoop.kind, &last)
        enter(.kernelEvent, KernelEvent.kind, &last)
        enter(.machPort, MachPort.kind, &last)
        enter(.thread, Thread.kind, &last)
        enter(.source, Source.kind, &last)
        enter(.observer, Observer.kind, &last)
        enter(.timer, Timer.kind, &last)
        enter(.foreignRun, ForeignRun.kind, &last)
        enter(.socket, Socket.kind, &last)
        enter(.fileDescriptor, FileDescriptor.kind, &last)
        enter(.data, Data.kind, &last)
        enter(.distributedLock, DistributedLock.kind, &last)
        enter(.clock, ManualClock.kind, &last)
    }

    private static var first: UnsafeMutablePointer<Kind> { Kind.of(ObjectType.messagePort.rawValue) }

    @inline(never)
    private static func enter(_ type: ObjectType, _ kind: consuming Kind, _ last: inout UnsafeMutablePointer<Kind>?) {
        let entry = Kind.of(type.rawValue)
        entry.initialize(to: kind)
        last?.pointee.next = entry
        last = entry
    }

    /// From the last to the first.
    static func forEachReversed(_ body: (UnsafeMutablePointer<Kind>) -> Void) {
        func visit(_ kind: UnsafeMutablePointer<Kind>?) {
            guard let kind else { return }
            visit(kind.pointee.next)
            body(kind)
        }
        visit(first)
    }

    static func forEach(_ body: (UnsafeMutablePointer<Kind>) -> Void) {
        var kind: UnsafeMutablePointer<Kind>? = first
        while let current = kind {
            body(current)
            kind = current.pointee.next
        }
    }
}
