// SPDX-License-Identifier: MIT
import RunLoopKit
import Synchronization
import Testing

/// A delegate that counts.
private final class Counter: PortDelegate, @unchecked Sendable {
    // Sendable: of one thread.
    var count = 0

    func handle(_ message: PortMessage) { count += 1 }
}

/// A port that waits once in a call that the loop makes, as a thread does that gets no time.
private final class WaitingPort: Port, @unchecked Sendable {
    // Sendable: constant.
    enum Call { case schedule, remove }
    private let call: Call
    /// The next such call waits.
    let waits = Atomic(false)
    let isThere = Promise<Void>()
    let goesOn = Promise<Void>()

    init(in call: Call) { self.call = call }

    private func wait(in call: Call) {
        guard call == self.call, waits.exchange(false, ordering: .acquiringAndReleasing) else { return }
        isThere.fulfil(())
        goesOn.value
    }

    override func schedule(in runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        wait(in: .schedule)
        super.schedule(in: runLoop, forMode: mode)
    }

    override func remove(from runLoop: RunLoop, forMode mode: RunLoop.Mode) {
        wait(in: .remove)
        super.remove(from: runLoop, forMode: mode)
    }
}

/// Which modes a port is in after several changes.
@Suite struct PortModeTests {
    private enum Change {
        case add(RunLoop.Mode), remove(RunLoop.Mode), makeCommon(RunLoop.Mode)
    }

    private static let other = RunLoop.Mode("other")

    /// Whether a mode has the port, and the same of a timer, after the changes; and whether the port receives there.
    private func places(_ make: @escaping @Sendable () -> Port, _ mode: RunLoop.Mode, _ changes: [Change]) -> [Bool] {
        nonisolated(unsafe) let changes = changes
        return onNewThread { () -> [Bool] in
            let loop = RunLoop.current
            let (port, delegate) = (make(), Counter())
            port.setDelegate(delegate)
            let timer = Timer(timeInterval: .seconds(1000), repeats: true) { _ in }
            for change in changes {
                switch change {
                case .add(let mode):
                    loop.add(port, forMode: mode)
                    loop.add(timer, forMode: mode)
                case .remove(let mode):
                    loop.remove(port, forMode: mode)
                    loop.remove(timer, forMode: mode)
                case .makeCommon(let mode): loop.addCommonMode(mode)
                }
            }
            let hasTimer = loop.contains(timer, forMode: mode)
            timer.invalidate()
            // A run returns false where there is nothing to wait for.
            let hasPort = loop.run(mode: mode, before: .now)
            #expect(port.send(before: .distantPast, components: [[1] as [UInt8]], from: nil, reserved: 0))
            while hasPort && delegate.count == 0 { loop.run(mode: mode, before: .distantFuture) }
            port.invalidate()
            return [hasTimer, hasPort, delegate.count == 1]
        }
    }

    @Test("A port is in the modes that a timer would be in: S-NSRL-11, S-MODE-14 to S-MODE-18")
    func modes() {
        let kinds: [@Sendable () -> Port] = [{ MachPort() }, { MessagePort() }, { SocketPort() }]
        let (common, normal, other) = (RunLoop.Mode.common, RunLoop.Mode.default, Self.other)
        let cases: [(mode: RunLoop.Mode, isThere: Bool, [Change])] = [
            (normal, true, [.add(normal), .add(common), .remove(common), .add(normal)]),
            (normal, false, [.add(normal), .add(common), .remove(common)]),
            (normal, false, [.add(common), .remove(normal)]),
            (normal, true, [.add(common), .remove(normal), .add(normal)]),
            (normal, true, [.add(common), .remove(normal), .add(common)]),
            (normal, false, [.add(common), .remove(normal), .add(normal), .remove(common)]),
            (normal, false, [.add(common), .add(normal), .remove(normal)]),
            (normal, true, [.add(normal), .remove(common)]),
            (other, true, [.add(other), .makeCommon(other), .add(common), .remove(common), .add(other)]),
            (other, true, [.add(common), .makeCommon(other), .remove(normal)]),
            (other, false, [.add(common), .makeCommon(other), .remove(other), .makeCommon(normal)]),
            (other, true, [.add(other), .add(common), .remove(common)]),
            (other, false, [.add(other), .makeCommon(other), .add(common), .remove(common)]),
        ]
        for make in kinds {
            for (mode, isThere, changes) in cases {
                #expect(places(make, mode, changes) == [isThere, isThere, isThere], "\(type(of: make())) \(mode.rawValue) \(changes)")
            }
        }
    }

    @Test("A connection to a socket port is in the modes of the port, and no others: S-NSRL-11, S-MODE-18")
    func connections() {
        let results = onNewThread { () -> [Bool] in
            let loop = RunLoop.current
            let (port, delegate) = (SocketPort(), Counter())
            port.setDelegate(delegate)
            loop.addCommonMode(Self.other)
            loop.add(port, forMode: .common)
            loop.remove(port, forMode: .default)
            #expect(port.send(before: .distantPast, components: [[1] as [UInt8]], from: nil, reserved: 0))
            while delegate.count == 0 { loop.run(mode: Self.other, before: .distantFuture) }
            // Of the two sources none is in the mode that the port was taken out of.
            let isInDefault = loop.run(mode: .default, before: .now)
            loop.add(port, forMode: .default)
            #expect(port.send(before: .distantPast, components: [[2] as [UInt8]], from: nil, reserved: 0))
            while delegate.count == 1 { loop.run(mode: .default, before: .distantFuture) }
            loop.remove(port, forMode: .common)
            let isLeft = [.default, Self.other].contains { loop.run(mode: $0, before: .now) }
            port.invalidate()
            return [isInDefault, isLeft]
        }
        #expect(results == [false, false])
    }

    @Test("A port that one thread removes while another adds it is where the later of them put it: S-NSRL-11, S-THR-1")
    func addedWhileRemoved() {
        let hasPort = onNewThread { () -> Bool in
            let loop = RunLoop.current
            let port = WaitingPort(in: .remove)
            loop.add(port, forMode: .default)
            port.waits.store(true, ordering: .releasing)
            let other = TestThread { loop.remove(port, forMode: .default) }
            port.isThere.value
            loop.add(port, forMode: .default)
            port.goesOn.fulfil(())
            other.join()
            defer { port.invalidate() }
            return loop.run(mode: .default, before: .now)
        }
        #expect(hasPort)
    }

    @Test("A port that one thread adds while another removes it is where the later of them put it: S-NSRL-11, S-THR-1")
    func removedWhileAdded() {
        let hasPort = onNewThread { () -> [Bool] in
            let loop = RunLoop.current
            var results: [Bool] = []
            for mode in [RunLoop.Mode.default, .common] {
                let port = WaitingPort(in: .schedule)
                loop.add(port, forMode: Self.other)
                port.waits.store(true, ordering: .releasing)
                let other = TestThread { loop.add(port, forMode: mode) }
                port.isThere.value
                loop.remove(port, forMode: mode)
                port.goesOn.fulfil(())
                other.join()
                results += [loop.run(mode: .default, before: .now), loop.run(mode: Self.other, before: .now)]
                port.invalidate()
            }
            return results
        }
        #expect(hasPort == [false, true, false, true])
    }
}
