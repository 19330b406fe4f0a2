// SPDX-License-Identifier: MIT
/// Calling out: every callback of the loop is called within a record of its `CallStack`.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Calls out with a record on the stack. Loop's thread; no lock is held.
    @inline(always)
    func call<Record: CallRecord, Result>(_ record: Record, _ body: (CallPlace<Record>) -> Result) -> Result {
        let place = beginCall(record)
        let result = body(place)
        endCall(place)
        return result
    }

    /// The same in two steps.
    @inline(always)
    func beginCall<Record: CallRecord>(_ record: Record) -> CallPlace<Record> {
        if !pointee.calls.hasRoom(for: Record.size) { growCalls(by: Record.size) }
        return pointee.calls.push(record)
    }

    /// Client code has run: a clock reading from before it is stale.
    @inline(always) @discardableResult
    func endCall<Record: CallRecord>(_ place: CallPlace<Record>) -> Record {
        pointee.isClockStale = true
        return pointee.calls.pop(place)
    }

    /// Calls out with a record that other threads search for. The lock is held at the call and at the return, not while `body` runs.
    /// Returns the record as it is then.
    @inline(always)
    func callLocked<Record: CallRecord>(_ record: Record, _ body: () -> Void) -> Record {
        if !pointee.calls.hasRoom(for: Record.size) { pointee.calls.grow(by: Record.size) }
        let outer = pointee.calls.shared
        let place = pointee.calls.push(record)
        pointee.calls.shared = pointee.calls.count
        unlock(owner: true)
        body()
        lock(owner: true)
        pointee.calls.shared = outer
        return endCall(place)
    }

    /// Calls `body` with the records of a kind that other threads search for, innermost first, until it returns true; returns whether it did.
    /// Any thread, under the lock. A method of the stack would read all of it, and only the loop's thread may read what `shared` does not reach.
    @discardableResult
    func isCalling<Record: CallRecord>(_: Record.Type, where body: (UnsafeMutablePointer<Record>) -> Bool) -> Bool {
        CallStack.contains(Record.self, in: pointee.calls.words, below: pointee.calls.shared, where: body)
    }

    @inline(never)
    private func growCalls(by size: Int) {
        lock(owner: true)
        pointee.calls.grow(by: size)
        unlock(owner: true)
    }

    /// Calls `body` with the info that a callback of the context gets, within the bracket of the context's `retain` and `release`, if it
    /// has them. `endUse` is called once the context's own reference is no longer needed.
    @inline(always)
    func callInBracket<Result>(
        _ context: ClientContext, endUse: () -> Void, _ body: (UnsafeMutableRawPointer?) -> Result
    ) -> Result {
        guard let retain = context.retain else { return body(context.info) }
        let info = UnsafeMutableRawPointer(mutating: callOutRetain(retain, context.info))
        let place = beginCall(Bracket(release: context.release, info: info))
        endUse()
        let result = body(info)
        endCall(place).close()
        return result
    }
}

/// What a context's `retain` returned for a callback, and the function that releases it.
struct Bracket: CallRecord {
    let release: ReleaseFunction?
    let info: UnsafeMutableRawPointer?

    static var kind: CallKind { .bracket }

    func close() {
        if let release { callOutRelease(release, info) }
    }
}
