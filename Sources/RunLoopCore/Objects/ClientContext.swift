// SPDX-License-Identifier: MIT
import Synchronization

/// The client's pointer and the functions that manage it, as timers and observers store them.
struct ClientContext {
    var info: UnsafeMutableRawPointer?
    var retain: RetainFunction?
    var release: ReleaseFunction?
    var copyDescription: DescribeFunction?

    /// Retains the info, once, at creation; the value that `retain` returns becomes the info.
    mutating func adopt() {
        if let retain { info = UnsafeMutableRawPointer(mutating: callOutRetain(retain, info)) }
    }

    func releaseInfo() {
        if let release { callOutRelease(release, info) }
    }

    /// What the client gave, which an info of librunloop-cf begins with.
    var infoOfClient: UnsafeMutableRawPointer? {
        guard let release, let info, unsafeBitCast(release, to: UInt.self) == process.pointee.releaseOfBoxes.load(ordering: .relaxed) else { return info }
        return info.load(as: UnsafeMutableRawPointer?.self)
    }
}

extension ClientContext {
    /// The functions in the table that all items share; nil if there are none.
    func sharedFunctions() -> CallbacksPointer? {
        if retain == nil && release == nil && copyDescription == nil { return nil }
        return Callbacks.shared(SourceFunctions(retain: retain, release: release, copyDescription: copyDescription))
    }

    init(info: UnsafeMutableRawPointer?, sharedFunctions: CallbacksPointer?) {
        let functions = sharedFunctions?.pointee.functions
        self.init(
            info: info, retain: functions?.retain, release: functions?.release, copyDescription: functions?.copyDescription)
    }
}

extension UnsafeMutablePointer where Pointee: ~Copyable {
    /// A context whose info is a record of the library.
    init(info: UnsafeRawPointer?) {
        self = UnsafeMutableRawPointer(mutating: info.unsafelyUnwrapped).assumingMemoryBound(to: Pointee.self)
    }
}
