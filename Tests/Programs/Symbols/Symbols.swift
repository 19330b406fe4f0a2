// SPDX-License-Identifier: MIT
import Glibc

/// The symbols of the program's own file: elf(5), for 64 bits.
public struct Symbols: Sequence, IteratorProtocol {
    private let names: UnsafeRawPointer
    private var left: Int
    private var symbol: UnsafeRawPointer

    public init?() {
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

    /// Where the program lies in memory: of all symbols the address of one is known.
    public static var base: UInt? {
        Symbols()?.first { $0.name == "__dso_handle" }.map { UInt(bitPattern: #dsohandle) - $0.value }
    }

    public mutating func next() -> (name: String, value: UInt)? {
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
