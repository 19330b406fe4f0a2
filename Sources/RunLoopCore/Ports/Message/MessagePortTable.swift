// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A port as its table finds it.
struct MessagePortEntry {
    /// Of its name. The first word.
    var key: UInt = 0
    var port: MessagePortPointer?
}

/// The message ports of the process, each from its creation to the end of its object: so the child of `fork` finds the lock of each
/// port that it can still be asked for. The table's lock also guards the ports' names, and is held while a name is claimed or given
/// back, so that two threads cannot claim one at once and a free name can be claimed; it comes before a port's lock.
struct MessagePortTable: ~Copyable {
    let lock: Lock
    /// The valid message ports.
    var ports: RecordList<MessagePort>
    /// The entries of those that have a name, by key. Of two with one key, of which one is about to be invalid, the newer one.
    var names: WordSet
    /// What watches for the end of their peers.
    var monitor: MessagePortMonitor

    static var shared: UnsafeMutablePointer<MessagePortTable> { rl_message_ports().assumingMemoryBound(to: MessagePortTable.self) }

    @inline(never)
    static func lock() { shared.pointee.lock.lockWord() }
    @inline(never)
    static func unlock() { shared.pointee.lock.unlockWord() }

    /// The port of a name and kind. The caller holds the lock.
    static func findLocked(_ name: MessagePortName, isRemote: Bool) -> MessagePortPointer? {
        guard
            let entry = UnsafePointer<MessagePortEntry>(
                bitPattern: shared.pointee.names.find(name.key(isRemote: isRemote), isKeyed: true)),
            let port = entry.pointee.port, port.isValid, strcmp(port.pointee.name!.bytes, name.bytes) == 0
        else { return nil }
        return port
    }

    static func insertLocked(_ port: MessagePortPointer) {
        shared.pointee.ports.insert(port)
        enterNameLocked(port)
    }

    @inline(never)
    static func enterNameLocked(_ port: MessagePortPointer) {
        guard let name = port.pointee.name else { return }
        port.pointee.entry = MessagePortEntry(key: name.key(isRemote: port.pointee.isRemote), port: port)
        _ = shared.pointee.names.remove(port.pointee.entry.key, isKeyed: true)
        shared.pointee.names.insert(word(port), isKeyed: true)
    }

    /// Nothing if it has none, or a newer port has it.
    @inline(never)
    static func leaveNameLocked(_ port: MessagePortPointer) {
        let key = port.pointee.entry.key
        if shared.pointee.names.find(key, isKeyed: true) == word(port) { _ = shared.pointee.names.remove(key, isKeyed: true) }
    }

    private static func word(_ port: MessagePortPointer) -> UInt {
        withUnsafeMutablePointer(to: &port.pointee.entry) { UInt(bitPattern: $0) }
    }

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
        shared.pointee.names.removeAll()
        shared.pointee.ports.forEach { port in
            port.pointee.lock.resetInChild()
            port.loseInChild()
        }
    }
}
