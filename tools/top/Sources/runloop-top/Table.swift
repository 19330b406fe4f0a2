// SPDX-License-Identifier: MIT

/// The rows as text, for the screen and for `--once`.
enum Table {
    private static let columns: [(title: String, width: Int)] = [
        ("PROCESS", 8), ("LOAD%", 6), ("STATE", 8), ("PASS/S", 7), ("WAKE/S", 7), ("LATE99", 8), ("LONGEST", 8), ("QUEUE", 6),
    ]

    static var fixedWidth: Int { columns.reduce(0) { $0 + $1.width + 1 } }
    private static func nameWidth(_ width: Int) -> Int { min(max((width - fixedWidth) / 2, 12), 32) }

    static func header(width: Int) -> String {
        line(columns.map { $0.title }, name: "LOOP", rest: "", width: width)
    }

    static func row(_ row: LoopRow, width: Int) -> String {
        let cells = [
            String(row.process), percent(row.load), row.state, rate(row.passes), rate(row.wakeUps), time(row.lateness), time(row.longestCallOut),
            String(row.queued),
        ]
        let room = max(width - fixedWidth - nameWidth(width) - 1, 0)
        let rest = row.calls.first?.string ?? sparkline(Array(row.history.suffix(room)))
        return line(cells, name: row.name.string, rest: rest, width: width)
    }

    private static func line(_ cells: [String], name: String, rest: String, width: Int) -> String {
        var text = ""
        for (cell, column) in zip(cells, columns) { text += fit(cell, column.width, right: column.title != "STATE") + " " }
        return fit(text + fit(name, nameWidth(width)) + " " + rest, width)
    }

    static func itemHeader(width: Int) -> String { fit("    CALLS    TOTAL  LONGEST     LAST ITEM", width) }

    static func item(_ item: ItemRow, width: Int) -> String {
        let cells = [decimal(item.calls, 0), time(item.total), time(item.longest), time(item.last)]
        return fit(cells.map { fit($0, 8, right: true) + " " }.joined() + item.name.string, width)
    }

    static func summary(_ watch: Watch) -> String {
        let processes = Set(watch.rows.map { $0.process }).count
        var text = "\(watch.rows.count) loops of \(processes) processes"
        if watch.leftOut > 0 { text += ", \(watch.leftOut) left out" }
        if !watch.silent.isEmpty { text += ", no answer of " + watch.silent.map { String($0) }.joined(separator: " ") }
        return text
    }

    /// Everything, for `--once`.
    static func text(_ watch: Watch, _ rows: [LoopRow], width: Int) -> String {
        var lines = [summary(watch), header(width: width)]
        for row in rows {
            lines.append(self.row(row, width: width))
            for item in row.items { lines.append("    " + self.item(item, width: width - 4)) }
            if row.itemsLeftOut > 0 { lines.append("    and \(row.itemsLeftOut) more items") }
        }
        return lines.map { $0.trimmedEnd + "\n" }.joined()
    }

    /// One object of JSON for each loop: what the process said, with the rates.
    static func json(_ row: LoopRow) -> String {
        func number(_ value: Double?, _ digits: Int = 6) -> String {
            guard let value, value.isFinite else { return "null" }
            let text = decimal(value, digits)
            return text == "-" ? "\(value)" : text
        }
        let texts = [("name", row.name.string), ("loop", row.sample.loop.string), ("state", row.state)]
        let numbers = [
            ("load", row.load), ("passesPerSecond", row.passes), ("wakeUpsPerSecond", row.wakeUps), ("lateness99", row.lateness),
            ("longestCallOut", row.longestCallOut),
        ]
        let items = row.items.map {
            "{\"item\":\(JSON.quoted($0.name.string)),\"calls\":\(number($0.calls, 0)),\"total\":\(number($0.total, 9)),"
                + "\"longest\":\(number($0.longest, 9)),\"last\":\(number($0.last, 9))}"
        }
        return "{\"process\":\(row.process),\"thread\":\(row.sample.thread),"
            + texts.map { "\"\($0)\":\(JSON.quoted($1))," }.joined() + numbers.map { "\"\($0)\":\(number($1))," }.joined()
            + "\"queued\":\(row.queued),\"calls\":[\(row.calls.map { JSON.quoted($0.string) }.joined(separator: ","))],"
            + "\"items\":[\(items.joined(separator: ","))]}"
    }
}

extension String {
    var trimmedEnd: String {
        guard let last = utf8.lastIndex(where: { $0 != UInt8(ascii: " ") }) else { return "" }
        return String(decoding: utf8[...last], as: UTF8.self)
    }
}
