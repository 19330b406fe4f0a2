// SPDX-License-Identifier: MIT
import Glibc
import RunLoopKit
import Testing

/// The whole process has one trace.
@Suite(.serialized) struct TraceTests {
    private func withFolder(_ body: (String) throws -> Void) rethrows {
        var template = Array("/tmp/rl-trace-kit.XXXXXX".utf8CString)
        let folder = String(cString: mkdtemp(&template))
        defer {
            unlink(folder + "/trace")
            rmdir(folder)
        }
        try body(folder)
    }

    private func contents(of path: String) -> [UInt8] {
        guard let file = fopen(path, "r") else { return [] }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        return bytes
    }

    /// Whether a text is among the names. Other tests run meanwhile, so there may be very many.
    private func hasName(_ text: String, _ bytes: [UInt8]) -> Bool {
        func number(at offset: Int) -> Int { bytes[offset..<offset + 8].reversed().reduce(0) { $0 << 8 | Int($1) } }
        let (names, used) = (number(at: 48), number(at: 120))
        return String(decoding: bytes[names..<names + used], as: UTF8.self).contains(text)
    }

    /// S-TRC-13: a trace is on from its start to its stop, has what is done meanwhile with its names, and a second start throws.
    @Test func aTraceIsStartedAndStopped() throws {
        try withFolder { folder in
            #expect(!RunLoop.isTracing)
            try RunLoop.startTrace(at: folder + "/trace", loops: 2)
            #expect(RunLoop.isTracing)
            #expect(throws: RunLoop.TraceError.isTracing) { try RunLoop.startTrace(at: folder + "/other") }
            let thread = RunLoopThread(name: "traced-kit")
            try thread.start()
            thread.loop.perform {}
            thread.stop()
            thread.join()
            RunLoop.stopTrace()
            #expect(!RunLoop.isTracing)
            let bytes = contents(of: folder + "/trace")
            #expect(bytes.starts(with: Array("RLTRACE1".utf8)))
            // Not in the expectation, which would print all bytes.
            let isNamed = hasName("traced-kit", bytes)
            #expect(isNamed)
        }
    }

    /// S-TRC-13, S-TRC-7: where no file can be made the start throws, and nothing is on.
    @Test func withoutAFileTheStartThrows() {
        RunLoop.setLogHandler { _ in }
        defer { RunLoop.setLogHandler(nil) }
        #expect(throws: RunLoop.TraceError.noFile) { try RunLoop.startTrace(at: "/nowhere/at/all") }
        #expect(!RunLoop.isTracing)
    }
}
