// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// The tables that find the one object there is. Several threads make and drop the only references to the same objects, so that the
/// last reference of one is often that which a table has just given.
@Suite(.timeLimit(.minutes(10))) struct RegistryTests {
    private func churn(_ body: @escaping @Sendable (Int) -> Void) {
        let threads = (0..<4).map { thread in TestThread { for round in 0..<50_000 { body(thread + round) } } }
        for thread in threads { thread.join() }
    }

    @Test("Socket ports of one address are made and dropped by several threads at once: S-NSP-17")
    func socketPorts() {
        let address = [UInt8](repeating: 1, count: 16)
        churn { _ in
            precondition(SocketPort(remoteWithProtocolFamily: 2, socketType: 1, protocol: 0, address: address).isValid)
        }
    }

    @Test("Message ports of one name are found and dropped by several threads at once: S-NSP-14")
    func messagePorts() {
        let port = MessagePort()
        let name = "RegistryTests.\(getpid())"
        #expect(MessagePortNameServer.sharedInstance().registerPort(port, name: name))
        // Accepts the connections.
        let loop = LoopThread()
        loop.loop.add(port, forMode: .default)
        let threads = (0..<4).map { _ in
            TestThread {
                for _ in 0..<5_000 { _ = MessagePortNameServer.sharedInstance().port(forName: name)?.isValid }
            }
        }
        for thread in threads { thread.join() }
        port.invalidate()
        loop.end()
    }

    @Test("Objects of one Mach-like port are made and dropped by several threads at once: S-PORT-3")
    func machPorts() {
        let reference = onNewThread {
            let port = MachPort()
            return UInt(bitPattern: retained(port.getRLMachPort()))
        }
        churn { _ in precondition(MachPort.wrapping(OpaquePointer(bitPattern: reference)!).isValid) }
    }

    @Test("Objects of one loop and its executor are made and dropped by several threads at once: S-NSRL-1")
    func loops() {
        let reference = onNewThread { UInt(bitPattern: retained(RunLoop.current.getRLRunLoop())) }
        churn { _ in
            let loop = RunLoop.wrapping(OpaquePointer(bitPattern: reference)!)
            precondition(loop.executor === RunLoop.wrapping(OpaquePointer(bitPattern: reference)!).executor)
        }
    }
}

/// A reference of the C library's that nobody drops, so that the objects alone die.
@_silgen_name("RLRetain") private func retained(_ object: OpaquePointer) -> OpaquePointer
