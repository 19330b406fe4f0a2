// SPDX-License-Identifier: MIT
import RunLoopKitXCTest  // was: import XCTest

class TestPortDelegateWithBlock: NSObject, PortDelegate, @unchecked Sendable {
    let block: (PortMessage) -> Void

    init(block: @escaping (PortMessage) -> Void) { self.block = block }

    func handle(_ message: PortMessage) { block(message) }
}

class TestSocketPort: XCTestCase {
    func test_tcpRemoteAndLocal() throws {
        let local = try XCTUnwrap(SocketPort(tcpPort: 0))
        defer { local.invalidate() }
        XCTAssertTrue(local.isValid)
        XCTAssertGreaterThanOrEqual(local.socket, 0)
        XCTAssertEqual(local.protocolFamily, AF_INET)
        let address: Data = local.address
        XCTAssertFalse(address.isEmpty)
        let port = address.withUnsafeBytes { $0.load(fromByteOffset: 2, as: UInt16.self).bigEndian }
        let one = try XCTUnwrap(SocketPort(remoteWithTCPPort: port, host: "localhost"))
        let two = SocketPort(
            remoteWithProtocolFamily: one.protocolFamily, socketType: one.socketType, protocol: one.protocol, address: one.address)
        XCTAssertEqual(one, two)
        XCTAssertTrue(one.isEqual(two))
        XCTAssertEqual(one.hash, two.hash)
    }

    // S-NSP-17.
    func test_protocolOfTCP() throws {
        let tcp = Int32(IPPROTO_TCP)
        let local = try XCTUnwrap(SocketPort(tcpPort: 0))
        defer { local.invalidate() }
        XCTAssertEqual(local.protocol, tcp)
        let one = try XCTUnwrap(SocketPort(remoteWithTCPPort: 7, host: "127.0.0.1"))
        XCTAssertEqual(one.protocol, tcp)
        let two = SocketPort(
            remoteWithProtocolFamily: PF_INET, socketType: Int32(SOCK_STREAM.rawValue), protocol: tcp, address: one.address)
        XCTAssertEqual(one, two)
        let other = SocketPort(
            remoteWithProtocolFamily: PF_INET, socketType: Int32(SOCK_STREAM.rawValue), protocol: 0, address: one.address)
        XCTAssertNotEqual(one, other)
    }

    func test_sendingMessages() throws {
        let local: SocketPort = try XCTUnwrap(SocketPort(tcpPort: 0))
        defer { local.invalidate() }
        let port = local.address.withUnsafeBytes { $0.load(fromByteOffset: 2, as: UInt16.self).bigEndian }
        let remote = try XCTUnwrap(SocketPort(remoteWithTCPPort: port, host: nil))
        let received = expectation(description: "received")
        let data = Data("Welcome".utf8)
        let delegate = TestPortDelegateWithBlock { message in
            XCTAssertEqual(message.components as? [AnyHashable], [data])
            XCTAssertEqual(message.msgid, 42)
            received.fulfill()
        }
        local.setDelegate(delegate)
        RunLoop.main.add(local, forMode: .default)
        XCTAssertTrue(remote.send(before: Date(timeIntervalSinceNow: 5), msgid: 42, components: [data], from: nil, reserved: 0))
        // The port is served while Foundation's loop waits for the expectation.
        waitForExpectations(timeout: 10)
        RunLoop.main.remove(local, forMode: .default)
    }

    func test_messages() {
        let message = PortMessage(sendPort: Port(), receivePort: nil, components: [NSData(), Data()] as [AnyObject])
        message.msgid = 7
        XCTAssertEqual(message.msgid, 7)
        XCTAssertEqual(message.components?.count, 2)
        XCTAssertNil(message.receivePort)
    }

    func test_initPicksANumber() {
        let port = SocketPort()
        XCTAssertTrue(port.isValid)
        port.invalidate()
        XCTAssertFalse(port.isValid)
    }

    // S-NSP-20: the port takes over a socket of the program's.
    func test_ownSocket() throws {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let bound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }
        }
        XCTAssertEqual(bound, 0)
        XCTAssertNil(SocketPort(protocolFamily: AF_INET, socketType: Int32(SOCK_DGRAM.rawValue), protocol: 0, socket: descriptor))
        let port = try XCTUnwrap(
            SocketPort(protocolFamily: AF_INET, socketType: Int32(SOCK_STREAM.rawValue), protocol: 0, socket: descriptor))
        XCTAssertEqual(port.socket, descriptor)
        let number = port.address.withUnsafeBytes { $0.load(fromByteOffset: 2, as: UInt16.self).bigEndian }
        let remote = try XCTUnwrap(SocketPort(remoteWithTCPPort: number, host: "127.0.0.1"))
        let received = expectation(description: "received")
        let delegate = TestPortDelegateWithBlock { _ in received.fulfill() }
        port.setDelegate(delegate)
        RunLoop.current.add(port, forMode: .common)
        XCTAssertTrue(remote.send(before: Date(timeIntervalSinceNow: 5), components: nil, from: nil, reserved: 0))
        waitForExpectations(timeout: 10)
        port.invalidate()
        XCTAssertEqual(fcntl(descriptor, F_GETFD), -1)
    }

    func test_subclass() {
        let port = CountedPort(tcpPort: 0)
        XCTAssertEqual(port?.isValid, true)
        port?.invalidate()
        XCTAssertEqual(port?.invalidations, 1)
    }
}

private class CountedPort: SocketPort, @unchecked Sendable {
    var invalidations = 0
    override func invalidate() {
        invalidations += 1
        super.invalidate()
    }
}
