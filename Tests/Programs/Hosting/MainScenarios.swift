// SPDX-License-Identifier: MIT
import FoundationNetworking
import RunLoopKitFoundation

/// What Foundation serves on the main thread alone.
let mainScenarios: [Scenario] = [
    ("file handles", fileHandles),
    ("operation queue", operationQueue),
    ("URL session", urlSession),
]

@Sendable private func fileHandles(_ state: State) -> Bool {
    let pipe = Pipe()
    let handle = pipe.fileHandleForReading
    func observe(_ name: Notification.Name, _ body: @escaping @Sendable (Notification) -> Void) -> any NSObjectProtocol {
        NotificationCenter.default.addObserver(forName: name, object: handle, queue: nil, using: body)
    }
    let one = observe(.NSFileHandleDataAvailable) { _ in
        state.lines.append("available \(Thread.isMainThread)")
        state.lines.append(String(decoding: handle.availableData, as: UTF8.self))
    }
    let two = observe(FileHandle.readCompletionNotification) { note in
        state.lines.append(String(decoding: note.userInfo?[NSFileHandleNotificationDataItem] as? Data ?? Data(), as: UTF8.self))
    }
    let three = observe(.NSFileHandleReadToEndOfFileCompletion) { note in
        state.lines.append(String(decoding: note.userInfo?[NSFileHandleNotificationDataItem] as? Data ?? Data(), as: UTF8.self))
    }
    defer { for observer in [one, two, three] { NotificationCenter.default.removeObserver(observer) } }
    func wait(for count: Int) { while state.lines.count < count { RunLoop.current.run(mode: .default, before: late) } }
    handle.waitForDataInBackgroundAndNotify()
    pipe.fileHandleForWriting.write(Data("first".utf8))
    wait(for: 2)
    handle.waitForDataInBackgroundAndNotify(forModes: [RunLoop.Mode.default])
    pipe.fileHandleForWriting.write(Data("second".utf8))
    wait(for: 4)
    handle.readInBackgroundAndNotify(forModes: [RunLoop.Mode.default])
    pipe.fileHandleForWriting.write(Data("third".utf8))
    pipe.fileHandleForWriting.closeFile()
    wait(for: 5)
    handle.readToEndOfFileInBackgroundAndNotify(forModes: nil)
    wait(for: 6)
    return state.lines == ["available true", "first", "available true", "second", "third", ""]
}

@Sendable private func operationQueue(_ state: State) -> Bool {
    for _ in 0..<20 {
        Thread { OperationQueue.main.addOperation { state.count += 1 } }.start()
    }
    while state.count < 20 { RunLoop.current.run(mode: .default, before: late) }
    // Under a wait of Foundation's in a callback of ours.
    _ = Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
        Thread { OperationQueue.main.addOperation { state.isDone = true } }.start()
        while !state.isDone { _ = FoundationLoop.current.run(mode: .default, before: late) }
        RunLoop.current.stop()
    }
    return RunLoop.current.run(mode: .default) == .stopped
}

/// A server that answers each connection with the same text, on a loop of its own.
private final class Server: @unchecked Sendable {
    let port: UInt16
    private let listener: CInt

    init?() {
        listener = socket(AF_INET, CInt(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = listener
        let isBound = withUnsafeMutableBytes(of: &address) { bytes in
            let pointer = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress!
            return bind(listener, pointer, size) == 0 && listen(listener, 8) == 0 && getsockname(listener, pointer, &size) == 0
        }
        guard isBound else { return nil }
        port = UInt16(bigEndian: address.sin_port)
    }

    func start() {
        Thread { [listener] in
            while true {
                let connection = accept(listener, nil, nil)
                if connection < 0 { return }
                var request: [UInt8] = []
                var buffer = [UInt8](repeating: 0, count: 4096)
                while !String(decoding: request, as: UTF8.self).contains("\r\n\r\n") {
                    let count = read(connection, &buffer, buffer.count)
                    if count <= 0 { break }
                    request += buffer[..<count]
                }
                let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello".utf8)
                _ = answer.withUnsafeBytes { write(connection, $0.baseAddress!, $0.count) }
                close(connection)
            }
        }.start()
    }
}

private final class Delegate: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    let state: State
    init(_ state: State) { self.state = state }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) {
        state.lines.append("\(String(decoding: data, as: UTF8.self)) \(Thread.isMainThread)")
    }
    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        state.lines.append(error == nil ? "done" : "\(error!)")
        state.isDone = true
    }
}

@Sendable private func urlSession(_ state: State) -> Bool {
    guard let server = Server() else { return false }
    server.start()
    let delegate = Delegate(state)
    let session = URLSession(configuration: .ephemeral, delegate: delegate, delegateQueue: .main)
    let url = URL(string: "http://127.0.0.1:\(server.port)/")!
    session.dataTask(with: url).resume()
    let timer = Timer.scheduledTimer(withTimeInterval: 0.001, repeats: true) { _ in state.count += 1 }
    while !state.isDone { RunLoop.current.run(mode: .default, before: late) }
    // Inside a callback of ours, while Foundation's loop waits.
    state.isDone = false
    _ = Timer.scheduledTimer(withTimeInterval: 0, repeats: false) { _ in
        session.dataTask(with: url).resume()
        while !state.isDone { _ = FoundationLoop.current.run(mode: .default, before: late) }
        RunLoop.current.stop()
    }
    _ = RunLoop.current.run(mode: .default)
    timer.invalidate()
    session.invalidateAndCancel()
    return state.lines == ["hello true", "done", "hello true", "done"]
}
