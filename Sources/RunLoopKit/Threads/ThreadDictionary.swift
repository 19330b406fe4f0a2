// SPDX-License-Identifier: MIT
/// Values of a thread by keys of any type: ``RunLoopThread/threadDictionary``.
///
/// - Foundation: `NSMutableDictionary`, which takes values that must not leave the thread, and does not keep them from it.
// Sendable: keys and values are, which the type of the dictionary cannot say of the keys.
public struct ThreadDictionary: @unchecked Sendable {
    private var values: [AnyHashable: any Sendable] = [:]

    /// A dictionary with nothing in it.
    public init() {}

    /// The value of a key, nil if it has none; setting nil removes it.
    public subscript(key: some Hashable & Sendable) -> (any Sendable)? {
        get { values[AnyHashable(key)] }
        set { values[AnyHashable(key)] = newValue }
    }

    /// How many values there are.
    public var count: Int { values.count }

    /// Whether there are none.
    public var isEmpty: Bool { values.isEmpty }

    /// Releases all values.
    public mutating func removeAll() { values.removeAll() }
}
