// SPDX-License-Identifier: MIT
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

// What sources of kernel events are asked for, and what they report.

extension RunLoop.Source {
    /// How a source of kernel events reports.
    public struct EventOptions: OptionSet, Hashable, Sendable {
        /// The bits of `RLKernelEventFlags`.
        public let rawValue: UInt32

        /// A set of those bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        /// Made disabled, until ``RunLoop/Source/setReportsEnabled(_:)``.
        public static var disabled: EventOptions { EventOptions(rawValue: 0x0008) }
        /// Invalid after its first report.
        public static var oneShot: EventOptions { EventOptions(rawValue: 0x0010) }
        /// Disabled by each report, before its closure is called.
        public static var disabledByReport: EventOptions { EventOptions(rawValue: 0x0080) }
    }

    /// What happens to files.
    public struct FileChanges: OptionSet, Hashable, Sendable {
        /// The bits of `RLKernelNotes` for files.
        public let rawValue: UInt32

        /// A set of those bits.
        public init(rawValue: UInt32) { self.rawValue = rawValue }

        /// The last name of the file was removed; of a path, its name was.
        public static var deleted: FileChanges { FileChanges(rawValue: 0x0001) }
        /// Contents were written or truncated; of a directory, its list of names changed.
        public static var written: FileChanges { FileChanges(rawValue: 0x0002) }
        /// The file grew.
        public static var extended: FileChanges { FileChanges(rawValue: 0x0004) }
        /// Mode, owner, times or the like were changed.
        public static var attributes: FileChanges { FileChanges(rawValue: 0x0008) }
        /// The number of its names changed.
        public static var linked: FileChanges { FileChanges(rawValue: 0x0010) }
        /// It was renamed; of a path, its name was.
        public static var renamed: FileChanges { FileChanges(rawValue: 0x0020) }
        /// Its file system was unmounted; for paths only.
        public static var revoked: FileChanges { FileChanges(rawValue: 0x0040) }
        /// A descriptor that was open for writing was closed.
        public static var closedAfterWriting: FileChanges { FileChanges(rawValue: 0x0200) }
        /// The path now names another file, or a file where there was none; for paths only.
        public static var replaced: FileChanges { FileChanges(rawValue: 0x10000) }
    }

    /// How a process ended.
    public enum ProcessEnd: Hashable, Sendable {
        /// It exited with this code.
        case exited(CInt)
        /// A signal ended it.
        case signalled(CInt)
        /// It is no child of this process, or somebody else has waited for it.
        case unknown
    }

    /// The clock of a kernel timer.
    public enum EventClock: Hashable, Sendable {
        /// The clock of ``Timer``, which stands still while the system is suspended.
        case uptime
        /// Counts also while the system is suspended.
        case boot
    }

    /// What a trigger does with the existing bits.
    public enum TriggerCombination: Hashable, Sendable {
        /// Leaves them as they are.
        case keep
        /// Keeps those that it has too.
        case and
        /// Adds its own.
        case or
        /// Takes its own in their place.
        case replace

        var note: UInt32 {
            switch self {
            case .keep: 0
            case .and: RLKernelNotes.and.rawValue
            case .or: RLKernelNotes.or.rawValue
            case .replace: RLKernelNotes.copy.rawValue
            }
        }
    }
}
