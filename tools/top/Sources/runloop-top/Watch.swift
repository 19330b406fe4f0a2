// SPDX-License-Identifier: MIT
import Glibc

/// The processes that are looked at, and their loops. Processes come and go; one that does not answer is left alone for a while.
struct Watch {
    /// The numbers that were asked for; none: all that show their loops.
    let processes: [Int]
    private var peers: [String: Peer] = [:]
    private var restingUntil: [String: Double] = [:]
    private(set) var rows: [LoopRow] = []
    /// The loops that the processes left out, or that are beyond what one may have.
    private(set) var leftOut = 0
    private(set) var silent: [Int] = []

    /// Of all answers of a process at one look. The library ends its answer at about 1000 loops, each a line.
    private static var mostLoops: Int { 2000 }
    /// Of an answer.
    private static var mostLines: Int { 2000 }

    init(processes: [Int]) { self.processes = processes }

    /// Asks all processes, and waits a second at most for what they say. `patience`: the seconds in which sockets without room are tried again if
    /// processes are missing. The next look tries them too, which costs no time.
    mutating func look(patience: Double = 0) {
        let paths = sharedSockets()
        let present = Set(paths)
        for path in peers.keys where !present.contains(path) { peers[path] = nil }
        var full: [String] = []
        for path in paths where peers[path] == nil && restingUntil[path, default: 0] < now() {
            switch Peer.connect(to: path) {
            case .made(let peer): if isWanted(peer) { peers[path] = peer }
            case .noRoom: full.append(path)
            case .nothing: break
            }
        }
        var asked: [(String, Peer)] = []
        for (path, peer) in peers { ask(path, peer, &asked) }
        if processes.isEmpty || !processes.allSatisfy(reaches) {
            Peer.connectAgain(to: full, until: now() + patience) { path, peer in
                guard isWanted(peer) else { return }
                peers[path] = peer
                ask(path, peer, &asked)
            }
        }
        let before = Dictionary(rows.map { ($0.key, $0) }, uniquingKeysWith: { first, _ in first })
        rows = []
        silent = []
        leftOut = 0
        var room: [Int: Int] = [:]
        for (path, peer) in asked {
            guard let answer = peer.receive() else {
                peers[path] = nil
                if kill(pid_t(peer.process), 0) == 0 {
                    if !silent.contains(peer.process) { silent.append(peer.process) }
                    restingUntil[path] = now() + 5
                }
                continue
            }
            take(answer, of: peer.process, before, &room[peer.account, default: Watch.mostLoops])
        }
    }

    private func isWanted(_ peer: Peer) -> Bool { !peer.isStuck && (processes.isEmpty || processes.contains(peer.process)) }

    private mutating func ask(_ path: String, _ peer: Peer, _ asked: inout [(String, Peer)]) {
        // The sockets of one process share what its answers may take.
        let limit = Peer.longestAnswer / (asked.count { $0.1.account == peer.account } + 1)
        if peer.ask("measure", until: now() + 1, limit: limit) { asked.append((path, peer)) } else { peers[path] = nil }
    }

    private mutating func leaveOut(_ count: Int) { leftOut = min(leftOut + max(count, 0), 1_000_000_000) }

    /// `room`: how many more loops the process may have.
    private mutating func take(_ answer: [UInt8], of process: Int, _ before: [LoopRow.Key: LoopRow], _ room: inout Int) {
        var rest = answer[...]
        guard let head = rest.popLine().flatMap({ JSON($0) }), head["time"]?.number != nil else { return }
        var lines = Watch.mostLines
        while lines > 0, room > 0, let line = rest.popLine() {
            lines -= 1
            guard let values = JSON(line) else {
                leaveOut(1)
                continue
            }
            leaveOut(values["left"]?.int ?? 0)
            guard values["loop"]?.string != nil else { continue }
            room -= 1
            let sample = LoopSample(values: values)
            rows.append(LoopRow(process: process, sample: sample, before: before[LoopRow.Key(process, sample)]))
        }
        leaveOut(rest.lineCount)
    }

    /// The dump of one loop.
    func dump(_ row: LoopRow) -> [UInt8] {
        var text: [UInt8]?
        var inquiry = Inquiry("dump \(row.sample.thread)")
        inquiry.run(wanted: { $0 == row.process }, isEnough: { text != nil }) { if text?.isEmpty ?? true { text = $1 } }
        return text ?? Array("The process does not answer.\n".utf8)
    }

    private func peer(_ process: Int) -> Peer? { peers.values.first { $0.process == process } }

    /// Has a process record a trace (S-OUT-11); whether it does. The connection that is asked each time keeps it.
    func startTrace(_ process: Int) -> Bool {
        guard let peer = peer(process), peer.ask("trace start", until: now() + 3), var answer = peer.receive()?[...] else { return false }
        return answer.popLine().flatMap { JSON($0) }?["trace"]?.isTrue ?? false
    }

    /// Ends it, and gives what came.
    func stopTrace(_ process: Int) -> [UInt8]? {
        guard let peer = peer(process), peer.ask("trace stop", until: now() + 10, limit: TraceFile.longest) else { return nil }
        return peer.receive()
    }

    /// Whether there is a connection to the process.
    func reaches(_ process: Int) -> Bool { peer(process) != nil }
}
