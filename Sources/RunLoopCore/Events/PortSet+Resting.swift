// SPDX-License-Identifier: MIT
// Members of a number that are of no interest for a while: those that have used up their limits, and version 1 sources before the last one.
import Synchronization

extension PortSet {
    /// The source has used up its limit. The registration stays, for nothing once it reports something: it shows whether the number still names the
    /// file when the source returns.
    @inline(never)
    func rest(_ source: SourcePointer) { slots.find(Int(source.pointee.port.load(ordering: .relaxed)))?.pointee.rest(source) }

    /// Members that may not perform now, because they have used up their limits in other loops, come to rest in this one: before an event ends a wait or
    /// a counter is read.
    @inline(never)
    func withdrawSpent(_ slot: PortSlotPointer, in mode: ModePointer) {
        let loop = mode.pointee.loop
        var place = slot.pointee.members.count
        while place > 0 {
            place -= 1
            let member = slot.pointee.members[place]
            if member.isLimited { _ = loop.mustWaitLocked(member, member.link(in: loop), at: loop.time) }
        }
    }

    /// The period of the limit is over.
    @inline(never)
    mutating func resume(_ source: SourcePointer, in mode: ModePointer) {
        let index = Int(source.pointee.port.load(ordering: .relaxed))
        guard let slot = slots.find(index), slot.pointee.resume(source) else { return }
        if slot.pointee.state == .registered { return slot.pointee.arm(index, in: epoll) }
        goOn(source, in: mode)
    }

    /// A version 1 source has left a slot: the one before it, if it was the last, is of interest again.
    @inline(never)
    mutating func portLeft(_ slot: PortSlotPointer, in mode: ModePointer) {
        if let last = slot.pointee.lastPort { goOn(last, in: mode) }
    }

    private mutating func goOn(_ source: SourcePointer, in mode: ModePointer) {
        var armed: Readiness = []
        _ = interestGrew(of: source, in: mode, armed: &armed)
    }
}
