// SPDX-License-Identifier: MIT

/// What one answer says of one loop.
struct LoopSample {
    let values: JSON

    func number(_ name: String) -> Double { values[name]?.number ?? 0 }
    var thread: Int { values["thread"]?.int ?? 0 }
    var loop: String { values["loop"]?.string ?? "" }
    var isAsleep: Bool { values["asleep"]?.isTrue ?? false }
    var isMeasured: Bool { values["measured"]?.isTrue ?? false }
    /// How long it has been measured.
    var measured: Double { number("accountedTime") }
    /// Slept since measuring began, the sleep under way with it.
    var slept: Double { number("asleepTime") }
}

/// An item whose call-outs were measured.
struct ItemRow {
    let name: String
    let calls: Double
    let total: Double
    let longest: Double
    let last: Double

    init(_ values: JSON) {
        let what = values["what"]?.string ?? ""
        name = ItemRow.title(what, values["name"]?.string)
        calls = values["calls"]?.number ?? 0
        total = values["total"]?.number ?? 0
        longest = values["longest"]?.number ?? 0
        last = values["last"]?.number ?? 0
    }

    /// The kind, and the name or else the callback: what is worth a line of what the item says of itself.
    static func title(_ what: String, _ name: String?) -> String {
        let kind = what.hasPrefix("<RL") ? what.dropFirst(3).prefix { $0 != " " && $0 != ">" } : ""
        if let name { return printable("\(kind) \(name)") }
        for label in ["name = \"", "callback = "] {
            guard let found = what.firstRange(of: label) else { continue }
            let end: Character = label.last == "\"" ? "\"" : ","
            return printable("\(kind) \(what[found.upperBound...].prefix { $0 != end && $0 != "}" })")
        }
        return printable(what)
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
    let calls: [String]

    init(process: Int, sample: LoopSample, before: LoopRow?) {
        self.process = process
        self.sample = sample
        items = (sample.values["items"]?.array ?? []).map { ItemRow($0) }
        calls = (sample.values["inCall"]?.array ?? []).compactMap { $0.string }.map { ItemRow.title($0, nil) }
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
    var key: String { "\(process) \(sample.loop) \(sample.thread)" }

    var name: String { printable(sample.values["name"]?.string ?? sample.values["threadName"]?.string ?? sample.loop) }
    var queued: Int { Int(min(max(sample.number("queuedPosts") + sample.number("queuedRequests"), 0), 1e9)) }
    var lateness: Double? { quantile("lateness") }
    var longestCallOut: Double? { sample.isMeasured ? sample.number("longestCallOut") : nil }

    /// What 99 of 100 are not longer than.
    private func quantile(_ name: String) -> Double? {
        guard sample.isMeasured, let values = sample.values[name]?.array, values.count > 1 else { return nil }
        return values[1].number
    }

    var state: String {
        if !calls.isEmpty { return "in call" }
        if sample.isAsleep { return "asleep" }
        return sample.values["mode"] == nil ? "not run" : "running"
    }

    func matches(_ filter: String) -> Bool {
        filter.isEmpty || "\(process) \(name) \(state)".lowercased().contains(filter.lowercased())
    }
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
