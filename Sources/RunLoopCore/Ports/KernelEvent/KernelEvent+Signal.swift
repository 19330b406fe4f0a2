// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop
import Synchronization

extension KernelFilter {
    static var signal: KernelFilter {
        KernelFilter(
            number: .signal,
            open: { record in
                guard let number = Int32(exactly: record.pointee.ident), record.pointee.fflags == 0 else { return record.refuse() }
                return Signals.take(number)
            },
            take: .init { record, happened in
                let count = record.pointee.count.exchange(0, ordering: .sequentiallyConsistent)
                happened.data = Int64(clamping: count)
                return count != 0
            },
            begin: .init { record, source in
                record.pointee.source = source
                Signals.add(record)
            },
            close: .init { Signals.remove($0) })
    }
}

/// The Signal filter: the library's handler counts for every source of the signal and marks its inbox.
///
/// Not a signalfd, which needs the signal blocked in every thread, those of other libraries included, takes a signal away from
/// every other reader of it, and makes executed programs inherit the blocked mask.
///
/// The handler goes through the list of its signal without a lock. A thread that takes a record off the list waits until no
/// handler runs, and only then frees the record's memory.
enum Signals {
    static var limit: Int { 65 }

    /// Installs the handler for the first source of a signal. False with errno.
    static func take(_ number: Int32) -> Bool {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        if KernelEvents.shared.pointee.signals == nil {
            KernelEvents.shared.pointee.signals = makeRecord(SignalList.self, tail: (limit - 1) * MemoryLayout<SignalList>.stride)
        }
        guard number > 0 && Int(number) < limit else {
            rl_set_errno(EINVAL)
            return false
        }
        let list = KernelEvents.shared.pointee.signals! + Int(number)
        // There is no signal 0: this does nothing. But without optimisation Swift makes the metadata of a type at the first use,
        // with locks and memory from malloc, which must not happen in the handler.
        handle(0)
        if list.pointee.users == 0 && rl_take_signal(number, { Signals.handle($0) }) != 0 { return false }
        list.pointee.users += 1
        return true
    }

    static func add(_ record: KernelEventPointer) {
        process.pointee.registryLock.lockWord()
        let list = KernelEvents.shared.pointee.signals! + Int(record.pointee.ident)
        let first = list.pointee.first.load(ordering: .relaxed)
        record.pointee.nextOfSignal.store(first, ordering: .relaxed)
        first?.pointee.previousOfSignal = record
        list.pointee.first.store(record, ordering: .sequentiallyConsistent)
        process.pointee.registryLock.unlockWord()
    }

    /// Does nothing the second time, or if the record was never added.
    static func remove(_ record: KernelEventPointer) {
        guard record.pointee.source != nil else { return }
        process.pointee.registryLock.lockWord()
        let list = KernelEvents.shared.pointee.signals! + Int(record.pointee.ident)
        let previous = record.pointee.previousOfSignal
        let isFound = previous != nil || list.pointee.first.load(ordering: .relaxed) == record
        if isFound {
            let next = record.pointee.nextOfSignal.load(ordering: .relaxed)
            if let previous {
                previous.pointee.nextOfSignal.store(next, ordering: .sequentiallyConsistent)
            } else {
                list.pointee.first.store(next, ordering: .sequentiallyConsistent)
            }
            next?.pointee.previousOfSignal = previous
            record.pointee.previousOfSignal = nil
            list.pointee.users -= 1
            if list.pointee.users == 0 { rl_give_back_signal(Int32(record.pointee.ident)) }
        }
        process.pointee.registryLock.unlockWord()
        guard isFound else { return }
        // A handler runs for well under a microsecond, calls no other code and, with all signals blocked, is not interrupted by
        // code that might not return. A check finds a handler running only if a signal arrives in just that time, so checks
        // without end would need signals without end.
        var waiting = GivingWay()
        while KernelEvents.shared.pointee.signalHandlers.load(ordering: .sequentiallyConsistent) != 0 { waiting.giveWay() }
    }

    /// Called by the signal handler: touches only atomics.
    private static func handle(_ number: Int32) {
        KernelEvents.shared.pointee.signalHandlers.wrappingAdd(1, ordering: .sequentiallyConsistent)
        var record = KernelEvents.shared.pointee.signals![Int(number)].first.load(ordering: .sequentiallyConsistent)
        while let current = record {
            current.pointee.count.wrappingAdd(1, ordering: .sequentiallyConsistent)
            if current.mayReport { current.pointee.source?.markReady() }
            record = current.pointee.nextOfSignal.load(ordering: .sequentiallyConsistent)
        }
        KernelEvents.shared.pointee.signalHandlers.wrappingSubtract(1, ordering: .sequentiallyConsistent)
    }
}

struct SignalList: ~Copyable {
    /// Changed under the registry's lock, read by the handler.
    let first: Atomic<KernelEventPointer?>
    /// Guarded by the registry's lock.
    var users: Int
}
