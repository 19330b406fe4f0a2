// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// All kinds of objects: the only place that names them all. A new kind needs a folder and a line here.
enum Kinds {
    /// Fills the table when the library is loaded. `fork` takes the kinds' locks in this order: the table of message ports, a
    /// loop, the registry, the notifier of files, a Mach-like port, the list of distributed locks.
    static func enter() {
        var last: UnsafeMutablePointer<Kind>?
        MessagePort.fill(enter(.messagePort, &last))
        RunLoop.fill(enter(.runLoop, &last))
        KernelEvent.fill(enter(.kernelEvent, &last))
        MachPort.fill(enter(.machPort, &last))
        Thread.fill(enter(.thread, &last))
        Source.fill(enter(.source, &last))
        Observer.fill(enter(.observer, &last))
        Timer.fill(enter(.timer, &last))
        ForeignRun.fill(enter(.foreignRun, &last))
        Socket.fill(enter(.socket, &last))
        FileDescriptor.fill(enter(.fileDescriptor, &last))
        Data.fill(enter(.data, &last))
        DistributedLock.fill(enter(.distributedLock, &last))
        ManualClock.fill(enter(.clock, &last))
    }

    private static var first: UnsafeMutablePointer<Kind> { Kind.of(ObjectType.messagePort.rawValue) }

    /// The entry, in which nothing is set.
    @inline(never)
    private static func enter(_ type: ObjectType, _ last: inout UnsafeMutablePointer<Kind>?) -> UnsafeMutablePointer<Kind> {
        let entry = Kind.of(type.rawValue)
        last?.pointee.next = entry
        last = entry
        return entry
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
