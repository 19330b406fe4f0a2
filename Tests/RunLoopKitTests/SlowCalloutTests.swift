// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// Callbacks that take long, and what a service tells its manager.
@Suite struct SlowCalloutTests {
    @Test("A callback that takes long is told while it runs, with loop, mode, kind, item and time (S-SLOW-1, S-SLOW-5, S-SLOW-7)")
    func told() {
        let clock = TestClock()
        let told = Promise<RunLoop.SlowCallout>()
        let loop = onNewThread {
            RunLoop.with(clock: clock) {
                let loop = RunLoop.current
                loop.watchCallouts(longerThan: .seconds(1)) { told.fulfil($0) }
                #expect(loop.slowCalloutTime == .seconds(1))
                Timer.scheduledTimer(withTimeInterval: .seconds(5), repeats: false) { _ in
                    clock.advance(by: .seconds(3))
                    _ = told.value
                }.named("slow one")
                clock.advance(by: .seconds(6))
                return loop
            }
        }
        let slow = told.value
        #expect(slow.loop === loop)
        #expect(slow.mode == .default && slow.kind == .timer && slow.count == 1)
        #expect(slow.item?.name == "slow one")
        #expect(slow.time == .seconds(3))
        #expect(!slow.symbol.isEmpty)
    }

    @Test("The closure of the handler goes when another is set or the watching ends (S-SLOW-6)")
    func handlersGo() {
        let canary = Canary()
        onNewThread {
            let loop = RunLoop.current
            loop.watchCallouts(longerThan: .seconds(1)) { [captured = canary.capture()] _ in captured.touch() }
            loop.watchCallouts(longerThan: .seconds(2))
            #expect(loop.slowCalloutTime == .seconds(2))
            loop.stopWatchingCallouts()
            #expect(loop.slowCalloutTime == nil)
            loop.watchCallouts(longerThan: .zero) { [captured = canary.capture()] _ in captured.touch() }
            #expect(loop.slowCalloutTime == nil)
        }
        #expect(canary.deaths == 2)
    }

    @Test("A service tells its manager that it is ready, that its loop turns and that it ends (S-SDN-1, S-SDN-2)")
    func service() async {
        // The environment is the process's.
        await #expect(processExitsWith: .success) {
            unsetenv("NOTIFY_SOCKET")
            #expect(!ServiceManager.ready())
            let manager = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue), 0)
            defer { close(manager) }
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let name = "@runloopkit-\(getpid())"
            withUnsafeMutableBytes(of: &address.sun_path) { path in
                path.copyBytes(from: name.utf8)
                path[0] = 0
            }
            let size = socklen_t(2 + name.utf8.count)
            let status = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(manager, $0, size) }
            }
            #expect(status == 0)
            setenv("NOTIFY_SOCKET", name, 1)
            defer { unsetenv("NOTIFY_SOCKET") }
            func received() -> String {
                var bytes = [UInt8](repeating: 0, count: 256)
                let count = recv(manager, &bytes, bytes.count, CInt(MSG_DONTWAIT))
                return String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self)
            }
            #expect(ServiceManager.ready(status: "at work"))
            #expect(received() == "READY=1\nSTATUS=at work")
            #expect(ServiceManager.Watchdog() == nil)
            setenv("WATCHDOG_USEC", "2000000", 1)
            defer { unsetenv("WATCHDOG_USEC") }
            let clock = TestClock()
            RunLoop.with(clock: clock) {
                let watchdog = ServiceManager.Watchdog()
                watchdog?.add(to: .current)
                clock.advance(by: .milliseconds(2500))
                watchdog?.invalidate()
            }
            #expect([received(), received(), received(), received()] == ["WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1", ""])
            #expect(ServiceManager.stopping())
            #expect(received() == "STOPPING=1")
        }
    }
}
