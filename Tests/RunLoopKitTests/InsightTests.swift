// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// Names, lists of items and descriptions of loops.
@Suite struct InsightTests {
    @Test("RunLoopKit's own initializers take a name (S-SEE-1)")
    func namesOfInitializers() throws {
        #expect(RunLoop.Source(name: "custom") { _ in }.name == "custom")
        #expect(RunLoop.Source { _ in }.name == nil)
        #expect(RunLoop.Source(descriptor: 0, name: "port") { _ in }.name == "port")
        #expect(RunLoop.Observer(activities: .exit, name: "observer") { _, _ in }.name == "observer")
        #expect(try RunLoop.Source(every: .seconds(1), name: "kernel") { _, _ in }.name == "kernel")
        #expect(try RunLoop.Source.whenTriggered(name: "trigger") { _, _, _ in }.name == "trigger")
        #expect(RunLoop.FileDescriptor(0, name: "descriptor") { _, _ in }?.name == "descriptor")
        let socket = try RunLoop.Socket(listeningAt: #require(.ipv4("127.0.0.1", port: 0)), name: "server") { _, _ in }
        #expect(socket.name == "server")
        socket.name = nil
        #expect(socket.name == nil)
        socket.invalidate()
        #expect(Timer(timeInterval: .seconds(1), repeats: false, clock: .boot, name: "timer") { _ in }.debugName == "timer")
        #expect(RunLoopThread(name: "thread").name == "thread")
    }

    @Test("Loops, sources, timers and observers have names, which their descriptions show (S-SEE-1, S-SEE-3)")
    func names() {
        onNewThread {
            let loop = RunLoop.current
            #expect(loop.name == nil)
            loop.name = "a loop ä"
            #expect(loop.name == "a loop ä")
            #expect(loop.description.contains("{name = \""))
            loop.name = nil
            #expect(loop.name == nil)
            let source = RunLoop.Source { _ in }.named("source")
            let timer = Timer(timeInterval: .seconds(1), repeats: false) { _ in }.named("timer")
            let observer = RunLoop.Observer(activities: .exit) { _, _ in }.named("observer")
            #expect(source.name == "source" && timer.debugName == "timer" && observer.name == "observer")
        }
    }

    @Test("Ports of all kinds have names, which the description of their loop shows (S-SEE-1, S-SEE-5, S-SEE-6)")
    func namesOfPorts() {
        onNewThread {
            let loop = RunLoop.current
            let server = SocketPort().named("server")
            let ports = [Port().named("plain"), MachPort().named("mach"), MessagePort().named("message"), server]
            for port in ports { loop.add(port, forMode: .default) }
            #expect(ports.map(\.debugName) == ["plain", "mach", "message", "server"])
            for port in ports { #expect(loop.description.contains("\"\(port.debugName ?? "-")\"")) }
            server.debugName = "renamed"
            ports[1].debugName = nil
            #expect(server.debugName == "renamed" && ports[1].debugName == nil)
            #expect(loop.description.contains("renamed") && !loop.description.contains("\"mach\""))
            for port in ports { port.invalidate() }
            #expect(server.debugName == nil)
            #expect(SocketPort(remoteWithTCPPort: 1, host: nil)?.named("sender").debugName == nil)
        }
    }

    @Test("The items of a mode are listed once, with kind and name, and live as long as the list (S-SEE-4)")
    func items() {
        onNewThread {
            let loop = RunLoop.current
            let mode = RunLoop.Mode("a mode")
            #expect(loop.items(in: mode).isEmpty)
            #expect(!loop.allModes.contains(mode))
            do {
                loop.add(RunLoop.Source { _ in }.named("source"), forMode: mode)
                let timer = Timer(timeInterval: .seconds(1000), repeats: false) { _ in }.named("timer")
                loop.add(timer, forMode: mode)
                loop.add(timer, forMode: .common)
                loop.add(RunLoop.Observer(activities: .exit) { _, _ in }, forMode: mode)
            }
            let items = loop.items(in: mode)
            #expect(items.map(\.kind) == [.source, .timer, .observer])
            #expect(items.map(\.name) == ["source", "timer", nil])
            #expect(items[1].description.contains("name = \"timer\""))
            #expect(loop.items(in: .common) == [items[1]])
            #expect(Set(items + loop.items(in: mode)).count == 3)
        }
    }

    @Test("A dump is the description, with what keeps a mode from being finished (S-SEE-7, S-SEE-10)")
    func dumps() {
        onNewThread {
            let loop = RunLoop.current
            loop.add(Timer(timeInterval: .seconds(3600), repeats: true) { _ in }.named("hourly flush"), forMode: .default)
            var ends: [CInt] = [0, 0]
            #expect(pipe(&ends) == 0)
            #expect(loop.dump(to: ends[1]))
            close(ends[1])
            var bytes = [UInt8](repeating: 0, count: 65536)
            let count = read(ends[0], &bytes, bytes.count)
            close(ends[0])
            let text = String(decoding: bytes[..<max(count, 0)], as: UTF8.self)
            #expect(text.hasPrefix("<RLRunLoop "))
            #expect(text.contains("kept from being finished by 1 timer"))
            #expect(!RunLoop.dumpAll(to: -1))
        }
    }

    @Test("A loop counts what it does, and measures call-outs by item and by size when it is asked to (S-STAT-1, S-STAT-3, S-STAT-5)")
    func statistics() {
        onNewThread {
            let loop = RunLoop.current
            let source = RunLoop.Source { _ in usleep(2000) }
            loop.add(source, forMode: .default)
            #expect(loop.statistics.passes == 0)
            #expect(!loop.measuresCallOuts)
            source.signal()
            loop.run(mode: .default, for: .zero)
            #expect(loop.statistics.sources == 1)
            #expect(loop.statistics.callOuts == 0)
            let item = loop.items(in: .default)[0]
            #expect(item.statistics(in: loop) == nil)
            loop.measuresCallOuts = true
            source.signal()
            loop.run(mode: .default, for: .zero)
            loop.measuresCallOuts = false
            let found = loop.statistics
            #expect(found.runs == 2 && found.passes == 2 && found.sources == 2 && found.callOuts == 1)
            #expect(found.callOutTime >= .milliseconds(2) && found.callOutTime == found.longestCallOut)
            #expect(found.accountedTime >= found.callOutTime)
            #expect(loop.quantile(1, of: .callOuts) >= found.longestCallOut)
            #expect(loop.quantile(0.5, of: .signals) > .zero)
            #expect(loop.quantile(0.5, of: .lateness) == .zero)
            #expect(item.statistics(in: loop)?.calls == 1)
            #expect(item.statistics(in: loop)?.total == found.callOutTime)
        }
    }

    @Test("Others may look at a loop while its thread ends, and afterwards (S-STAT-2, S-SEE-4, S-SEE-10)")
    func endingLoops() async throws {
        let sink = open("/dev/null", O_WRONLY)
        defer { close(sink) }
        for round in 0..<200 {
            let thread = RunLoopThread()
            try thread.start()
            let loop = thread.loop
            loop.measuresCallOuts = true
            let source = RunLoop.Source { _ in }.named("source")
            loop.add(source, forMode: .default)
            source.signal()
            loop.wakeUp()
            let watchers = (0..<2).map { number in
                TestThread {
                    var passes: UInt64 = 0
                    repeat {
                        passes = loop.statistics.passes
                        loop.name = number == 0 ? "a loop" : nil
                        for item in loop.items(in: .default) { _ = (item.name, item.description, item.statistics(in: loop)) }
                        _ = (loop.quantile(.nan, of: .callOuts), loop.quantile(-1, of: .signals), loop.description)
                        _ = number == 0 ? loop.dump(to: sink) : RunLoop.dumpAll(to: sink)
                        if number == 0 { loop.measuresCallOuts = round % 2 == 0 }
                    } while !thread.isFinished
                    return passes <= loop.statistics.passes
                }
            }
            await thread.finish()
            #expect(watchers.map { $0.join() } == [true, true])
            #expect(loop.items(in: .default).isEmpty)
        }
    }

    @Test("A process shows its loops between two calls (S-OUT-1)")
    func sharing() async {
        // The directory and the service are the process's.
        await #expect(processExitsWith: .success) {
            var folder = Array("/tmp/rl-share-XXXXXX".utf8CString)
            setenv("XDG_RUNTIME_DIR", mkdtemp(&folder), 1)
            defer {
                rmdir(folder.withUnsafeBufferPointer { String(cString: $0.baseAddress!) } + "/runloop")
                rmdir(folder)
            }
            #expect(!RunLoop.isShared)
            #expect(RunLoop.share())
            #expect(RunLoop.isShared)
            #expect(RunLoop.share(false))
            #expect(!RunLoop.isShared)
        }
    }
}
