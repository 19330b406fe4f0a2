import Glibc

/// The tokens of the library's lazy globals and `static let`s, as the program's symbol table has them. The runtime takes a token while
/// it makes the value: in the child of a `fork` that came meanwhile nobody gives it back.
struct OnceTokens {
    /// The names, in the words of the compiler, and where the tokens are.
    private let all: [(name: String, token: UnsafePointer<Int32>)]

    /// Nil if the program's file cannot be read.
    init?() {
        guard let symbols = Symbols() else { return nil }
        // Of all symbols the one whose address is known.
        guard let known = symbols.first(where: { $0.name == "__dso_handle" }) else { return nil }
        let base = UInt(bitPattern: #dsohandle) - known.value
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

/// The symbols of the program's own file: elf(5), for 64 bits.
private struct Symbols: Sequence, IteratorProtocol {
    private let names: UnsafeRawPointer
    private var left: Int
    private var symbol: UnsafeRawPointer

    init?() {
        let descriptor = open("/proc/self/exe", O_RDONLY)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let size = Int(lseek(descriptor, 0, SEEK_END))
        guard let file = mmap(nil, size, PROT_READ, MAP_PRIVATE, descriptor, 0), file != MAP_FAILED else { return nil }
        func read<Number: FixedWidthInteger>(_ place: UnsafeRawPointer, _ offset: Int, _: Number.Type) -> Int {
            Int(place.loadUnaligned(fromByteOffset: offset, as: Number.self))
        }
        let sections = UnsafeRawPointer(file) + read(file, 40, UInt64.self)
        func contents(_ section: UnsafeRawPointer) -> UnsafeRawPointer { UnsafeRawPointer(file) + read(section, 24, UInt64.self) }
        let symbols = (0..<read(file, 60, UInt16.self)).map { sections + $0 * 64 }.first { read($0, 4, UInt32.self) == 2 }
        guard let symbols else { return nil }
        names = contents(sections + read(symbols, 40, UInt32.self) * 64)
        left = read(symbols, 32, UInt64.self) / 24
        symbol = contents(symbols)
    }

    mutating func next() -> (name: String, value: UInt)? {
        if left == 0 { return nil }
        left -= 1
        defer { symbol += 24 }
        let name = names + Int(symbol.loadUnaligned(as: UInt32.self))
        return (
            String(cString: name.assumingMemoryBound(to: CChar.self)),
            UInt(symbol.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        )
    }
}
