// SPDX-License-Identifier: MIT
/// Something that a ``RunLoopExecutor`` does on its loop's thread.
enum LoopEntry: Sendable {
    /// Of an actor on the loop.
    case actorJob(UnownedJob)
    /// Of a task that prefers the loop, outside of all actors.
    case taskJob(UnownedJob)
    case request(LoopRequest)
}

/// Something to do on a loop's thread that somebody awaits.
// Sendable: it has no state; each kind says why its own is safe. A class and not a protocol, so that there are unmanaged references to it.
class LoopRequest: @unchecked Sendable {
    /// Whether nothing is left to do; once true it stays so. Any thread, also under a lock.
    var isOver: Bool { false }
    /// Does it, on the loop's thread.
    func run() {}
    /// The loop's thread is gone, before or while the request ran.
    func abandon() {}
}

/// Entries in the order in which they came. The memory is kept, so that a queue in use allocates nothing.
struct LoopEntries {
    /// A place whose entry was taken is nil: the caller releases what it got, and not the one who takes the last entry, perhaps under a lock.
    private var entries: [LoopEntry?] = []
    /// Where the next entry is; what is before it was taken.
    private var head = 0

    /// How much memory is kept when the last entry was taken.
    static let keptCapacity = 1024

    var isEmpty: Bool { head == entries.count }

    var count: Int { entries.count - head }

    mutating func append(_ entry: LoopEntry) { entries.append(entry) }

    mutating func takeFirst() -> LoopEntry? {
        guard head < entries.count else { return nil }
        let entry = entries[head]
        entries[head] = nil
        head += 1
        if head == entries.count {
            entries.removeAll(keepingCapacity: entries.capacity <= LoopEntries.keptCapacity)
            head = 0
        } else if head >= LoopEntries.keptCapacity && 2 * head >= entries.count {
            // Never empty for long: what was taken goes when it is half of the whole.
            entries.removeFirst(head)
            head = 0
        }
        return entry
    }

    /// Notes the requests among the entries.
    func appendRequests(to requests: inout [LoopRequest]) {
        var index = head
        while index < entries.count {
            if case .request(let request) = entries[index] { requests.append(request) }
            index += 1
        }
    }

    /// Takes out the requests that are over, for the caller to release without a lock. The time grows with the number of all entries.
    mutating func removeOver() -> [LoopRequest] {
        var over: [LoopRequest] = []
        var left: [LoopEntry?] = []
        for entry in entries[head...] {
            if case .request(let request) = entry, request.isOver { over.append(request) } else { left.append(entry) }
        }
        if !over.isEmpty { (entries, head) = (left, 0) }
        return over
    }

    /// Takes over all of another list, behind its own.
    mutating func takeAll(of other: inout LoopEntries) {
        if isEmpty {
            swap(&self, &other)
        } else {
            entries.append(contentsOf: other.entries[other.head...])
            other.entries.removeAll(keepingCapacity: other.entries.capacity <= LoopEntries.keptCapacity)
            other.head = 0
        }
    }
}
