// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

// The functions of <runloop/insight.h>.

@c @implementation
public func RLSetName(_ obj: UnsafeRawPointer?, _ name: UnsafePointer<CChar>?) {
    anyObject(obj, "RLSetName")?.setName(name)
}

@c @implementation
public func RLCopyName(_ obj: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? {
    guard let object = anyObject(obj, "RLCopyName") else { return nil }
    if let name = object.copyName() { return name }
    guard object.pointee.type.load(ordering: .relaxed) == ObjectType.thread.rawValue else { return nil }
    return RLThreadGetName(OpaquePointer(object)).flatMap { strdup($0) }
}

@c @implementation
public func RLCopyItems(
    _ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?, _ kinds: RLItemKinds, _ count: UnsafeMutablePointer<Int>?
) -> UnsafeMutablePointer<UnsafeRawPointer?>? {
    count?.pointee = 0
    guard let loop = object(rl, as: RunLoop.self, "RLCopyItems") else { return nil }
    let list = loop.copyItems(ModeName(mode), kinds.rawValue)
    count?.pointee = list.count
    return UnsafeMutableRawPointer(list.items).assumingMemoryBound(to: UnsafeRawPointer?.self)
}

@c @implementation
public func RLDump(_ rl: OpaquePointer?, _ fd: Int32) -> Bool {
    RunLoop.dump(object(rl, as: RunLoop.self, "RLDump"), fd)
}

@c @implementation
public func RLGetStatistics(_ rl: OpaquePointer?, _ statistics: UnsafeMutablePointer<RLStatistics>?) -> Bool {
    guard let loop = object(rl, as: RunLoop.self, "RLGetStatistics"), let statistics, statistics.pointee.version == 0 else { return false }
    loop.readCounters(statistics)
    loop.readAccounting(statistics)
    return true
}

@c @implementation
public func RLSetAccounting(_ rl: OpaquePointer?, _ isOn: Bool) {
    object(rl, as: RunLoop.self, "RLSetAccounting")?.setAccounting(isOn)
}

@c @implementation
public func RLIsAccounting(_ rl: OpaquePointer?) -> Bool {
    object(rl, as: RunLoop.self, "RLIsAccounting")?.isAccounting ?? false
}

@c @implementation
public func RLGetItemStatistics(
    _ rl: OpaquePointer?, _ item: UnsafeRawPointer?, _ statistics: UnsafeMutablePointer<RLItemStatistics>?
) -> Bool {
    guard let loop = object(rl, as: RunLoop.self, "RLGetItemStatistics"), let item = anyObject(item, "RLGetItemStatistics"),
        let statistics, statistics.pointee.version == 0, let account = loop.account(of: item)
    else { return false }
    statistics.pointee.calls = account.calls
    statistics.pointee.total = Double(Int64(truncatingIfNeeded: account.total)) / 1e9
    statistics.pointee.longest = Double(Int64(truncatingIfNeeded: account.longest)) / 1e9
    statistics.pointee.last = Double(Int64(truncatingIfNeeded: account.last)) / 1e9
    return true
}

@c @implementation
public func RLGetHistogram(
    _ rl: OpaquePointer?, _ histogram: RLHistogram, _ buckets: UnsafeMutablePointer<RLHistogramBucket>?, _ capacity: Int
) -> Int {
    guard let loop = object(rl, as: RunLoop.self, "RLGetHistogram"), let kind = HistogramKind(rawValue: histogram.rawValue) else { return 0 }
    return loop.readHistogram(kind, buckets, capacity)
}

@c @implementation
public func RLGetQuantile(_ rl: OpaquePointer?, _ histogram: RLHistogram, _ fraction: Double) -> Double {
    guard let loop = object(rl, as: RunLoop.self, "RLGetQuantile"), let kind = HistogramKind(rawValue: histogram.rawValue) else { return 0 }
    return loop.quantile(kind, fraction)
}
