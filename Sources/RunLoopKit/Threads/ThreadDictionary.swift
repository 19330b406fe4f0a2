// SPDX-License-Identifier: MIT
/// Values of a thread by keys of any type: ``RunLoopThread/threadDictionary``.
///
/// - Foundation: `NSMutableDictionary`, which takes values that must not leave the thread, and does not keep them from it.
// Changing one entry of a thread's dictionary is a change of a copy, which takes the place of the original. So copies share all but the
// way to what is changed: a dictionary is a tree by the bits of the keys' hashes (S-THR-9).
// Sendable: keys and values are, which the type of the dictionary cannot say of the keys.
public struct ThreadDictionary: @unchecked Sendable {
    private var root = Tree.empty

    /// A dictionary with nothing in it.
    public init() {}

    /// The value of a key, nil if it has none; setting nil removes it.
    public subscript(key: some Hashable & Sendable) -> (any Sendable)? {
        get {
            let key = AnyHashable(key)
            return root.find(key, UInt(bitPattern: key.hashValue))
        }
        set {
            let key = AnyHashable(key)
            count += root.set(key, UInt(bitPattern: key.hashValue), to: newValue, level: 0)
        }
    }

    /// How many values there are.
    public private(set) var count = 0

    /// Whether there are none.
    public var isEmpty: Bool { count == 0 }

    /// Releases all values.
    public mutating func removeAll() { self = ThreadDictionary() }
}

private enum Tree {
    struct Entry {
        let hash: UInt
        let key: AnyHashable
        var value: any Sendable
    }

    case leaf([Entry])
    /// One tree for each value of the level's bits.
    case branch([Tree])

    static var empty: Tree { .leaf([]) }

    /// So many bits of the hash are used on each level.
    private static var bits: Int { 4 }
    /// A leaf has more entries only if no level is left: the hashes are equal.
    private static var few: Int { 8 }

    private static func place(_ hash: UInt, _ level: Int) -> Int {
        Int(truncatingIfNeeded: hash >> (level * bits)) & (1 << bits - 1)
    }

    func find(_ key: AnyHashable, _ hash: UInt) -> (any Sendable)? {
        var tree = self
        var level = 0
        while case .branch(let trees) = tree {
            tree = trees[Tree.place(hash, level)]
            level += 1
        }
        guard case .leaf(let entries) = tree else { return nil }
        return entries.first { $0.hash == hash && $0.key == key }?.value
    }

    /// Gives a key a value, or none.
    ///
    /// - Returns: how many entries more there are.
    mutating func set(_ key: AnyHashable, _ hash: UInt, to value: (any Sendable)?, level: Int) -> Int {
        switch self {
        case .leaf(var entries):
            let place = entries.firstIndex { $0.hash == hash && $0.key == key }
            switch (place, value) {
            case (nil, nil): return 0
            case (let place?, let value?): entries[place].value = value
            case (let place?, nil): entries.remove(at: place)
            case (nil, let value?): entries.append(Entry(hash: hash, key: key, value: value))
            }
            self = entries.count > Tree.few && level * Tree.bits < UInt.bitWidth ? Tree.split(entries, level) : .leaf(entries)
            return (value == nil ? 0 : 1) - (place == nil ? 0 : 1)
        case .branch(var trees):
            let more = trees[Tree.place(hash, level)].set(key, hash, to: value, level: level + 1)
            self = more < 0 && trees.allSatisfy(\.isEmpty) ? .empty : .branch(trees)
            return more
        }
    }

    private static func split(_ entries: [Entry], _ level: Int) -> Tree {
        var trees = [Tree](repeating: .empty, count: 1 << bits)
        for entry in entries { _ = trees[place(entry.hash, level)].set(entry.key, entry.hash, to: entry.value, level: level + 1) }
        return .branch(trees)
    }

    private var isEmpty: Bool {
        if case .leaf(let entries) = self { return entries.isEmpty }
        return false
    }
}
