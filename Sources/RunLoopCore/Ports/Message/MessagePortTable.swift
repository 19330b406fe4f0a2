// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The message ports of the process, each from its creation to the end of its object: so the child of `fork` finds the lock of each
/// port that it can still be asked for. The table's lock also guards the ports' names, and is held while a name is claimed or given
/// back, so that two threads cannot claim one at once and a free name can be claimed; it comes before a port's lock.
struct MessagePortTable: ~Copyable {
    let lock: Lock
    /// The valid message ports.
    var ports: RecordList<MessagePort>
    /// What watches for the end of their peers.
    var monitor: MessagePortMonitor

    static var shared: UnsafeMutablePointer<MessagePortTable> { rl_message_ports().assumingMemoryBound(to: MessagePortTable.self) }

    @inline(never)
    static func lock() { shared.pointee.lock.lockWord() }
    @inline(never)
    static func unlock() { shared.pointee.lock.unlockWord() }

    /// The port of a name and kind. The caller holds the lock.
    static func findLocked(_ name: MessagePortName, isRemote: Bool) -> MessagePortPointer? {
        shared.pointee.ports.first {
            $0.pointee.isRemote == isRemote && $0.isValid && $0.pointee.name.map { strcmp($0.bytes, name.bytes) == 0 } ?? false
        }
    }

    static func insertLocked(_ port: MessagePortPointer) { shared.pointee.ports.insert(port) }

    static func remove(_ port: MessagePortPointer) {
        lock()
        shared.pointee.ports.remove(port)
        unlock()
    }

    // MARK: fork

    /// Before `fork`: with the table's and every port's lock the child gets whole ports. A thread holds them only briefly.
    static func prepareFork() {
        lock()
        shared.pointee.ports.forEach { $0.lock() }
    }

    static func forkedParent() {
        shared.pointee.ports.forEach { $0.unlock() }
        unlock()
    }

    /// In the child: the numbers are closed, because a name or a connection would otherwise live on in the child, the files stay
    /// the parent's, and the ports are invalid.
    static func forkedChild() {
        shared.pointee.lock.resetInChild()
        shared.pointee.monitor.abandonInChild()
        shared.pointee.ports.forEach { port in
            port.pointee.lock.resetInChild()
            port.loseInChild()
        }
    }
}
