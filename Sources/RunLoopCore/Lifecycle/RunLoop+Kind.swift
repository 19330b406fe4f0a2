// SPDX-License-Identifier: MIT
import Synchronization

extension RunLoop {
    static var kind: Kind {
        Kind(
            name: "RLRunLoop", destroy: { $0.cast(to: RunLoop.self).destroy() }, describe: .init { $0.cast(to: RunLoop.self).describe(&$1) },
            retain: { $0.cast(to: RunLoop.self).retainByClient() }, release: { $0.cast(to: RunLoop.self).releaseByClient() },
            forkPrepare: { RunLoop.prepareFork() }, forkParent: { RunLoop.forkedParent() }, forkChild: { RunLoop.forkedChild() })
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
