// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The child of `fork` does not have the parent's ports. It closes its numbers and nothing more: it neither removes files nor
/// shuts connections down, because these are the parent's.
extension UnsafeMutablePointer where Pointee == MessagePort {
    /// In the child, where the forking thread is the only one; its locks are made anew, and no client code is called.
    func loseInChild() {
        if isValid { pointee.state.bitwiseOr(MessagePortState.keepsContext, ordering: .relaxed) }
        pointee.state.bitwiseOr(MessagePortState.invalid | MessagePortState.lostInFork, ordering: .relaxed)
        if pointee.isRemote { loseConnection() } else { loseName() }
        // No loop of the child may wait for a number that soon names another file.
        endSources()
        if hasConnectionLocked { rl_sys_close(pointee.remote.connection) }
        pointee.remote.connection = -1
        dropTransfersLocked()
        closeSetLocked()
        loseDispatchQueue()
    }

    private func loseConnection() {
        // Threads that used the connection do not exist here; the forking one is in a run, if it waits for a reply.
        pointee.remote.users = 0
        var waiter = pointee.remote.waiters
        pointee.remote.waiters = nil
        while let current = waiter {
            waiter = current.pointee.next
            guard current.pointee.loop.isCurrent else { continue }
            current.pointee.next = pointee.remote.waiters
            pointee.remote.waiters = current
            if current.pointee.state == .waiting { current.pointee.state = .invalid }
            current.pointee.arrival.signal(on: current.pointee.loop)
        }
        loseBegunRequests()
    }

    /// In the child no Invalidate makes the port invalid. The first one there, or the end of the object, releases the context (S-MSG-53).
    func releaseLostContext() {
        let old = pointee.state.bitwiseAnd(~MessagePortState.keepsContext, ordering: .acquiringAndReleasing).oldValue
        if old & MessagePortState.keepsContext != 0 { endHoldOfContext() }
    }

    private func loseName() {
        pointee.local.contextUsers = usersOnStack
        forgetLostSetLocked()
        pointee.local.claim.forget()
        for place in 0..<pointee.local.connectionCapacity where pointee.local.connections![place].descriptor >= 0 {
            let connection = pointee.local.connections![place]
            if rl_is_socket(connection.descriptor, connection.cookie) { rl_sys_close(connection.descriptor) }
            forgetRepliesLocked(place)
            dropTransfersLocked(of: place)
            pointee.local.connections![place] = MessageConnection()
        }
        pointee.local.connectionCount = 0
    }
}
