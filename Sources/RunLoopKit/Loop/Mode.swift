// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoop {
    /// The name of a mode: a set of sources, timers and observers that a run serves together.
    ///
    /// A mode comes into being when something is first added to it and lives as long as its loop
    /// (S-MODE-2, S-MODE-5). Names compare by their bytes, and end before the first zero byte of the string that they are
    /// made of (S-MODE-1). The empty name is an ordinary one.
    ///
    /// - Foundation: `RunLoop.Mode`, with the same raw values (S-NSRL-15). CF: `CFRunLoopMode`.
    public struct Mode: RawRepresentable, Sendable {
        /// The name as the C library knows it.
        public let rawValue: String

        /// The mode of that name; nothing is made by naming it.
        // What the C library does not see must not make two modes of one.
        public init(rawValue: String) {
            let end = rawValue.utf8.firstIndex(of: 0)
            self.rawValue = end.map { String(rawValue[..<$0]) } ?? rawValue
        }

        /// The mode of that name; nothing is made by naming it.
        public init(_ rawValue: String) { self.init(rawValue: rawValue) }

        /// The mode for ordinary work; every loop has it, and it is always a common mode.
        ///
        /// Foundation: `RunLoop.Mode.default`. CF: `kCFRunLoopDefaultMode`.
        public static let `default` = Mode(String(cString: kRLDefaultMode))

        /// Stands for all common modes of a loop in the calls that add, remove and look for items.
        ///
        /// It is not a mode: running it returns ``RunLoop/RunResult/finished`` at once (S-MODE-19).
        /// ``RunLoop/addCommonMode(_:)`` makes a mode a common one.
        ///
        /// Foundation: `RunLoop.Mode.common`. CF: `kCFRunLoopCommonModes`.
        public static let common = Mode(String(cString: kRLCommonModes))
    }
}

extension RunLoop.Mode: Hashable {
    /// Compares the bytes of the names, as the C library does; Swift's own comparison of strings
    /// also calls two spellings of a letter equal.
    public static func == (one: RunLoop.Mode, other: RunLoop.Mode) -> Bool {
        one.rawValue.utf8.elementsEqual(other.rawValue.utf8)
    }

    /// Feeds the bytes of the name to `hasher`.
    public func hash(into hasher: inout Hasher) {
        for byte in rawValue.utf8 { hasher.combine(byte) }
        hasher.combine(0xFF as UInt8)
    }
}

extension RunLoop {
    /// The mode of the innermost active run, or nil when the loop is not running (S-MODE-8).
    ///
    /// - Threads: any; the answer of another thread's loop may be out of date when it arrives.
    /// - Foundation: `currentMode`. CF: `CFRunLoopCopyCurrentMode`.
    public var currentMode: Mode? {
        guard let name = RLCopyCurrentMode(reference) else { return nil }
        defer { release(block: name) }
        return Mode(String(cString: name))
    }

    /// Every mode the loop has, once each and in no promised order (S-MODE-6).
    ///
    /// ``Mode/common`` is never among them.
    ///
    /// - Threads: any.
    /// - CF: `CFRunLoopCopyAllModes`.
    public var allModes: [Mode] {
        var count: RLIndex = 0
        guard let names = RLCopyAllModes(reference, &count) else { return [] }
        defer { release(block: names) }
        let all = (0..<count).compactMap { index in names[index].map { Mode(String(cString: $0)) } }
        return all.filter { !RunLoopExecutor.ownModes.contains($0) }
    }

    /// Makes a mode a common one, permanently: items added under ``Mode/common`` are added to it, those
    /// there are already at once (S-MODE-12).
    ///
    /// - Threads: any. A custom source's `schedule` closure is called inside, on this thread.
    /// - CF: `CFRunLoopAddCommonMode`.
    public func addCommonMode(_ mode: Mode) {
        mode.rawValue.withCString { RLAddCommonMode(reference, $0) }
    }
}
