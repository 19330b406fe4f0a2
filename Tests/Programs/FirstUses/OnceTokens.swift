// SPDX-License-Identifier: MIT
import RunLoopTestSymbols

/// The tokens of the library's lazy globals and `static let`s, as the program's symbol table has them. The runtime takes a token while
/// it makes the value: in the child of a `fork` that came meanwhile nobody gives it back.
struct OnceTokens {
    /// The names, in the words of the compiler, and where the tokens are.
    private let all: [(name: String, token: UnsafePointer<Int32>)]

    /// Nil if the program's file cannot be read.
    init?() {
        guard let symbols = Symbols(), let base = Symbols.base else { return nil }
        all = symbols.compactMap { symbol in
            guard symbol.name.hasSuffix("Wz"), OnceTokens.modules.contains(where: symbol.name.hasPrefix) else { return nil }
            return UnsafePointer(bitPattern: base + symbol.value).map { (symbol.name, $0) }
        }
    }

    private static let modules = ["$s10RunLoopKit", "$s20RunLoopKitFoundation", "$s16RunLoopKitXCTest", "$s11RunLoopCore"]

    /// Those whose values are not made yet. A token becomes negative when its value is made, and 1 under the thread sanitizer, which has
    /// a `swift_once` of its own.
    var unmade: [String] { all.filter { $0.token.pointee >= 0 && $0.token.pointee != 1 }.map(\.name).sorted() }
}
