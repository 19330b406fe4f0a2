// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// What the core can do with an object without knowing what kind of object it is. The kinds enter themselves in a table when the
/// library is loaded: `Kinds.swift`.
struct Kind {
    typealias Action = @convention(c) (_ object: UnsafeMutableRawPointer) -> Void
    typealias Hook = @convention(c) () -> Void

    /// The handle's type in C.
    var name: Name

    /// Smaller than a `StaticString`, of which the table would be filled with three words.
    struct Name: ExpressibleByStringLiteral {
        let characters: UnsafePointer<CChar>

        @inline(always)
        init(stringLiteral name: StaticString) {
            characters = UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
        }
    }

    /// Called when the last reference is released: frees the memory.
    var destroy: Action?
    /// Appends the object's state to `<name address>{`.
    var describe: Describe?

    /// In a structure of its own: a call of a function that is an optional itself allocates.
    struct Describe { let call: (UnsafeMutableRawPointer, inout TextBuffer) -> Void }

    // Functions in which few kinds differ from the others; nil: the common behaviour.

    /// Take and drop a client's reference.
    var retain: Action?
    var release: Action?
    var retainCount: (@convention(c) (UnsafeMutableRawPointer) -> Int)?
    /// Compares two objects of this kind; if nil, each is equal only to itself, and its address is its hash.
    var isEqual: (@convention(c) (UnsafeMutableRawPointer, UnsafeMutableRawPointer) -> Bool)?
    var hash: (@convention(c) (UnsafeMutableRawPointer) -> UInt)?

    // `fork`, for the kind as a whole. In the order of `Kinds`, which is that of the locks.

    /// Takes the locks whose structures the child needs in a consistent state; `forkParent` releases them in the parent.
    var forkPrepare: Hook?
    var forkParent: Hook?
    /// In the child, while it has one thread and no function of the client may be called: resets the locks, and replaces what must not be
    /// shared with the parent. No source is made invalid.
    var forkChild: Hook?
    /// Called after `forkChild` of all kinds: makes invalid what the child does not inherit.
    var forkChildEnd: Hook?
    /// Whether a callback on the forking thread's stack uses the object's context and has no hold of its own on the info, so that the last
    /// such callback makes a release that was left to it (S-FORK-5). Called after all `forkChildEnd`; callbacks of other threads are forgotten.
    var usesContextInChild: (@convention(c) (UnsafeMutableRawPointer) -> Bool)?

    /// The next in the order of `Kinds`.
    var next: UnsafeMutablePointer<Kind>?

    static func of(_ type: UInt16) -> UnsafeMutablePointer<Kind> {
        rl_kinds().assumingMemoryBound(to: Kind.self) + Int(type)
    }

    static var tableSize: Int { MemoryLayout<Kind>.stride * ObjectType.end }
}

extension UnsafeMutableRawPointer {
    func cast<Record: ~Copyable>(to type: Record.Type) -> UnsafeMutablePointer<Record> { assumingMemoryBound(to: type) }
}
