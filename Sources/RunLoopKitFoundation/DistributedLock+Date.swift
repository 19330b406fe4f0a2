// SPDX-License-Identifier: MIT
extension DistributedLock {
    /// When the lock was locked, by whomever, by the clock of its file system; nil if nobody holds it (S-DLOCK-7).
    ///
    /// Reading it throws what the system says if that cannot be found out.
    public var lockDate: Date? {
        get throws(RunLoop.SystemError) { try lockSeconds.map { Date(timeIntervalSinceReferenceDate: $0) } }
    }
}

extension NSDistributedLock {
    /// When the lock was locked, by whomever; nil if nobody holds it, or that cannot be found out (S-DLOCK-7).
    public var lockDate: Date? { try? lock.lockDate }
}
