// SPDX-License-Identifier: MIT
import Synchronization

/// What a call-out calls, as recorded in a trace.
enum CallOutKind: UInt8 {
    case source = 1
    case portSource = 2
    case watch = 3
    case timer = 4
    case observer = 5
    case function = 6
    case mainQueue = 8

    /// The value of `RLCalloutKind`.
    var number: Int32 {
        switch self {
        case .source, .portSource, .watch: 1
        case .timer: 2
        case .observer: 3
        case .function: 4
        case .mainQueue: 5
        }
    }

    /// The kind of a call-out, and the client's function; nil where the function of a source is the library's own. `item` is nil for a function,
    /// and both are nil for the main queue.
    @inline(never)
    static func of(_ item: ObjectPointer?, _ function: UnsafeRawPointer?) -> (kind: CallOutKind, function: UnsafeRawPointer?) {
        guard let item else { return (function == nil ? .mainQueue : .function, function) }
        let record = UnsafeMutableRawPointer(item)
        switch item.pointee.type.load(ordering: .relaxed) {
        case ObjectType.timer.rawValue:
            return (.timer, record.assumingMemoryBound(to: Timer.self).clientFunction)
        case ObjectType.observer.rawValue:
            return (.observer, unsafeBitCast(record.assumingMemoryBound(to: Observer.self).pointee.callout, to: UnsafeRawPointer?.self))
        default:
            let source = record.assumingMemoryBound(to: Source.self)
            if source.isWatch { return (.watch, nil) }
            let perform = source.isInbox ? nil : unsafeBitCast(source.functions.perform, to: UnsafeRawPointer?.self)
            return (source.isVersionOne ? .portSource : .source, perform)
        }
    }
}
