// SPDX-License-Identifier: MIT
import CTerminal

/// The terminal view: the loops, and below them the items of the one that is selected; or the dump of one.
struct Screen {
    private var watch: Watch
    private let interval: Double
    private var order: Order
    private var filter: String
    private var isTyping = false
    private var isPaused = false
    private var selected: LoopRow.Key?
    private var top = 0
    /// The lines of a dump that is shown.
    private var dump: [String]?
    private static var mostDumpLines: Int { 100_000 }
    private var dumpTop = 0
    /// The processes whose traces are on.
    private var traced: [Int] = []
    /// What the last line says until the next key.
    private(set) var message: String?

    init(watch: Watch, interval: Double, order: Order, filter: String) {
        self.watch = watch
        self.interval = interval
        self.order = order
        self.filter = filter
    }

    private var rows: [LoopRow] { watch.rows.filter { $0.matches(filter) }.sorted { order.comesFirst($0, $1) } }

    /// Until the user has enough.
    mutating func run() {
        var next = now()
        while true {
            if now() >= next {
                if !isPaused { watch.look() }
                for process in traced where !watch.reaches(process) {
                    traced.removeAll { $0 == process }
                    message = "the trace of \(process) is lost: the process does not answer"
                }
                next = now() + interval
            }
            draw()
            let key = Int(terminal_key(Int32(max((next - now()) * 1000, 0)) + 1))
            if key != Int(TERMINAL_NONE.rawValue) && !handle(key) { break }
        }
    }

    /// Ends the traces that are on, and says where they are.
    mutating func end() -> [String] {
        traced.map {
            stopTrace($0)
            return message!
        }
    }

    private mutating func toggleTrace() {
        guard let process = rows.first(where: { $0.key == selected })?.process else { return }
        if traced.contains(process) {
            traced.removeAll { $0 == process }
            stopTrace(process)
        } else if watch.startTrace(process) {
            traced.append(process)
            message = "the trace of \(process) is on; t stops it"
        } else {
            message = "\(process) starts no trace: one is on already, or it does not answer"
        }
    }

    private mutating func stopTrace(_ process: Int) {
        guard let bytes = watch.stopTrace(process) else { return message = "the trace of \(process) is lost: the process does not answer" }
        let (name, problem) = TraceFile.write(bytes, of: process)
        message = "the trace of \(process)" + (problem.map { " is lost: \(name.isEmpty ? "" : name + ": ")\($0)" } ?? ": \(name)")
    }

    private func at(_ row: Int, _ text: String, _ style: terminal_style = TERMINAL_PLAIN) {
        terminal_put(Int32(row), 0, Int32(style.rawValue), fit(text, Int(terminal_columns())))
    }

    private mutating func draw() {
        let height = Int(terminal_rows())
        let width = Int(terminal_columns())
        terminal_clear()
        if height < 5 || width < 40 {
            at(0, "The terminal is too small.")
        } else if dump != nil {
            drawDump(height)
        } else {
            drawLoops(height, width)
        }
        terminal_show()
    }

    private mutating func drawLoops(_ height: Int, _ width: Int) {
        let rows = rows
        if !rows.contains(where: { $0.key == selected }) { selected = rows.first?.key }
        let place = rows.firstIndex { $0.key == selected } ?? 0
        let items = rows.isEmpty ? [] : rows[place].items
        // Title, header, item header and the last line.
        let itemRoom = height >= 10 ? min(items.count, (height - 4) / 2) : 0
        let room = height - 3 - (itemRoom > 0 ? itemRoom + 1 : 0)
        top = min(max(min(top, place), place - room + 1), max(rows.count - room, 0))
        at(0, "runloop-top  " + Table.summary(watch) + (isPaused ? "  paused" : ""), TERMINAL_BOLD)
        at(1, Table.header(width: width), TERMINAL_REVERSE)
        for (line, row) in rows[top..<min(top + room, rows.count)].enumerated() {
            at(2 + line, Table.row(row, width: width), row.key == selected ? TERMINAL_BOLD : TERMINAL_PLAIN)
        }
        if rows.isEmpty { at(2, filter.isEmpty ? "No process shows its loops: RUNLOOP_SHARE=1, or RLSetShared(true)." : "No loop matches.") }
        if itemRoom > 0 {
            at(height - itemRoom - 2, Table.itemHeader(width: width), TERMINAL_REVERSE)
            for (line, item) in items.prefix(itemRoom).enumerated() { at(height - itemRoom - 1 + line, Table.item(item, width: width)) }
        }
        if let message, !isTyping {
            at(height - 1, message, TERMINAL_BOLD)
        } else if isTyping {
            at(height - 1, "Filter: \(filter.utf8.printable().string)_")
        } else {
            let shown = filter.isEmpty ? "" : " [\(filter.utf8.printable().string)]"
            at(height - 1, "q quit  s sort (\(order.rawValue))  / filter\(shown)  d dump  t trace  space pause", TERMINAL_DIM)
        }
    }

    private mutating func drawDump(_ height: Int) {
        let lines = dump ?? []
        dumpTop = min(max(dumpTop, 0), max(lines.count - (height - 1), 0))
        for (line, text) in lines.dropFirst(dumpTop).prefix(height - 1).enumerated() { at(line, text) }
        at(height - 1, "q back  \(min(dumpTop + height - 1, lines.count)) of \(lines.count) lines", TERMINAL_DIM)
    }

    /// False at the end.
    private mutating func handle(_ key: Int) -> Bool {
        let kind = terminal_key(rawValue: Int32(truncatingIfNeeded: key))
        if kind == TERMINAL_GONE { return false }
        if kind != TERMINAL_RESIZED { message = nil }
        if isTyping {
            type(key, kind)
        } else if dump != nil {
            scroll(key, kind)
        } else {
            switch key {
            case Int(UInt8(ascii: "q")): return false
            case Int(UInt8(ascii: "s")): order = order.next
            case Int(UInt8(ascii: "/")): isTyping = true
            case Int(UInt8(ascii: " ")): isPaused.toggle()
            case Int(UInt8(ascii: "d")): showDump()
            case Int(UInt8(ascii: "t")): toggleTrace()
            default:
                switch kind {
                case TERMINAL_ENTER: showDump()
                case TERMINAL_UP: select(-1)
                case TERMINAL_DOWN: select(1)
                case TERMINAL_PAGE_UP: select(-10)
                case TERMINAL_PAGE_DOWN: select(10)
                default: break
                }
            }
        }
        return true
    }

    private mutating func type(_ key: Int, _ kind: terminal_key) {
        switch kind {
        case TERMINAL_ENTER: isTyping = false
        case TERMINAL_ESCAPE:
            isTyping = false
            filter = ""
        case TERMINAL_BACKSPACE: if !filter.isEmpty { filter.removeLast() }
        default:
            if key >= 0x20, filter.count < 100, let character = Unicode.Scalar(UInt32(key)) { filter.unicodeScalars.append(character) }
        }
    }

    private mutating func scroll(_ key: Int, _ kind: terminal_key) {
        let page = max(Int(terminal_rows()) - 2, 1)
        switch kind {
        case TERMINAL_UP: dumpTop -= 1
        case TERMINAL_DOWN: dumpTop += 1
        case TERMINAL_PAGE_UP: dumpTop -= page
        case TERMINAL_PAGE_DOWN: dumpTop += page
        case TERMINAL_ESCAPE: dump = nil
        default: if key == Int(UInt8(ascii: "q")) { dump = nil }
        }
    }

    private mutating func select(_ distance: Int) {
        let rows = rows
        guard !rows.isEmpty else { return }
        let place = rows.firstIndex { $0.key == selected } ?? 0
        selected = rows[min(max(place + distance, 0), rows.count - 1)].key
    }

    private mutating func showDump() {
        guard let row = rows.first(where: { $0.key == selected }) else { return }
        var rest = watch.dump(row)[...]
        var lines: [String] = []
        while lines.count < Screen.mostDumpLines, let line = rest.popLine() { lines.append(line.printable().string) }
        if !rest.isEmpty { lines.append("and \(rest.lineCount) more lines") }
        dump = lines
        dumpTop = 0
    }
}
