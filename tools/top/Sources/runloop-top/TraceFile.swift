// SPDX-License-Identifier: MIT
import Glibc

/// A trace that a process has given, in a file of the current directory (S-OUT-13). The bytes are trusted in nothing: they are looked at only
/// to see whether they begin as a trace does.
enum TraceFile {
    static let longest = 64 << 20
    private static let magic = Array("RLTRACE1".utf8)

    /// Writes a new file; its name, or why there is none.
    static func write(_ bytes: [UInt8], of process: Int) -> (name: String, problem: String?) {
        guard bytes.starts(with: magic), bytes.count <= longest else { return ("", "the process gave no trace") }
        for number in 1...99 {
            let name = "runloop-\(process)\(number == 1 ? "" : ".\(number)").trace"
            let file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
            if file < 0 && errno == EEXIST { continue }
            if file < 0 { return (name, String(cString: strerror(errno))) }
            guard let error = write(bytes, to: file) else { return (name, nil) }
            unlink(name)
            return (name, String(cString: strerror(error)))
        }
        return ("", "there are too many files of this process")
    }

    /// Writes all and closes the file; an errno.
    private static func write(_ bytes: [UInt8], to file: Int32) -> Int32? {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(file, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else {
                let error = count == 0 ? ENOSPC : errno
                close(file)
                return error
            }
            rest = rest.dropFirst(count)
        }
        return close(file) == 0 ? nil : errno
    }
}
