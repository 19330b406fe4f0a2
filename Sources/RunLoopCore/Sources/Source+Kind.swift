// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

extension Source {
    @inline(always)
    static func fill(_ kind: UnsafeMutablePointer<Kind>) {
        kind.pointee.name = "RLSource"
        kind.pointee.destroy = { Source.destroy($0.cast(to: Source.self)) }
        kind.pointee.describe = .init { $0.cast(to: Source.self).describe(&$1) }
        kind.pointee.isEqual = { $0.cast(to: Source.self).isEqual($1.cast(to: Source.self)) }
        kind.pointee.hash = { $0.cast(to: Source.self).hashOfInfo }
        kind.pointee.forkChild = { RunLoop.ofThread?.adoptUnfinishedSignals() }
    }
}

extension UnsafeMutablePointer where Pointee == Source {
    fileprivate func describe(_ text: inout TextBuffer) {
        text.append("version = ", isVersionOne ? 1 : 0)
        text.append(", order = ", pointee.order)
        text.append(", valid = ", isValid)
        text.append(", signalled = ", isFlagged)
        // That of an inbox is the library's own.
        if !isInbox { text.appendCallback(functions.perform) }
        let port = pointee.port.load(ordering: .relaxed)
        if port >= 0 { appendPort(port, to: &text) }
        text.appendInfo(pointee.info, functions.copyDescription)
        // The info of a port's or a descriptor's source is that object, to which a valid source has a reference.
        if isWatch || isInbox, functions.retain != nil, let name = ObjectPointer.copyName(at: pointee.info) {
            if isValid {
                text.append(" ")
                text.appendName(name)
            }
            CRunLoopLinux.free(name)
        }
    }

    private func appendPort(_ port: Int32, to text: inout TextBuffer) {
        text.append(", descriptor = ", Int(port))
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: 128) { target in
            guard rl_descriptor_target(port, target.baseAddress!, target.count) else { return }
            text.append(" (")
            text.appendPrintable(target.baseAddress!)
            text.append(")")
        }
    }
}
