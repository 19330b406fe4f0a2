// SPDX-License-Identifier: MIT
import Synchronization

/// One attempt of a compare-and-exchange loop: true if the value was `expected` and is now `desired`; if not, `expected`
/// becomes what is there. Sequentially consistent.
extension Atomic where Value == UInt32 {
    @inline(always)
    func replace(_ expected: inout UInt32, by desired: UInt32) -> Bool {
        let (exchanged, original) = compareExchange(
            expected: expected, desired: desired, ordering: .sequentiallyConsistent)
        if !exchanged { expected = original }
        return exchanged
    }
}

extension Atomic where Value == UInt64 {
    @inline(always)
    func replace(_ expected: inout UInt64, by desired: UInt64) -> Bool {
        let (exchanged, original) = compareExchange(
            expected: expected, desired: desired, ordering: .sequentiallyConsistent)
        if !exchanged { expected = original }
        return exchanged
    }
}
