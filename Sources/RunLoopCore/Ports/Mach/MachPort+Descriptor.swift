// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The descriptor by which loops of another kind notice messages, which names the port in this process (S-PORT-1, S-PORT-9); and
/// what `fork` does to ports.
extension UnsafeMutablePointer where Pointee == MachPort {
    /// The descriptor, made if need be; -1 if none can be made.
    func port() -> Int32 {
        let descriptor = pointee.descriptor.load(ordering: .acquiring)
        if descriptor >= 0 { return descriptor }
        process.pointee.registryLock.lockWord()
        pointee.lock.lockWord()
        defer {
            pointee.lock.unlockWord()
            process.pointee.registryLock.unlockWord()
        }
        if pointee.descriptor.load(ordering: .relaxed) < 0 {
            let made = makeEventfdLocked()
            guard made >= 0 else { return -1 }
            MachPorts.shared.pointee.byDescriptor.make(Int(made))
            MachPorts.shared.pointee.byDescriptor[Int(made)].pointee = self
            pointee.descriptor.store(made, ordering: .releasing)
        }
        return pointee.descriptor.load(ordering: .relaxed)
    }

    /// An eventfd that is readable if messages are queued now. Caller holds the lock.
    private func makeEventfdLocked() -> Int32 {
        eventfd(pointee.count > 0 ? 1 : 0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    }

    /// Makes the descriptor readable, or not readable any more, if there is one. Caller holds the lock, so that the descriptor
    /// always agrees with the queue.
    @inline(always)
    func setReadableLocked(_ readable: Bool) {
        let descriptor = pointee.descriptor.load(ordering: .relaxed)
        if descriptor >= 0 { setReadable(readable, descriptor) }
    }

    @inline(never)
    private func setReadable(_ readable: Bool, _ descriptor: Int32) {
        var count: UInt64 = 1
        if readable { _ = rl_sys_write(descriptor, &count, 8) } else { _ = rl_sys_read(descriptor, &count, 8) }
    }

    /// In the child of `fork`: puts an eventfd of the child's own under the number, which is the parent's until then. If that is not possible the port has
    /// no descriptor, until somebody asks for one.
    fileprivate func renewDescriptorInChild() {
        var descriptor = pointee.descriptor.load(ordering: .relaxed)
        if descriptor < 0 || renewDescriptor(&descriptor, { makeEventfdLocked() }) { return }
        MachPorts.shared.pointee.byDescriptor.find(Int(pointee.descriptor.load(ordering: .relaxed)))?.pointee = nil
        pointee.descriptor.store(-1, ordering: .relaxed)
    }

    /// The valid port with this descriptor, with one more reference; nil if there is none (S-PORT-3).
    static func find(_ descriptor: Int32) -> MachPortPointer? {
        process.pointee.registryLock.lockWord()
        let port = MachPorts.shared.pointee.byDescriptor.find(Int(descriptor))?.pointee
        // Under the lock, which keeps the memory of a port that ends.
        let isKept = port?.tryRetain() ?? false
        process.pointee.registryLock.unlockWord()
        guard let port, isKept else { return nil }
        if port.isValid { return port }
        port.release()
        return nil
    }
}

extension MachPort {
    /// Takes the lock of every port, after the registry's, so that the child of `fork` gets whole queues.
    static func prepareFork() { MachPorts.shared.pointee.all.forEach { $0.pointee.lock.lockWord() } }

    static func forkedParent() { MachPorts.shared.pointee.all.forEach { $0.pointee.lock.unlockWord() } }

    /// In the child: other threads' senders, receivers and loops do not exist, and descriptors must not be the parent's. The only
    /// thread calls it, before its loop takes up the sources whose flag is set.
    static func forkedChild(_ own: RunLoopPointer?) {
        MachPorts.shared.pointee.all.forEach { port in
            port.pointee.lock.resetInChild()
            port.pointee.sleepers = 0
            port.pointee.waiters = 0
            // Those that such senders had not queued yet do not exist either.
            var kept = 0
            var message = port.pointee.first
            while let current = message {
                if current.pointee.keepsReply { kept += 1 }
                message = current.pointee.next
            }
            port.pointee.keptReplies.store(kept, ordering: .relaxed)
            port.pointee.users.keep { $0 == own }
            port.renewDescriptorInChild()
            // The thread that made it invalid may not exist here to do the same with the source.
            if !port.isValid { _ = port.pointee.source?.becomeInvalid() }
            // A receiver that had taken the mark may be gone.
            if port.pointee.count > 0, let source = port.pointee.source, source.isValid {
                source.restoreFlag()
            }
        }
    }
}
