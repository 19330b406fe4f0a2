// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// What is to be performed, and where.
struct Post {
    var perform: PerformFunction
    var release: PerformFunction?
    var info: UnsafeMutableRawPointer?
    var modes: PostModes

    /// Performs it inline, on a thread that may have no loop. What it holds is released even if the function ends its thread.
    func performAndRelease() {
        guard let release else { return callOutPerformed(perform, info) }
        var post = self
        withUnsafeMutablePointer(to: &post) { post in
            callOutGuarded(
                perform, info,
                {
                    let post = $0!.assumingMemoryBound(to: Post.self)
                    callOutPerformedRelease(post.pointee.release!, post.pointee.info)
                }, post)
        }
        callOutPerformedRelease(release, info)
    }
}

/// The modes of a post, in one word whose bits 0 and 2 are clear: one mode, 0 for the pseudo-mode, or, with bit 1 set, a list
/// from malloc in which nil stands for the pseudo-mode and which begins with its length.
struct PostModes {
    let bits: UInt

    private static var listBit: UInt { 2 }

    init(bits: UInt) { self.bits = bits }

    init(mode: ModePointer?) { bits = UInt(bitPattern: mode) }

    /// Takes over the list.
    init(list: UnsafeMutablePointer<UInt>) { bits = UInt(bitPattern: list) | PostModes.listBit }

    private var list: UnsafeMutablePointer<UInt>? {
        bits & PostModes.listBit == 0 ? nil : UnsafeMutablePointer(bitPattern: bits & ~PostModes.listBit)
    }

    @inline(always)
    func permits(_ current: ModePointer) -> Bool {
        bits == UInt(bitPattern: current) || permitsByListOrName(current)
    }

    private func permitsByListOrName(_ current: ModePointer) -> Bool {
        guard let list else { return permits(bits, current) }
        for index in 1...Int(list[0]) where permits(list[index], current) { return true }
        return false
    }

    /// S-BLK-4: the pseudo-mode stands for the modes that are common now.
    private func permits(_ mode: UInt, _ current: ModePointer) -> Bool {
        if mode != 0 { return mode == UInt(bitPattern: current) }
        return current.pointee.isCommon.load(ordering: .relaxed)
    }

    /// Calls the body with each mode; nil stands for the pseudo-mode.
    func forEach(_ body: (ModePointer?) -> Void) {
        guard let list else { return body(ModePointer(bitPattern: bits)) }
        for index in 1...Int(list[0]) { body(ModePointer(bitPattern: list[index])) }
    }

    /// How many modes `forEach` calls its body with.
    var count: Int { list.map { Int($0[0]) } ?? 1 }

    func free() {
        if let list { CRunLoopLinux.free(list) }
    }
}
