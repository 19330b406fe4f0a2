// SPDX-License-Identifier: MIT

/// One request to processes of the user, each over a new connection. Those whose sockets take one are asked and answer beside each other; after
/// that, those that had no room are tried again.
///
/// It waits for 3 seconds for a process, that is, a number that the kernel gives, however many sockets have it, and for a second for all sockets
/// without room together.
struct Inquiry {
    let request: String
    /// The seconds that each process may still be waited for, if it was; 0 after it gave no whole answer.
    private var timeLeft: [Int: Double] = [:]
    /// The bytes that all answers of each process may still have.
    private var bytesLeft: [Int: Int] = [:]
    /// Are receiving, since `begin`.
    private var asked: [Peer] = []
    private var begin = 0.0
    /// What can be had at a time bounds descriptors, threads and memory.
    private static var mostAsked: Int { 100 }
    /// A process that has more sockets has its others asked after all processes, so that it does not keep these from being asked beside each other.
    private static var mostOfProcess: Int { 32 }

    init(_ request: String) { self.request = request }

    /// Hands the whole answers of the processes that are wanted to `take`. `isEnough`: whether sockets without room are not worth a wait any more.
    mutating func run(wanted: (Int) -> Bool, isEnough: () -> Bool, take: (Int, [UInt8]) -> Void) {
        var full: [String] = []
        var rest = sharedSockets()
        // Each time a process answers, or all its sockets are through: most processes have one.
        while !rest.isEmpty {
            var counts: [Int: Int] = [:]
            var later: [String] = []
            begin = now()
            for path in rest {
                switch Peer.connect(to: path) {
                case .made(let peer):
                    guard wanted(peer.process), left(peer) > 0, bytes(peer) > 0 else { break }
                    counts[peer.account, default: 0] += 1
                    if counts[peer.account]! > Inquiry.mostOfProcess { later.append(path) } else { ask(peer) }
                case .noRoom: full.append(path)
                case .nothing: break
                }
                if asked.count == Inquiry.mostAsked { receive(take) }
            }
            receive(take)
            rest = later
        }
        if isEnough() { return }
        Peer.connectAgain(to: full, until: begin + 1) { _, peer in
            if wanted(peer.process) && asked.count < Inquiry.mostAsked { ask(peer) }
        }
        receive(take)
    }

    private func left(_ peer: Peer) -> Double { timeLeft[peer.account, default: 3] }
    private func bytes(_ peer: Peer) -> Int { bytesLeft[peer.account, default: Peer.longestAnswer] }

    private mutating func ask(_ peer: Peer) {
        let left = left(peer)
        // The sockets of one process share what its answers may take.
        let limit = bytes(peer) / (asked.count { $0.account == peer.account } + 1)
        if left > 0 && peer.ask(request, until: begin + left, limit: limit) { asked.append(peer) }
    }

    /// In the order in which they were asked: what a process has not sent meanwhile is charged to it alone.
    private mutating func receive(_ take: (Int, [UInt8]) -> Void) {
        for peer in asked {
            let start = now()
            let answer = peer.receive()
            timeLeft[peer.account] = answer == nil ? 0 : left(peer) - (now() - start)
            guard let answer, case let bytes = bytes(peer), bytes > 0 else { continue }
            bytesLeft[peer.account] = bytes - answer.count
            take(peer.process, answer)
        }
        asked = []
        begin = now()
    }
}
