// SPDX-License-Identifier: MIT
import RunLoopKit
import RunLoopKitFoundation

/// What the library makes something for at its first use.
let uses: [(name: String, body: @Sendable () -> Void)] = [
    ("a loop", { _ = RunLoopKit.RunLoop.current.getRLRunLoop() }),
    ("the main loop", { _ = RunLoopKit.RunLoop.main.getRLRunLoop() }),
    ("an executor", { _ = RunLoopKit.RunLoop.current.executor.isIsolatingCurrentContext() }),
    ("a mode", { _ = RunLoopKit.RunLoop.current.run(mode: .init("First"), for: .zero) }),
    ("the default mode", { _ = RunLoopKit.RunLoop.current.run(mode: .default, for: .zero) }),
    ("all modes", { _ = RunLoopKit.RunLoop.current.allModes }),
    ("a centre", { RunLoopKit.NotificationCenter.default.post(name: .init("First"), object: nil) }),
    ("a queue", { _ = RunLoopKit.NotificationQueue.default }),
    ("a queue for Foundation", { _ = RunLoopKitFoundation.NotificationQueue.default }),
    ("a port", { RunLoopKit.Port().invalidate() }),
    (
        "a Mach-like port",
        {
            let port = MachPort()
            _ = MachPort.wrapping(port.getRLMachPort()) == port
        }
    ),
    (
        "a socket port",
        { RunLoopKit.SocketPort(remoteWithProtocolFamily: 2, socketType: 1, protocol: 0, address: [1, 2, 3]).invalidate() }
    ),
    ("a name", { _ = MessagePortNameServer.sharedInstance().port(forName: "RunLoopKit.FirstUses.none") }),
    ("a date", { _ = RunLoopKit.Timer(fire: .distantFuture, interval: .seconds(1), repeats: true) { _ in }.fireDate }),
    ("a thread", { _ = RunLoopThread.current }),
    ("a thread's object", { _ = RunLoopKit.Thread.current }),
    ("the main thread's object", { _ = RunLoopKit.Thread.main }),
    ("a started thread", { RunLoopKit.Thread.detachNewThread {} }),
    ("a lock", { RunLoopKit.NSLock().withLock {} }),
]
