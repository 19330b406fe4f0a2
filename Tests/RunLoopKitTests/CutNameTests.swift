// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Names and paths of which C code would see the beginning only.
@Suite struct CutNameTests {
    @Test("A name or a path with a zero byte is none, and not the part before it: S-NSP-22")
    func zeroBytes() throws {
        let server = MessagePortNameServer.sharedInstance()
        let name = "RunLoopKitTests.\(UInt64.random(in: .min ... .max))"
        let port = MessagePort()
        #expect(!server.registerPort(port, name: name + "\0one"))
        #expect(server.port(forName: name) == nil)
        #expect(server.registerPort(port, name: name))
        #expect(server.port(forName: name + "\0two") == nil)
        #expect(server.port(forName: name) != nil)
        port.invalidate()
        #expect(throws: RunLoop.SystemError(code: EINVAL)) {
            try RunLoop.Source(watchingPath: "/tmp\0x", for: .written) { _, _ in }
        }
        #expect(throws: RunLoop.SystemError(code: EINVAL)) { try DistributedLock(path: "/tmp/\(name)\0x") }
        let trace = "/tmp/\(name)"
        #expect(throws: RunLoop.TraceError.self) { try RunLoop.startTrace(at: trace + "\0x") }
        #expect(access(trace, F_OK) != 0)
        #expect(SocketPort(remoteWithTCPPort: 1, host: "127.0.0.1\0x") == nil)
        #expect(RunLoop.Socket.Address.ipv4("127.0.0.1\0x", port: 1) == nil)
        #expect(RunLoop.Socket.Address.unix("/tmp/\(name)\0x") == nil)
    }
}
