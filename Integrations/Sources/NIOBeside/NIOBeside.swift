// SPDX-License-Identifier: MIT
// A server of NIO beside a run loop. NIO's threads have the connections. The words that clients sent are counted in a table that
// belongs to a run loop's thread, so that it needs no lock. The main thread is a client: it waits for the server's port and for its
// answers, and its own loop's timer goes on meanwhile.
import NIOCore
import NIOPosix
import RunLoopKit
import RunLoopNIO

/// Used on its loop's thread alone.
final class Words: @unchecked Sendable {
    private var counts: [String: Int] = [:]

    func count(_ word: String) -> Int {
        counts[word, default: 0] += 1
        return counts[word]!
    }
}

/// Answers a word by how often it came. Each read of these short words is one word.
final class Counter: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    let words: Words
    let loop: RunLoop

    init(_ words: Words, on loop: RunLoop) {
        self.words = words
        self.loop = loop
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let word = String(buffer: unwrapInboundIn(data))
        // To the run loop's thread, and back on the connection's event loop.
        context.eventLoop.call(on: loop) { [words] in words.count(word) }.assumeIsolated().whenSuccess { count in
            context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(string: "\(word): \(count)")), promise: nil)
        }
    }
}

/// Gives the main thread what comes, one answer at a time.
final class Answers: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private var waiting: EventLoopPromise<String>?

    func ask(_ word: String, on channel: any Channel) -> EventLoopFuture<String> {
        let promise = channel.eventLoop.makePromise(of: String.self)
        waiting = promise
        channel.writeAndFlush(ByteBuffer(string: word), promise: nil)
        return promise.futureResult
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { waiting?.succeed(String(buffer: unwrapInboundIn(data))) }
}

@main enum NIOBeside {
    static func main() throws {
        let table = RunLoopThread(name: "words")
        try table.start()
        let (words, loop) = (Words(), table.loop)
        let group = MultiThreadedEventLoopGroup.singleton
        let server = try ServerBootstrap(group: group)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Counter(words, on: loop)) }
            }
            .bind(host: "127.0.0.1", port: 0).wait(running: .default)
        let client = try ClientBootstrap(group: group)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Answers()) }
            }
            .connect(to: server.localAddress!).wait(running: .default)

        let timer = Timer(timeInterval: .milliseconds(1), repeats: true) { timer in
            print("main: the timer goes on")
            timer.invalidate()
        }
        RunLoop.main.add(timer, forMode: .default)
        for word in ["loop", "event", "loop"] {
            let answer = client.eventLoop.flatSubmit {
                let answers = client.pipeline.syncOperations
                do { return try answers.handler(type: Answers.self).ask(word, on: client) } catch { return client.eventLoop.makeFailedFuture(error) }
            }
            print("main:", try answer.wait(running: .default))
        }
        // The other way: the event loop's result is told to the main loop.
        client.close().whenComplete(on: .main) { _ in RunLoop.main.stop() }
        while timer.isValid { RunLoop.main.run(mode: .default, for: .seconds(1)) }
        try server.close().wait(running: .default)
        table.stop()
        table.join()
        print("main: ends")
    }
}
