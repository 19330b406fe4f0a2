// SPDX-License-Identifier: MIT
#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

extension RunLoop {
    /// The system's error for something that it refused.
    public struct SystemError: Error, Hashable, Sendable, CustomStringConvertible {
        /// The error number, such as `EINVAL`.
        public let code: CInt

        /// The error of a number.
        ///
        /// - Parameter code: such as `EINVAL`.
        public init(code: CInt) { self.code = code }

        /// What `strerror` says of it.
        // Both C libraries give each thread a text of its own, or a constant one.
        public var description: String { String(cString: strerror(code)) }

        static let invalidArgument = EINVAL

        /// The error of the C call that was made last on this thread.
        static var last: SystemError { SystemError(code: errno) }
    }
}
