// SPDX-License-Identifier: MIT
import Glibc
import RunLoopKit
import Testing

/// The whole process has one trace.
@Suite(.serialized) struct TraceTests {
    private static func withFolder(_ body: (String) throws -> Void) rethrows {
        var template = Array("/tmp/rl-trace-kit.XXXXXX".utf8CString)
        let folder = String(cString: mkdtemp(&template))
        defer {
            unlink(folder + "/trace")
            rmdir(folder)
        }
        try body(folder)
    }

    private static func contents(of path: String) -> [UInt8] {
        guard let file = fopen(path, "r") else { return [] }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65536)
        while case let count = fread(&buffer, 1, buffer.count, file), count > 0 { bytes += buffer[..<count] }
        return bytes
    }

    /// Whether a text is among the names.
    private static func hasName(_ text: String, _ bytes: [UInt8]) -> Bool {
        func number(at offset: Int) -> Int { bytes[offset..<offset + 8].reversed().reduce(0) { $0 << 8 | Int($1) } }
        let (names, used) = (number(at: 48), number(at: 120))
        return String(decoding: bytes[names..<names + used], as: UTF8.self).contains(text)
    }

    /// S-TRC-13: a trace is on from its start to its stop, has what is done meanwhile with its names, and a second start throws.
    /// In a process of its own: the trace has room for two loops, and those of other tests would take it.
    @Test func aTraceIsStartedAndStopped() async {
        await #expect(processExitsWith: .success) {
            try TraceTests.withFolder { folder in
                precondition(!RunLoop.isTracing)
                try RunLoop.startTrace(at: folder + "/trace", loops: 2)
                precondition(RunLoop.isTracing)
                do throws(RunLoop.TraceError) {
                    try RunLoop.startTrace(at: folder + "/other")
                    preconditionFailure("a second trace is on")
                } catch { precondition(error == .isTracing) }
                let thread = RunLoopThread(name: "traced-kit")
                try thread.start()
                thread.loop.perform {}
                thread.stop()
                thread.join()
                RunLoop.stopTrace()
                precondition(!RunLoop.isTracing)
                let bytes = TraceTests.contents(of: folder + "/trace")
                precondition(bytes.starts(with: Array("RLTRACE1".utf8)))
                precondition(TraceTests.hasName("traced-kit", bytes))
            }
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
