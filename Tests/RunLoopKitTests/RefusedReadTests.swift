// SPDX-License-Identifier: MIT
@testable import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

private final class Receiver: PortDelegate, Sendable {
    let count = Atomic(0)

    func handle(_ message: PortMessage) { count.add(1, ordering: .relaxed) }
}

/// `prctl`, with its arguments as words: Swift calls no function with a variable number of them.
@_silgen_name("prctl")
private func control(_ operation: CInt, _ second: UInt, _ third: UInt, _ fourth: UInt, _ fifth: UInt) -> CInt

/// An instruction of a filter (bpf(2)).
private struct Instruction {
    var code: UInt16
    var whenTrue: UInt8 = 0
    var whenFalse: UInt8 = 0
    var value: UInt32
}

private struct Filter {
    var count: UInt16
    var instructions: UnsafeMutablePointer<Instruction>
}

/// From now on the kernel refuses the calling thread what reads from sockets for lack of memory.
private func refuseReads() -> Bool {
    #if arch(x86_64)
    let (recvfrom, recvmsg): (UInt32, UInt32) = (45, 47)
    #else
    let (recvfrom, recvmsg): (UInt32, UInt32) = (207, 212)
    #endif
    var instructions = [
        Instruction(code: 0x20, value: 0),  // the number of the call
        Instruction(code: 0x15, whenTrue: 1, value: recvfrom),
        Instruction(code: 0x15, whenFalse: 1, value: recvmsg),
        Instruction(code: 0x06, value: 0x0005_0000 | UInt32(ENOBUFS)),
        Instruction(code: 0x06, value: 0x7fff_0000),  // allowed
    ]
    return instructions.withUnsafeMutableBufferPointer { instructions in
        var filter = Filter(count: UInt16(instructions.count), instructions: instructions.baseAddress!)
        // PR_SET_NO_NEW_PRIVS; PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        return control(38, 1, 0, 0, 0) == 0 && withUnsafePointer(to: &filter) { control(22, 2, UInt(bitPattern: $0), 0, 0) == 0 }
    }
}

/// What the kernel has no memory to read.
@Suite(.timeLimit(.minutes(10))) struct RefusedReadTests {
    @Test("What the kernel has no memory to read for a port stays queued, is tried again after a while, and comes: S-ARG-13", arguments: [false, true])
    func memory(isDatagram: Bool) throws {
        let path = "/tmp/runloopkit-\(getpid())-\(UInt32.random(in: .min ... .max))"
        defer { unlink(path) }
        let type = isDatagram ? SocketCalls.datagram : SocketCalls.stream
        let address = RunLoop.Socket.Address.unix(path)!.bytes
        let port = try #require(SocketPort(protocolFamily: AF_UNIX, socketType: type, protocol: 0, address: address))
        let receiver = Receiver()
        port.setDelegate(receiver)
        let listener = port.listener!
        let remote = SocketPort(remoteWithProtocolFamily: AF_UNIX, socketType: type, protocol: 0, address: address)
        #expect(remote.send(before: .distantFuture, components: [[1] as [UInt8]], from: nil, reserved: 0))
        let isRefused = onNewThread { () -> Bool in
            if !refuseReads() { return false }
            RunLoop.current.add(port, forMode: .default)
            // Each ends after a source: the listener's first, if it is one, then what is refused, each time after a pause.
            for number in 0..<3 {
                RunLoop.current.run(mode: .default, before: .distantFuture)
                let isPaused = listener.state.withLock { !$0.pauses.isEmpty }
                #expect(isPaused || number == 0)
            }
            RunLoop.current.remove(port, forMode: .default)
            return true
        }
        // Some systems have no filters.
        if isRefused { #expect(receiver.count.load(ordering: .relaxed) == 0) }
        onNewThread {
            RunLoop.current.add(port, forMode: .default)
            while receiver.count.load(ordering: .relaxed) == 0 { RunLoop.current.run(mode: .default, before: .distantFuture) }
            port.invalidate()
        }
        withExtendedLifetime(receiver) {}
    }

    @Test("A port that another thread removes and adds again while the loop pauses one of its sources leaves no timer in the loop, and receives: S-NSRL-11, S-ARG-13")
    func removedWhilePausing() async throws {
        let path = "/tmp/runloopkit-\(getpid())-\(UInt32.random(in: .min ... .max))"
        defer { unlink(path) }
        let address = RunLoop.Socket.Address.unix(path)!.bytes
        let port = try #require(SocketPort(protocolFamily: AF_UNIX, socketType: SocketCalls.datagram, protocol: 0, address: address))
        let receiver = Receiver()
        port.setDelegate(receiver)
        let remote = SocketPort(remoteWithProtocolFamily: AF_UNIX, socketType: SocketCalls.datagram, protocol: 0, address: address)
        #expect(remote.send(before: .distantFuture, components: [[1] as [UInt8]], from: nil, reserved: 0))
        let thread = RunLoopThread(name: "pauses")
        try thread.start()
        let loop = thread.loop
        loop.perform { _ = refuseReads() }
        for _ in 0..<scaled(8000) {
            loop.add(port, forMode: .default)
            // Long enough for the loop to try, now and then.
            for _ in 0..<Int.random(in: 0..<400) { _ = getppid() }
            loop.remove(port, forMode: .default)
        }
        // A timer that belongs to no pause ends when it fires.
        var timers = 0
        for _ in 0..<100 {
            timers = loop.items(in: .default).count { $0.description.contains("RLTimer") }
            if timers == 0 { break }
            usleep(50_000)
        }
        #expect(timers == 0)
        await thread.finish()
        onNewThread {
            RunLoop.current.add(port, forMode: .default)
            while receiver.count.load(ordering: .relaxed) == 0 { RunLoop.current.run(mode: .default, before: .distantFuture) }
            port.invalidate()
        }
        withExtendedLifetime(receiver) {}
    }
}
