// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// The library's own function for a watch or an inbox. Called with the source's info and, for a watch, the `Readiness` bits; true: it counts
/// as a handled source.
typealias WatchHandler = @convention(c) (_ info: UnsafeMutableRawPointer?, _ ready: UInt32) -> Bool

/// The functions of a source's context. `schedule`, `cancel` serve version 0 and watches, `getPort` version 1, `watch` watches and inboxes.
struct SourceFunctions {
    var retain: RetainFunction?
    var release: ReleaseFunction?
    var copyDescription: DescribeFunction?
    var equal: EqualFunction?
    var hash: HashFunction?
    var schedule: ScheduleFunction?
    var cancel: ScheduleFunction?
    var getPort: GetPortFunction?
    var perform: PerformFunction?
    var watch: WatchHandler?
    /// After the source became invalid and left its loops; for sources of the library's own.
    var invalidated: PerformFunction?
    /// After a callback that ended its thread in the middle of a perform, or of a watch's handler; for sources of the library's
    /// own.
    var abandoned: PerformFunction?
}

extension UnsafePointer where Pointee == SourceFunctions {
    /// A number made of the addresses of the functions in which sets differ most.
    fileprivate var digest: UInt {
        func word<Function>(_ function: Function?) -> UInt { unsafeBitCast(function, to: UInt.self) }
        let life = word(pointee.release) ^ (word(pointee.schedule) << 1)
        let work = word(pointee.perform) ^ (word(pointee.getPort) << 1) ^ (word(pointee.watch) << 2)
        return (life &* 0x9e37_79b9_7f4a_7c15 ^ work) &* 0x9e37_79b9_7f4a_7c15
    }

    fileprivate func isSame(as other: Self) -> Bool { memcmp(self, other, MemoryLayout<SourceFunctions>.size) == 0 }
}

/// A set of functions shared by the sources that were created with it: a program has few sets and many sources, and nine
/// pointers in each would double a source's size.
struct Callbacks {
    /// The first field: the set's address is also that of the functions.
    var functions: SourceFunctions
    /// How many sources use it. Guarded by the registry's lock.
    var users: Int
    /// The next in its bucket. Guarded by the registry's lock.
    var next: CallbacksPointer?
}

typealias CallbacksPointer = UnsafeMutablePointer<Callbacks>

/// The table of all `Callbacks`, in buckets by digest. The registry's lock guards it. The zero value is empty.
struct CallbackTable {
    var buckets: UnsafeMutablePointer<CallbacksPointer?>?
    /// The last set that lost its last user; it stays, for the next source with it. No other set is without a user.
    var spare: CallbacksPointer?

    static var bucketCount: Int { 256 }

    @inline(always)
    func bucket(of functions: UnsafePointer<SourceFunctions>) -> UnsafeMutablePointer<CallbacksPointer?> {
        buckets! + Int(functions.digest >> 56)
    }
}

extension Callbacks {
    private static var table: UnsafeMutablePointer<CallbackTable> { rl_callbacks().assumingMemoryBound(to: CallbackTable.self) }

    /// The shared set of these functions, with one more user.
    @inline(always)
    static func shared(_ functions: SourceFunctions) -> CallbacksPointer {
        withUnsafePointer(to: functions) { shared($0) }
    }

    private static func shared(_ functions: UnsafePointer<SourceFunctions>) -> CallbacksPointer {
        process.pointee.registryLock.lockWordHere()
        defer { process.pointee.registryLock.unlockWordHere() }
        if table.pointee.buckets == nil {
            table.pointee.buckets = makeArray(CallbacksPointer?.self, count: CallbackTable.bucketCount)
        }
        let bucket = table.pointee.bucket(of: functions)
        var candidate = bucket.pointee
        while let current = candidate {
            if current.functions.isSame(as: functions) {
                current.pointee.users += 1
                return current
            }
            candidate = current.pointee.next
        }
        let made = makeRecord(Callbacks.self)
        made.initialize(to: Callbacks(functions: functions.pointee, users: 1, next: bucket.pointee))
        bucket.pointee = made
        return made
    }

    static func release(_ callbacks: CallbacksPointer) {
        process.pointee.registryLock.lockWordHere()
        defer { process.pointee.registryLock.unlockWordHere() }
        callbacks.pointee.users -= 1
        guard callbacks.pointee.users == 0 else { return }
        let unused = table.pointee.spare
        table.pointee.spare = callbacks
        guard let unused, unused != callbacks, unused.pointee.users == 0 else { return }
        var place = table.pointee.bucket(of: unused.functions)
        while let current = place.pointee, current != unused {
            place = withUnsafeMutablePointer(to: &current.pointee.next) { $0 }
        }
        place.pointee = unused.pointee.next
        CRunLoopLinux.free(unused)
    }
}

extension CallbacksPointer {
    fileprivate var functions: UnsafePointer<SourceFunctions> {
        UnsafePointer(UnsafeRawPointer(self).assumingMemoryBound(to: SourceFunctions.self))
    }
}
