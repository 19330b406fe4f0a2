// SPDX-License-Identifier: MIT
import ExploreHooks
import Synchronization

/// Stands for `Synchronization.Atomic` in the explored core: a declaration of the module itself comes before an imported one.
/// Same memory, same functions; each access asks the explorer's scheduler first which thread goes next.
struct Atomic<Value: AtomicRepresentable>: ~Copyable {
    private let storage: Synchronization.Atomic<Value>

    @inline(__always)
    init(_ value: Value) { storage = Synchronization.Atomic(value) }

    @inline(__always)
    private var address: UnsafeMutableRawPointer {
        withUnsafePointer(to: storage) { UnsafeMutableRawPointer(mutating: $0) }
    }

    @inline(__always)
    private var size: UInt32 { UInt32(MemoryLayout<Value>.size) }

    @inline(__always)
    private func word(_ value: Value) -> UInt64 {
        var word: UInt64 = 0
        withUnsafeMutableBytes(of: &word) { $0.storeBytes(of: value, as: Value.self) }
        return word
    }

    @inline(__always)
    private func value(_ word: UInt64) -> Value {
        withUnsafeBytes(of: word) { $0.load(as: Value.self) }
    }

    func load(ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line) -> Value {
        value(rlx_load(address, size, ordering.rawValue, file.text, line))
    }

    func store(_ desired: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line) {
        rlx_store(address, size, word(desired), ordering.rawValue, file.text, line)
    }

    @discardableResult
    func exchange(
        _ desired: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> Value {
        value(rlx_modify(address, size, Int32(RLX_EXCHANGE), word(desired), ordering.rawValue, file.text, line))
    }

    @discardableResult
    func compareExchange(
        expected: Value, desired: Value, successOrdering: MemoryOrder, failureOrdering: MemoryOrder,
        file: StaticString = #fileID, line: UInt32 = #line
    ) -> (exchanged: Bool, original: Value) {
        let original = rlx_compare_exchange(
            address, size, word(expected), word(desired), successOrdering.rawValue, failureOrdering.rawValue, file.text, line)
        return (original == word(expected), value(original))
    }

    @discardableResult
    func compareExchange(
        expected: Value, desired: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (exchanged: Bool, original: Value) {
        compareExchange(
            expected: expected, desired: desired, successOrdering: ordering, failureOrdering: ordering.ofFailure, file: file,
            line: line)
    }

    /// As the strong one: a failure for no reason leads to another turn of the same loop.
    @discardableResult
    func weakCompareExchange(
        expected: Value, desired: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (exchanged: Bool, original: Value) {
        compareExchange(expected: expected, desired: desired, ordering: ordering, file: file, line: line)
    }

    @discardableResult
    func weakCompareExchange(
        expected: Value, desired: Value, successOrdering: MemoryOrder, failureOrdering: MemoryOrder,
        file: StaticString = #fileID, line: UInt32 = #line
    ) -> (exchanged: Bool, original: Value) {
        compareExchange(
            expected: expected, desired: desired, successOrdering: successOrdering, failureOrdering: failureOrdering, file: file,
            line: line)
    }

    @inline(__always)
    fileprivate func modify(
        _ operation: Int, _ operand: Value, _ ordering: MemoryOrder, _ file: StaticString, _ line: UInt32
    ) -> Value {
        value(rlx_modify(address, size, Int32(operation), word(operand), ordering.rawValue, file.text, line))
    }
}

/// The memory orders of `Synchronization`, for loads, stores and updates alike.
enum MemoryOrder: Int32 {
    case relaxed, acquiring, releasing, acquiringAndReleasing, sequentiallyConsistent

    /// What a failed exchange of this order is as a load.
    var ofFailure: MemoryOrder {
        switch self {
        case .relaxed, .releasing: .relaxed
        case .acquiring, .acquiringAndReleasing: .acquiring
        case .sequentiallyConsistent: .sequentiallyConsistent
        }
    }
}

extension StaticString {
    @inline(__always)
    fileprivate var text: UnsafePointer<CChar> { UnsafeRawPointer(utf8Start).assumingMemoryBound(to: CChar.self) }
}

extension Atomic where Value: FixedWidthInteger {
    @discardableResult
    func wrappingAdd(
        _ operand: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (oldValue: Value, newValue: Value) {
        let old = modify(Int(RLX_ADD), operand, ordering, file, line)
        return (old, old &+ operand)
    }

    @discardableResult
    func wrappingSubtract(
        _ operand: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (oldValue: Value, newValue: Value) {
        let old = modify(Int(RLX_SUBTRACT), operand, ordering, file, line)
        return (old, old &- operand)
    }

    @discardableResult
    func add(
        _ operand: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (oldValue: Value, newValue: Value) {
        let old = modify(Int(RLX_ADD), operand, ordering, file, line)
        return (old, old + operand)
    }

    @discardableResult
    func subtract(
        _ operand: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (oldValue: Value, newValue: Value) {
        let old = modify(Int(RLX_SUBTRACT), operand, ordering, file, line)
        return (old, old - operand)
    }

    @discardableResult
    func bitwiseOr(
        _ operand: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (oldValue: Value, newValue: Value) {
        let old = modify(Int(RLX_OR), operand, ordering, file, line)
        return (old, old | operand)
    }

    @discardableResult
    func bitwiseAnd(
        _ operand: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (oldValue: Value, newValue: Value) {
        let old = modify(Int(RLX_AND), operand, ordering, file, line)
        return (old, old & operand)
    }

    @discardableResult
    func bitwiseXor(
        _ operand: Value, ordering: MemoryOrder, file: StaticString = #fileID, line: UInt32 = #line
    ) -> (oldValue: Value, newValue: Value) {
        let old = modify(Int(RLX_XOR), operand, ordering, file, line)
        return (old, old ^ operand)
    }
}
