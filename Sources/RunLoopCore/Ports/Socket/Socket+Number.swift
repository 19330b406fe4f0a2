// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// `Socket.numberUses`: two counts and two bits.
///
/// An Invalidate on another thread may give the number away, and the program may get the same one for its next file, while a call
/// of the library is about to use it. So a thread that calls the kernel with the number counts as its user, after an Invalidate
/// no thread becomes one, and the last user closes it. No client code runs in a use.
enum NumberUse {
    /// A user whose calls do not wait.
    static var brief: UInt32 { 1 }
    /// A user that may wait for the peer.
    static var waiting: UInt32 { 1 << 16 }
    /// The last user closes it.
    static var closes: UInt32 { 1 << 30 }
    /// It is given away.
    static var isOver: UInt32 { 1 << 31 }

    static var briefUsers: UInt32 { waiting - 1 }
    static var users: UInt32 { closes - 1 }
    static var waitingUsers: UInt32 { users & ~briefUsers }
}

extension UnsafeMutablePointer where Pointee == Socket {
    /// The number, until `endUse`; -1 if it is given away.
    @inline(never)
    func beginUse(_ use: UInt32 = NumberUse.brief) -> Int32 {
        // Read before the use is counted: an Invalidate takes the number away first, so that a counted use has one.
        let number = native
        if number < 0 { return -1 }
        var uses = pointee.numberUses.load(ordering: .relaxed)
        repeat {
            if uses & NumberUse.isOver != 0 { return -1 }
        } while !pointee.numberUses.replace(&uses, by: uses + use)
        return number
    }

    /// Nothing for -1. Leaves errno alone.
    @inline(never)
    func endUse(of number: Int32, _ use: UInt32 = NumberUse.brief) {
        guard number >= 0 else { return }
        let left = pointee.numberUses.wrappingSubtract(use, ordering: .sequentiallyConsistent).newValue
        guard left == NumberUse.isOver | NumberUse.closes else { return }
        let error = rl_errno()
        rl_sys_close(number)
        rl_set_errno(error)
    }

    /// For the one Invalidate: no thread begins to use the number any more. The last user closes it, perhaps this one; waiting users
    /// are made to end. A number that is not to be closed is the client's at the return.
    func giveAway(_ number: Int32, closes: Bool) {
        let bits = NumberUse.isOver + (closes ? NumberUse.closes : 0)
        let uses = pointee.numberUses.wrappingAdd(bits + NumberUse.brief, ordering: .sequentiallyConsistent).newValue
        if closes && uses & NumberUse.waitingUsers != 0 { shutdown(number, Int32(SHUT_RDWR)) }
        endUse(of: number)
        var others = GivingWay()
        while !closes && pointee.numberUses.load(ordering: .acquiring) & NumberUse.briefUsers != 0 { others.giveWay() }
    }
}
