// SPDX-License-Identifier: MIT

/// What one answer says of one loop.
struct LoopSample {
    let values: JSON

    func number(_ name: String) -> Double { values[name]?.number ?? 0 }
    var thread: Int { values["thread"]?.int ?? 0 }
    var loop: ForeignText { values["loop"]?.string ?? ForeignText(bytes: []) }
    var isAsleep: Bool { values["asleep"]?.isTrue ?? false }
    var isMeasured: Bool { values["measured"]?.isTrue ?? false }
    /// How long it has been measured.
    var measured: Double { number("accountedTime") }
    /// Slept since measuring began, the sleep under way with it.
    var slept: Double { number("asleepTime") }
}

/// An item whose call-outs were measured.
struct ItemRow {
    let name: ForeignText
    let calls: Double
    let total: Double
    let longest: Double
    let last: Double

    init(_ values: JSON) {
        name = ItemRow.title(values["what"]?.string?.bytes ?? [], values["name"]?.string?.bytes)
        calls = values["calls"]?.number ?? 0
        total = values["total"]?.number ?? 0
        longest = values["longest"]?.number ?? 0
        last = values["last"]?.number ?? 0
    }

    /// The kind, and the name or else the callback: what is worth a line of what the item says of itself.
    static func title(_ what: [UInt8], _ name: [UInt8]?) -> ForeignText {
        let isObject = what.starts(with: "<RL".utf8)
        let kind = isObject ? what.dropFirst(3).prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: ">") } : []
        func title(_ name: some Collection<UInt8>) -> ForeignText { (kind + [UInt8(ascii: " ")] + name).printable() }
        if let name { return title(name) }
        for (label, end) in [("name = \"", UInt8(ascii: "\"")), ("callback = ", UInt8(ascii: ","))] {
            guard let place = what.firstPlace(of: label.utf8) else { continue }
            return title(what[(place + label.utf8.count)...].prefix { $0 != end && $0 != UInt8(ascii: "}") })
        }
        return what.printable()
    }
}

/// A loop as it is shown: the latest sample, and what happened since the one before.
struct LoopRow {
    let process: Int
    let sample: LoopSample
    /// The part of the time in which it did not sleep; nil before the second sample.
    let load: Double?
    let passes: Double?
    let wakeUps: Double?
    /// The latest loads, the newest last.
    let history: [Double]
    let items: [ItemRow]
    /// Those of the answer that are not among them.
    let itemsLeftOut: Int
    let calls: [ForeignText]
    let name: ForeignText
    /// The process, name and state in small letters.
    private let searched: [UInt8]
    /// The library tells of 8 items, and as many calls.
    private static var mostItems: Int { 16 }

    init(process: Int, sample: LoopSample, before: LoopRow?) {
        self.process = process
        self.sample = sample
        let told = sample.values["items"]?.array ?? []
        items = told.prefix(LoopRow.mostItems).map { ItemRow($0) }
        itemsLeftOut = told.count - items.count
        calls = (sample.values["inCall"]?.array ?? []).prefix(LoopRow.mostItems).compactMap { $0.string }.map { ItemRow.title($0.bytes, nil) }
        name = (sample.values["name"]?.string ?? sample.values["threadName"]?.string ?? sample.loop).bytes.printable()
        state = LoopRow.state(sample, isCalling: !calls.isEmpty)
        searched = LoopRow.small("\(process) \(name.string) \(state)")
        // By the loop's own time: what one answer says of many loops is seconds apart, not always the same.
        guard let before, before.sample.isMeasured, sample.isMeasured, case let seconds = sample.measured - before.sample.measured, seconds > 0
        else {
            (load, passes, wakeUps, history) = (nil, nil, nil, before?.history ?? [])
            return
        }
        func rate(_ name: String) -> Double { max(sample.number(name) - before.sample.number(name), 0) / seconds }
        passes = rate("passes")
        wakeUps = rate("wakeUps")
        let load = LoopRow.load(before.sample, sample, seconds)
        self.load = load
        history = Array((before.history + [load]).suffix(60))
    }

    private static func load(_ before: LoopSample, _ sample: LoopSample, _ seconds: Double) -> Double {
        // Not running: nothing is slept, and nothing is done but by nobody's run.
        if sample.values["mode"] == nil && before.values["mode"] == nil && before.number("passes") == sample.number("passes") { return 0 }
        return min(max(1 - (sample.slept - before.slept) / seconds, 0), 1)
    }

    /// What identifies the loop among all.
    struct Key: Hashable, Comparable {
        let process: Int
        let loop: ForeignText
        let thread: Int

        init(_ process: Int, _ sample: LoopSample) {
            self.process = process
            loop = sample.loop
            thread = sample.thread
        }

        static func < (one: Key, other: Key) -> Bool { (one.process, one.loop, one.thread) < (other.process, other.loop, other.thread) }
    }
    var key: Key { Key(process, sample) }

    var queued: Int { Int(min(max(sample.number("queuedPosts") + sample.number("queuedRequests"), 0), 1e9)) }
    var lateness: Double? { quantile("lateness") }
    var longestCallOut: Double? { sample.isMeasured ? sample.number("longestCallOut") : nil }

    /// What 99 of 100 are not longer than.
    private func quantile(_ name: String) -> Double? {
        guard sample.isMeasured, let values = sample.values[name]?.array, values.count > 1 else { return nil }
        return values[1].number
    }

    let state: String

    private static func state(_ sample: LoopSample, isCalling: Bool) -> String {
        if isCalling { return "in call" }
        if sample.isAsleep { return "asleep" }
        return sample.values["mode"] == nil ? "not run" : "running"
    }

    private static func small(_ text: String) -> [UInt8] { Array(text.lowercased().utf8) }

    func matches(_ filter: String) -> Bool { filter.isEmpty || searched.firstPlace(of: LoopRow.small(filter)) != nil }
}

/// What the rows are sorted by.
enum Order: String, CaseIterable, Sendable {
    case load, passes, wakeups, lateness, queue, longest, name, process

    func comesFirst(_ one: LoopRow, _ other: LoopRow) -> Bool {
        func number(_ row: LoopRow) -> Double {
            switch self {
            case .load: row.load ?? -1
            case .passes: row.passes ?? -1
            case .wakeups: row.wakeUps ?? -1
            case .lateness: row.lateness ?? -1
            case .queue: Double(row.queued)
            case .longest: row.longestCallOut ?? -1
            case .name: 0
            case .process: -Double(row.process)
            }
        }
        if self == .name && one.name != other.name { return one.name < other.name }
        let (left, right) = (number(one), number(other))
        return left != right ? left > right : one.key < other.key
    }

    var next: Order {
        let all = Order.allCases
        return all[(all.firstIndex(of: self)! + 1) % all.count]
    }
}
