// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What a loop measures of its call-outs after `RLSetAccounting` (S-STAT-3). The histograms follow the record in memory. The record is made
/// when accounting is first requested and stays until the loop's memory goes to the pool.
///
/// What is added is added under the loop's lock: a thread that turns accounting on again clears the numbers, and what is being added to a
/// number meanwhile would bring back the old one. The loop's thread adds; the end of accounting adds the part of a sleep that is under way.
struct Accounting: ~Copyable {
    /// The instant at which it began, and the processor's counter then: they convert the times of signals to nanoseconds.
    let began: Atomic<Int64>
    let beganCount: Atomic<UInt64>
    /// The instant at which it ended; 0: it is on.
    let ended: Atomic<Int64>
    let callOuts: Atomic<UInt64>
    /// In nanoseconds, like the next two.
    let callOutTime: Atomic<UInt64>
    let longest: Atomic<UInt64>
    var asleep: UInt64
    /// The instant at which the current sleep began, or accounting did if that was later; 0: the loop does not sleep. Guarded by the loop's lock.
    var sleepBegan: Int64
    /// The addresses of `ItemAccount`s, keyed by their items. Guarded by the loop's lock.
    var items: WordSet
}

typealias AccountingPointer = UnsafeMutablePointer<Accounting>

/// What the call-outs of an item cost one loop. Guarded by the loop's lock.
struct ItemAccount {
    /// The item's address. The first word: it is the key of the account.
    var item: UInt
    var calls: UInt64
    /// In nanoseconds, like the next two.
    var total: UInt64
    var longest: UInt64
    var last: UInt64
}

typealias ItemAccountPointer = UnsafeMutablePointer<ItemAccount>

/// Bits of `RunLoop.accountingAskers`: for whom a loop measures.
enum AccountingAsker {
    static var program: UInt8 { 1 }
    /// Another process (S-OUT-6).
    static var peer: UInt8 { 2 }
}

/// The histograms of a loop; the raw values are those of `RLHistogram`.
enum HistogramKind: Int32 {
    case callOuts = 0
    case lateness = 1
    case signals = 2

    static var count: Int { 3 }
}

extension UnsafeMutablePointer where Pointee == Accounting {
    static func make() -> AccountingPointer { makeRecord(Accounting.self, tail: HistogramKind.count * Histogram.size) }

    func histogram(_ kind: HistogramKind) -> Histogram {
        Histogram(at: UnsafeMutableRawPointer(self + 1) + Int(kind.rawValue) * Histogram.size)
    }

    fileprivate func account(of item: ObjectPointer) -> ItemAccountPointer? {
        ItemAccountPointer(bitPattern: pointee.items.find(UInt(bitPattern: item), isKeyed: true))
    }

    fileprivate func clear() {
        let items = pointee.items
        memset(self, 0, MemoryLayout<Accounting>.stride + HistogramKind.count * Histogram.size)
        pointee.items = items
        freeItems()
    }

    /// The time asleep, with the sleep that is under way.
    @inline(never)
    func asleep(now: Int64) -> UInt64 {
        pointee.asleep &+ (pointee.sleepBegan == 0 ? 0 : UInt64(truncatingIfNeeded: Swift.max(now - pointee.sleepBegan, 0)))
    }

    fileprivate func addSleep(_ now: Int64) {
        pointee.asleep = asleep(now: now)
        pointee.sleepBegan = 0
    }

    /// The counter's rate is its average since accounting began.
    @inline(never)
    fileprivate func noteSignal(_ begin: Int64, _ signalCount: UInt64) {
        let now = rl_order_of_time()
        let counts = Double(Int64(bitPattern: now &- pointee.beganCount.load(ordering: .relaxed)))
        let distance = Double(Int64(bitPattern: now &- signalCount))
        let time = Double(begin - pointee.began.load(ordering: .relaxed))
        if counts > 0 && distance >= 0 && distance <= counts { histogram(.signals).add(Int64(distance / counts * time)) }
    }

    func freeItems() {
        pointee.items.forEach { CRunLoopLinux.free(UnsafeMutableRawPointer(bitPattern: $0)) }
        pointee.items.removeAll()
    }
}

/// Measuring. Loop's thread.
extension UnsafeMutablePointer where Pointee == RunLoop {
    /// Called before a call-out. Returns the argument for `endMeasured`; 0 if the call-out is not measured.
    @inline(never)
    func beginMeasured(_ due: Int64, _ signalled: UInt64) -> Int64 {
        if pointee.accounting.load(ordering: .relaxed) == nil { return 0 }
        let begin = Clock.now()
        if due | Int64(bitPattern: signalled) == 0 { return begin }
        lock()
        if let accounting = accountingLocked(since: begin) {
            if due != 0 { accounting.histogram(.lateness).add(self.time - due) }
            if signalled != 0 { accounting.noteSignal(begin, signalled) }
        }
        unlock()
        return begin
    }

    @inline(never)
    func endMeasured(_ item: ObjectPointer?, _ begin: Int64) {
        if begin == 0 { return }
        let time = UInt64(Swift.max(Clock.now() - begin, 0))
        lock(owner: true)
        if let accounting = accountingLocked(since: begin) { count(item, time, accounting) }
        unlock(owner: true)
    }

    @inline(never)
    private func count(_ item: ObjectPointer?, _ time: UInt64, _ accounting: AccountingPointer) {
        accounting.pointee.callOuts.count()
        accounting.pointee.callOutTime.count(time)
        if time > accounting.pointee.longest.load(ordering: .relaxed) { accounting.pointee.longest.store(time, ordering: .relaxed) }
        accounting.histogram(.callOuts).add(Int64(time))
        guard let item else { return }
        let account = accounting.account(of: item) ?? openAccount(item, accounting)
        account.pointee.calls &+= 1
        account.pointee.total &+= time
        account.pointee.last = time
        if time > account.pointee.longest { account.pointee.longest = time }
    }

    /// Where what began at an instant is counted; nil: the measuring of which it was a part has ended, even if another has begun.
    private func accountingLocked(since begin: Int64) -> AccountingPointer? {
        guard let accounting = pointee.accounting.load(ordering: .relaxed), begin >= accounting.pointee.began.load(ordering: .relaxed)
        else { return nil }
        return accounting
    }

    @inline(never)
    private func openAccount(_ item: ObjectPointer, _ accounting: AccountingPointer) -> ItemAccountPointer {
        let account = makeRecord(ItemAccount.self)
        account.pointee.item = UInt(bitPattern: item)
        accounting.pointee.items.insert(UInt(bitPattern: account), isKeyed: true)
        item.pointee.marks.bitwiseOr(ObjectMarks.accounted, ordering: .relaxed)
        return account
    }

    /// Called when the loop has fallen asleep, also in a wait that a foreign loop makes, and when it has got up. A thread that begins
    /// accounting stores the record and then looks whether the loop is asleep, so one of the two sees the other.
    @inline(always)
    func noteSleep(begins: Bool) {
        if pointee.accounting.load(ordering: .sequentiallyConsistent) != nil { measureSleep(begins) }
    }

    @inline(never)
    private func measureSleep(_ begins: Bool) {
        lock()
        if let accounting = pointee.accounting.load(ordering: .relaxed) {
            let now = Clock.now()
            accounting.addSleep(now)
            if begins { accounting.pointee.sleepBegan = now }
        }
        unlock()
    }
}

/// Any thread.
extension UnsafeMutablePointer where Pointee == RunLoop {
    var isAccounting: Bool { pointee.accounting.load(ordering: .acquiring) != nil }

    /// Begins or stops measuring for one asker.
    func setAccounting(_ isOn: Bool, for asker: UInt8 = AccountingAsker.program) {
        lock()
        defer { unlock() }
        let before = pointee.accountingAskers
        let after = isOn ? before | asker : before & ~asker
        if after == before || pointee.closing.load(ordering: .relaxed) { return }
        pointee.accountingAskers = after
        if after == 0 {
            attend(.accounting, false)
            pointee.accounting.store(nil, ordering: .releasing)
            let accounting = pointee.accounts.load(ordering: .relaxed)!
            let now = Clock.now()
            accounting.addSleep(now)
            accounting.pointee.ended.store(now, ordering: .relaxed)
        }
        // What the program measured is kept (S-OUT-6).
        guard isOn, before == 0 || asker == AccountingAsker.program else { return }
        let accounting = pointee.accounts.load(ordering: .relaxed) ?? .make()
        accounting.clear()
        accounting.pointee.beganCount.store(rl_order_of_time(), ordering: .relaxed)
        let now = Clock.now()
        accounting.pointee.began.store(now, ordering: .relaxed)
        pointee.accounts.store(accounting, ordering: .relaxed)
        pointee.accounting.store(accounting, ordering: .sequentiallyConsistent)
        if WakeState.isAsleep(pointee.wake.load(ordering: .sequentiallyConsistent)) { accounting.pointee.sleepBegan = now }
        attend(.accounting, true)
    }

    /// What an item's call-outs cost; nil if accounting has not seen one.
    func account(of item: ObjectPointer) -> ItemAccount? {
        lock()
        defer { unlock() }
        return pointee.accounts.load(ordering: .relaxed)?.account(of: item)?.pointee
    }

    /// Frees the accounts of a loop that goes to the pool. The lock is held.
    func freeAccounts() {
        attend(.accounting, false)
        pointee.accounting.store(nil, ordering: .relaxed)
        pointee.accountingAskers = 0
        guard let accounts = pointee.accounts.exchange(nil, ordering: .relaxed) else { return }
        accounts.freeItems()
        CRunLoopLinux.free(accounts)
    }
}

extension Accounting {
    /// Frees the accounts that loops may have of an item that is being freed. No lock is held.
    static func forget(_ item: ObjectPointer) {
        process.pointee.registryLock.lockWord()
        var loop = registry.pointee.loopRecords
        process.pointee.registryLock.unlockWord()
        // Loops' records are never unmapped, and their locks work in all of the records' lives.
        while let current = loop {
            loop = current.pointee.olderRecord
            // The item's account was opened before its last reference was released.
            if current.pointee.accounts.load(ordering: .relaxed) == nil { continue }
            current.lock()
            let accounts = current.pointee.accounts.load(ordering: .relaxed)
            let account = accounts?.pointee.items.remove(UInt(bitPattern: item), isKeyed: true) ?? 0
            current.unlock()
            CRunLoopLinux.free(UnsafeMutableRawPointer(bitPattern: account))
        }
    }
}
