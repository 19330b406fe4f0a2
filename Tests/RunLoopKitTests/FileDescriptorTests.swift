// SPDX-License-Identifier: MIT
import RunLoopKit
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Watches of descriptors with closures.
@Suite struct FileDescriptorTests {
    @Test("One report for one enabling, also of what was there before, and none before it: S-FD-2, S-FD-3, S-FD-4, S-FD-9")
    func oneReport() {
        let trace = onNewThread { () -> [String] in
            let trace = Trace()
            let loop = RunLoop.current
            let pipe = Pipe()
            pipe.write(3)
            let watch = RunLoop.FileDescriptor(pipe.readEnd) { watch, readiness in
                trace.add("\(readiness == .read) \(pipe.read(1))")
                // Enabled again as long as something is left.
                if trace.count < 3 { watch.enableCallBacks(.read) }
            }!
            loop.add(watch, forMode: .default)
            trace.add("\(loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true))")
            watch.enableCallBacks(.read)
            trace.add("\(loop.run(mode: .default, returnAfterSourceHandled: true))")
            // Enabled by nobody since: the byte that is left is not told.
            watch.disableCallBacks(.read)
            trace.add("\(loop.run(mode: .default, for: .zero, returnAfterSourceHandled: true))")
            watch.enableCallBacks(.read)
            trace.add("\(loop.run(mode: .default, returnAfterSourceHandled: true))")
            watch.invalidate()
            return trace.all
        }
        #expect(trace == ["timedOut", "true 1", "handledSource", "timedOut", "true 1", "handledSource"])
    }

    @Test("Reading and writing may be told in one call; a request before there is a loop is kept: S-FD-5, S-FD-6")
    func bothKinds() {
        let told = onNewThread { () -> RunLoop.Readiness in
            var ends: [CInt] = [-1, -1]
            #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
            #expect(write(ends[1], "x", 1) == 1)
            let told = Promise<RunLoop.Readiness>()
            let watch = RunLoop.FileDescriptor(ends[0], closeOnInvalidate: true) { _, readiness in told.fulfil(readiness) }!
            watch.enableCallBacks([.read, .write])
            RunLoop.current.add(watch, forMode: .default)
            RunLoop.current.run(mode: .default, returnAfterSourceHandled: true)
            watch.invalidate()
            close(ends[1])
            return told.value
        }
        #expect(told == [.read, .write])
    }

    @Test("Invalidation closes what it was told to, and releases the closure; so does the end of the loop that keeps it: S-FD-1, S-FD-11, S-FD-12, S-FD-13, S-FD-14")
    func invalidation() {
        let canary = Canary()
        let pipe = Pipe()
        // Each has its own: a number that is closed is another test's at once.
        let (number, second) = (dup(pipe.readEnd), dup(pipe.readEnd))
        onNewThread {
            let captured = canary.capture()
            let loop = RunLoop.current
            do {
                let watch = RunLoop.FileDescriptor(number, closeOnInvalidate: true) { [captured] _, _ in captured.touch() }!
                loop.add(watch, forMode: RunLoop.Mode("descriptors"))
                #expect(watch.nativeDescriptor == number)
                #expect(watch.makeRunLoopSource() == watch.makeRunLoopSource())
            }
            #expect(pipe.has(number))
            // The mode keeps it: the same closure is found by the descriptor's other names.
            #expect(loop.allModes.contains(RunLoop.Mode("descriptors")))
            let other = RunLoop.FileDescriptor(pipe.readEnd) { _, _ in }!
            let source = other.makeRunLoopSource()!
            other.invalidate()
            #expect(other.nativeDescriptor == nil && other.makeRunLoopSource() == nil && !source.isValid && !other.isValid)
            #expect(pipe.has(pipe.readEnd))
            #expect(RunLoop.FileDescriptor(-1) { _, _ in } == nil)

            let closing = RunLoop.FileDescriptor(second, closeOnInvalidate: true) { _, _ in }!
            closing.invalidate()
            #expect(!pipe.has(second))
            #expect(canary.deaths == 0)
        }
        #expect(!pipe.has(number))
        #expect(canary.deaths == 1)
    }

    @Test("A mode keeps what was added to it, and the closure goes with it: S-FD-13, S-REF-2")
    func kept() {
        let canary = Canary()
        let told = onNewThread { () -> Int in
            let trace = Trace()
            let pipe = Pipe()
            pipe.write(1)
            let captured = canary.capture()
            let add = {
                let watch = RunLoop.FileDescriptor(pipe.readEnd) { [captured] watch, _ in
                    captured.touch()
                    trace.add("told")
                    watch.invalidate()
                }!
                watch.enableCallBacks(.read)
                RunLoop.current.add(watch, forMode: .default)
            }
            add()
            while RunLoop.current.run(mode: .default, before: .distantFuture) {}
            return trace.count
        }
        #expect(told == 1)
        #expect(canary.deaths == 1)
    }
}
