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
                return Signals.take(number, for: record)
            },
            take: .init { record, happened in
                let count = record.pointee.count.exchange(0, ordering: .sequentiallyConsistent)
                happened.data = Int64(clamping: count)
                return count != 0
            },
            begin: .init { record, source in
                record.pointee.source = source
                record.pointee.sourceForHandler.store(source, ordering: .releasing)
                // A signal that came since `take` found no source to mark. Either this sees it, or its handler sees the source.
                let count = record.pointee.count.wrappingAdd(0, ordering: .sequentiallyConsistent).newValue
                if count != 0 && record.mayReport { source.markReady() }
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

    /// Enters the record in its signal's list, so that what comes from now on is counted, and installs the handler for the first. False with errno.
    static func take(_ number: Int32, for record: KernelEventPointer) -> Bool {
        process.pointee.registryLock.lockWord()
        if KernelEvents.shared.pointee.signals == nil {
            KernelEvents.shared.pointee.signals = makeRecord(SignalList.self, tail: (limit - 1) * MemoryLayout<SignalList>.stride)
        }
        guard let list = list(of: record) else {
            process.pointee.registryLock.unlockWord()
            rl_set_errno(EINVAL)
            return false
        }
        // There is no signal 0: this does nothing. But without optimisation Swift makes the metadata of a type at the first use,
        // with locks and memory from malloc, which must not happen in the handler.
        handle(0)
        let first = list.pointee.first.load(ordering: .relaxed)
        record.pointee.nextOfSignal.store(first, ordering: .relaxed)
        first?.pointee.previousOfSignal = record
        list.pointee.first.store(record, ordering: .sequentiallyConsistent)
        let isTaken = list.pointee.users > 0 || rl_take_signal(number, { Signals.handle($0) }) == 0
        // Not for a handler that there is not: another thread tries for itself.
        if isTaken { list.pointee.users += 1 }
        process.pointee.registryLock.unlockWord()
        if !isTaken {
            let error = rl_errno()
            remove(record, isTaken: false)
            rl_set_errno(error)
        }
        return isTaken
    }

    /// nil if there is no such signal.
    private static func list(of record: KernelEventPointer) -> UnsafeMutablePointer<SignalList>? {
        guard let lists = KernelEvents.shared.pointee.signals, let number = Int(exactly: record.pointee.ident), number > 0 && number < limit else {
            return nil
        }
        return lists + number
    }

    /// Does nothing the second time, or if the record was never in the list.
    static func remove(_ record: KernelEventPointer, isTaken: Bool = true) {
        process.pointee.registryLock.lockWord()
        let previous = record.pointee.previousOfSignal
        guard let list = list(of: record), previous != nil || list.pointee.first.load(ordering: .relaxed) == record else {
            return process.pointee.registryLock.unlockWord()
        }
        let next = record.pointee.nextOfSignal.load(ordering: .relaxed)
        if let previous {
            previous.pointee.nextOfSignal.store(next, ordering: .sequentiallyConsistent)
        } else {
            list.pointee.first.store(next, ordering: .sequentiallyConsistent)
        }
        next?.pointee.previousOfSignal = previous
        record.pointee.previousOfSignal = nil
        if isTaken {
            list.pointee.users -= 1
            if list.pointee.users == 0 { rl_give_back_signal(Int32(record.pointee.ident)) }
        }
        process.pointee.registryLock.unlockWord()
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
            if current.mayReport { current.pointee.sourceForHandler.load(ordering: .acquiring)?.markReady() }
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
