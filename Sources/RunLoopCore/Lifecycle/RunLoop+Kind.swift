// SPDX-License-Identifier: MIT
import Synchronization

extension RunLoop {
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLRunLoop"
        kind.pointee.destroy = { $0.cast(to: RunLoop.self).destroy() }
        kind.pointee.describe = .init { $0.cast(to: RunLoop.self).describe(&$1) }
        kind.pointee.retain = { $0.cast(to: RunLoop.self).retainByClient() }
        kind.pointee.release = { $0.cast(to: RunLoop.self).releaseByClient() }
        kind.pointee.forkPrepare = { RunLoop.prepareFork() }
        kind.pointee.forkParent = { RunLoop.forkedParent() }
        kind.pointee.forkChild = { RunLoop.forkedChild() }
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Clients' references are counted separately: a client must not release the thread's own (S-LOOP-15).
    fileprivate func retainByClient() {
        pointee.clientReferences.wrappingAdd(1, ordering: .relaxed)
        retain()
    }

    fileprivate func releaseByClient() {
        if pointee.clientReferences.wrappingSubtract(1, ordering: .relaxed).newValue < 0 {
            trap("RLRelease", "a run loop was released more often than it was retained")
        }
        release()
    }
}
