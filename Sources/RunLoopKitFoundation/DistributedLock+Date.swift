// SPDX-License-Identifier: MIT
extension DistributedLock {
    /// When the lock was locked, whatever its holder, by the clock of its file system; nil if it is not held (S-DLOCK-7).
    ///
    /// Reading it throws the system's error if that cannot be determined.
    public var lockDate: Date? {
        get throws(RunLoop.SystemError) { try lockSeconds.map { Date(timeIntervalSinceReferenceDate: $0) } }
    }
}

extension NSDistributedLock {
    /// When the lock was locked, whatever its holder; nil if it is not held, or that cannot be determined (S-DLOCK-7).
    public var lockDate: Date? { try? lock.lockDate }
}
