// SPDX-License-Identifier: MIT
internal import CRunLoopFoundation

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// A port of Foundation's loop that is ready when that waits in a pass which another loop makes it make. Owned by the thread's
/// `FoundationHost`.
///
/// What was ready before is served first, one event in a pass; then this source is, and ends the run.
final class PassEnd {
    private let foundation: UnsafeMutableRawPointer
    /// An eventfd, whose count Foundation takes.
    private var descriptor: CInt = -1
    private var source: UnsafeMutableRawPointer?
    /// The mode that the source is in, retained. It keeps that mode from being empty.
    private var mode: UnsafeMutableRawPointer?
    /// The source has performed.
    var wasServed = false

    init(_ foundation: UnsafeMutableRawPointer) {
        self.foundation = foundation
    }

    /// Whether it can be used, as it can until its end; false if no descriptor is available.
    func begin() -> Bool {
        if source != nil { return true }
        descriptor = rlf_make_event()
        if descriptor < 0 { return false }
        source = rlf_make_source(
            { info in Unmanaged<PassEnd>.fromOpaque(info).takeUnretainedValue().descriptor },
            { info in
                let end = Unmanaged<PassEnd>.fromOpaque(info).takeUnretainedValue()
                end.wasServed = true
                end.withdraw()
            },
            Unmanaged.passUnretained(self).toOpaque())
        return source != nil
    }

    /// Foundation is about to wait.
    func offer(in name: UnsafeMutableRawPointer) {
        guard let source else { return }
        if mode != name {
            withdraw()
            mode = rlf_retain(name)
            rlf_add_source(foundation, source, name)
        }
        var one: UInt64 = 1
        _ = write(descriptor, &one, 8)
    }

    /// Foundation begins a pass. One offered in the pass before, in whose wait something else was served, must not be served in this
    /// one, which may handle a signalled source and then polls: the end of the run could not be told from the source's.
    func takeBack() {
        if mode == nil { return }
        var count: UInt64 = 0
        _ = read(descriptor, &count, 8)
    }

    func withdraw() {
        guard let name = mode, let source else { return }
        takeBack()
        mode = nil
        rlf_remove_source(foundation, source, name)
        rlf_release(name)
    }

    func end() {
        withdraw()
        if let source {
            rlf_invalidate_source(source)
            rlf_release(source)
        }
        source = nil
        if descriptor >= 0 { close(descriptor) }
        descriptor = -1
    }
}
