// SPDX-License-Identifier: MIT
import CRunLoopLinux

extension TimerNode {
    /// nil when the node is free.
    var mode: ModePointer? {
        @inline(always) get { ModePointer(bitPattern: modeAddress) }
        @inline(always) set { modeAddress = UInt(bitPattern: newValue) }
    }
}

/// The nodes of a timer: one for each mode it is in.
extension UnsafeMutablePointer where Pointee == Timer {
    /// The node for a mode, nil if the timer is not in it. The owner's lock is held.
    @inline(always)
    func node(in mode: ModePointer) -> TimerNodePointer? {
        if UInt(bitPattern: firstNode.pointee.mode) == UInt(bitPattern: mode) { return firstNode }
        // A look at the memory behind, avoided if possible.
        return pointee.memberships & ~1 == 0 ? nil : furtherNode(in: mode)
    }

    @inline(never)
    private func furtherNode(in mode: ModePointer) -> TimerNodePointer? {
        guard let rare = details.pointee.rare else { return nil }
        return TimerNodePointer(bitPattern: rare.pointee.moreNodes.find(UInt(bitPattern: mode), isKeyed: true))
    }

    /// A free node, made if need be. The owner's lock is held.
    @inline(always)
    func makeNode(for mode: ModePointer) -> TimerNodePointer {
        if firstNode.pointee.mode == nil {
            firstNode.pointee.mode = mode
            return firstNode
        }
        return makeFurtherNode(for: mode)
    }

    @inline(never)
    private func makeFurtherNode(for mode: ModePointer) -> TimerNodePointer {
        let rare = makeRarities()
        let node = makeRecord(FurtherNode.self)
        node.initialize(to: FurtherNode(node: TimerNode(), timer: self))
        let made = UnsafeMutableRawPointer(node).assumingMemoryBound(to: TimerNode.self)
        made.pointee.mode = mode
        made.pointee.isFurther = true
        rare.pointee.moreNodes.insert(UInt(bitPattern: made), isKeyed: true)
        return made
    }

    /// Gives back a node that is in no store. The owner's lock is held.
    @inline(always)
    func freeNode(_ node: TimerNodePointer) {
        if node == firstNode { node.pointee.mode = nil } else { freeFurtherNode(node) }
    }

    @inline(never)
    private func freeFurtherNode(_ node: TimerNodePointer) {
        _ = details.pointee.rare!.pointee.moreNodes.remove(UInt(bitPattern: node.pointee.mode), isKeyed: true)
        CRunLoopLinux.free(node)
    }

    /// Calls the body with each node that is in a mode. The body may not add or free nodes.
    @inline(always)
    func forEachNode(_ body: (TimerNodePointer) -> Void) {
        let isFirstIn = firstNode.pointee.mode != nil
        if isFirstIn { body(firstNode) }
        if isFirstIn && pointee.isInOneMode { return }
        forEachFurtherNode(body)
    }

    @inline(always)
    private func forEachFurtherNode(_ body: (TimerNodePointer) -> Void) {
        details.pointee.rare?.pointee.moreNodes.forEach { body(TimerNodePointer(bitPattern: $0)!) }
    }

    /// Gives back all nodes, which are in no store. The owner's lock is held.
    func freeAllNodes() {
        if firstNode.pointee.mode != nil { freeNode(firstNode) }
        while let node = anyFurtherNode { freeNode(node) }
        details.pointee.rare?.pointee.tombstoneCount = 0
        pointee.modeCount = 0
        pointee.hasTombstones = false
    }
}
