// SPDX-License-Identifier: MIT
import RunLoopTestSymbols

/// The words in which a program without optimisation keeps what the Swift runtime told it of a type. The runtime is asked at the first use,
/// under locks that threads which are not in the child of a `fork` may hold for ever; what the library does in every child must
/// not be a first use.
struct TypeCaches {
    private let names: [String]
    private let words: [UnsafePointer<UInt>]
    private let before: UnsafeMutablePointer<UInt>

    /// Of the whole program; nil if its file cannot be read.
    init?() {
        guard let symbols = Symbols(), let base = Symbols.base else { return nil }
        // The address sanitizer's copies of these names have names that end so too.
        let caches = symbols.filter { $0.name.hasPrefix("$s") && $0.name.hasSuffix("MD") }
        names = caches.map(\.name)
        words = caches.map { UnsafePointer(bitPattern: base + $0.value)! }
        before = .allocate(capacity: words.count)
    }

    func note() { for index in words.indices { before[index] = words[index].pointee } }

    /// The first that is another one than ``note()`` saw.
    var firstUse: String? {
        for index in words.indices where before[index] != words[index].pointee { return names[index] }
        return nil
    }
}
