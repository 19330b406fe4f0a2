import CLinux
import Synchronization

/// The message ports of the process, each from its creation to the end of its object: so the child of `fork` finds the lock of each
/// port that it can still be asked for. The table's lock also guards the ports' names, and is held while a name is claimed or given
/// back, so that two threads cannot claim one at once and a name that is free can be had; it comes before a port's lock.
enum MessagePortTable {
    @inline(never)
    static func lock() { process.pointee.messagePortLock.lockWord() }
    @inline(never)
    static func unlock() { process.pointee.messagePortLock.unlockWord() }

    /// The port of a name and kind. The caller holds the lock.
    static func findLocked(_ name: MessagePortName, isRemote: Bool) -> MessagePortPointer? {
        var port = process.pointee.messagePorts
        while let current = port {
            if current.pointee.isRemote == isRemote, let other = current.pointee.name, strcmp(other.bytes, name.bytes) == 0,
                current.isValid
            {
                return current
            }
            port = current.pointee.next
        }
        return nil
    }

    static func insertLocked(_ port: MessagePortPointer) {
        port.pointee.next = process.pointee.messagePorts
        process.pointee.messagePorts?.pointee.previous = port
        process.pointee.messagePorts = port
    }

    static func remove(_ port: MessagePortPointer) {
        lock()
        defer { unlock() }
        if let previous = port.pointee.previous {
            previous.pointee.next = port.pointee.next
        } else if process.pointee.messagePorts == port {
            process.pointee.messagePorts = port.pointee.next
        }
        port.pointee.next?.pointee.previous = port.pointee.previous
        port.pointee.next = nil
        port.pointee.previous = nil
    }

    private static func forEach(_ body: (MessagePortPointer) -> Void) {
        var port = process.pointee.messagePorts
        while let current = port {
            port = current.pointee.next
            body(current)
        }
    }

    // MARK: fork

    /// Before `fork`: with the table's and every port's lock the child gets whole ports. A thread holds them for moments.
    static func prepareFork() {
        lock()
        forEach { $0.lock() }
    }

    static func forkedParent() {
        forEach { $0.unlock() }
        unlock()
    }

    /// In the child: the numbers are closed, for a name or a connection would live on in the child otherwise, the files stay the
    /// parent's, and the ports are invalid.
    static func forkedChild() {
        process.pointee.messagePortLock.resetInChild()
        MessagePortMonitor.abandonInChild()
        forEach { port in
            port.pointee.lock.resetInChild()
            port.loseInChild()
        }
    }
}
