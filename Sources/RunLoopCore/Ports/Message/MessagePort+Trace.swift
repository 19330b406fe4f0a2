// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Messages in a trace (S-TRC-8).
extension UnsafeMutablePointer where Pointee == MessagePort {
    /// Records a message that is about to be sent, or that came on a connection. Both sides compute the same number from what they know
    /// of it: the port's name, the sender's process, and what the header says. No lock is held.
    @inline(never)
    func tellTrace(_ kind: TraceKind, _ header: WireHeader, token: UInt64?) {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: WireHeader.nameLimit + 1) { buffer in
            let name = buffer.baseAddress!
            name[0] = 0
            var sender = token == nil ? getpid() : 0
            lock()
            if let own = pointee.name { strlcpy(name, own.bytes, buffer.count) }
            if let token, let place = placeLocked(token: token) { sender = pointee.local.connections![place].process }
            unlock()
            var flow = digest(UnsafeRawPointer(name).assumingMemoryBound(to: UInt8.self), count: strlen(name))
            func mix(_ number: UInt64) { flow = (flow ^ UInt(number)) &* 0x100_0000_01b3 }
            mix(UInt64(UInt32(bitPattern: sender)))
            mix(UInt64(header.id))
            mix(UInt64(UInt32(bitPattern: header.number)))
            mix(header.length)
            let generation = Trace.shared.pointee.generation.load(ordering: .relaxed)
            if Trace.isOn && pointee.traceGeneration.exchange(generation, ordering: .relaxed) != generation {
                Trace.name(.port, UInt(bitPattern: self), name, 0, 0)
            }
            Trace.tell(
                kind, RunLoop.ofThread, item: UInt(bitPattern: self), info: flow,
                extra: UInt64(UInt32(truncatingIfNeeded: header.length)) | UInt64(UInt32(bitPattern: header.number)) << 32)
        }
    }
}
