// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// Frees a memory block that a Copy function of the C library returned.
func release(block: UnsafeMutableRawPointer) { free(block) }

/// A function of the system's libraries that Swift's modules do not declare; nil if there is none, or if the program is linked without
/// the dynamic linker.
func systemFunction(_ name: String) -> UnsafeMutableRawPointer? { dlsym(nil, name) }

/// What the C library says of one of its objects.
func describe(_ object: RLTypeRef) -> String {
    guard let text = RLCopyDescription(object) else { return "(no description)" }
    defer { release(block: text) }
    return String(cString: text)
}

/// An object that the C library keeps as the info of a context.
///
/// A context is made with the object unretained and with these two functions, so that the library
/// takes its own reference at creation and drops it when its rules say so.
class ContextInfo {
    /// The object behind an info pointer that a call-out was given; the library keeps it alive for
    /// the length of the call-out.
    static func unretained(_ info: UnsafeRawPointer) -> Self {
        let object = Unmanaged<ContextInfo>.fromOpaque(info).takeUnretainedValue()
        return unsafeDowncast(object, to: Self.self)
    }
}

func retainInfo(_ info: UnsafeRawPointer?) -> UnsafeRawPointer? {
    UnsafeRawPointer(Unmanaged<ContextInfo>.fromOpaque(info!).retain().toOpaque())
}

func releaseInfo(_ info: UnsafeRawPointer?) {
    Unmanaged<ContextInfo>.fromOpaque(info!).release()
}

extension Collection<UInt8> {
    /// Whether a C function takes the bytes for another text: it sees them up to the first zero.
    var isCutInC: Bool { contains(0) }
}

extension String {
    /// The same of a name or a path, which then would name another thing. Asked wherever one is given to C.
    var isCutInC: Bool { utf8.isCutInC }
}

extension [UInt8] {
    /// The same bytes, and no more memory than four times what they need: what was made room for before it was known how much comes may
    /// be kept for long.
    func withoutRoom() -> [UInt8] { count < capacity / 4 ? withUnsafeBufferPointer { [UInt8]($0) } : self }
}

/// Calls `body` with the names of the modes as C strings, which live during the call only.
func withNames<Result>(of modes: [RunLoop.Mode], _ body: (UnsafeBufferPointer<RLMode?>) -> Result) -> Result {
    // One buffer has the bytes of all names; the pointers into it are made when it no longer grows.
    var bytes: [CChar] = []
    var starts: [Int] = []
    for mode in modes {
        starts.append(bytes.count)
        mode.rawValue.withCString { name in
            var end = name
            repeat { bytes.append(end.pointee); end += 1 } while end[-1] != 0
        }
    }
    return bytes.withUnsafeBufferPointer { bytes in
        let names = starts.map { start -> RLMode? in bytes.baseAddress! + start }
        return names.withUnsafeBufferPointer(body)
    }
}
