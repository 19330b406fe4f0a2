import RunLoopKit

@main
struct Tutorial {
    static func main() async throws {
        let worker = RunLoopThread(name: "worker")
        try worker.start()

        await worker.finish()
        print("the worker has ended")
    }
}
