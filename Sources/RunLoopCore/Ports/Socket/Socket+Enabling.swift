// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

// Which callbacks of a socket are enabled, and what the loops have to watch for it.

extension UnsafeMutablePointer where Pointee == Socket {
    /// S-SOCK-35: only types it has, and only while it is valid and scheduled.
    func enable(_ types: UInt) {
        guard pointee.scheduled.load(ordering: .sequentiallyConsistent) > 0 else { return }
        let bits = stateBits(types)
        let off = SocketState.denied(bits)
        change(tellingSource: nil) { $0 & ~off | bits }
        // The kernel tells nobody of a connect(2) of the client's own on a Unix socket, whose registration was set aside (S-SOCK-30).
        if pointee.state.load(ordering: .relaxed) & SocketState.connected == 0 { tellSource() }
    }

    func disable(_ types: UInt) {
        guard pointee.scheduled.load(ordering: .sequentiallyConsistent) > 0 else { return }
        var bits = stateBits(types)
        if bits & SocketState.read != 0 { bits |= SocketState.readAgain }
        if bits & SocketState.write != 0 { bits |= SocketState.writeAgain }
        let off = SocketState.denied(bits)
        change(tellingSource: nil) { $0 & ~bits | off }
    }

    func stateBits(_ types: UInt) -> UInt32 {
        let types = types & pointee.types
        var bits: UInt32 = 0
        if types & SocketType.readKinds != 0 { bits |= SocketState.read }
        if types & SocketType.write != 0 { bits |= SocketState.write }
        if types & SocketType.connect != 0 { bits |= SocketState.connect }
        return bits
    }

    /// Changes the state of a valid socket; if that adds to its interest, its source learns of it.
    func change(tellingSource known: SourcePointer?, _ body: (UInt32) -> UInt32) {
        guard replaceState(body) else { return }
        if let known { return known.interestGrew() }
        tellSource()
    }

    /// Changes the state of a valid socket. True if that adds to its interest, and its source has to learn of it.
    func replaceState(_ body: (UInt32) -> UInt32) -> Bool {
        var state = pointee.state.load(ordering: .relaxed)
        var desired: UInt32
        repeat {
            if state & SocketState.invalid != 0 { return false }
            desired = SocketState.aligned(body(state))
        } while !pointee.state.replace(&state, by: desired)
        return Watch.isNews(from: state, to: desired)
    }

    /// Makes the kernel check anew.
    func tellSource() {
        guard let source = source() else { return }
        source.interestGrew()
        source.release()
    }

    /// The source came into a mode: the first one enables everything (S-SOCK-19).
    func wasScheduled() {
        let bits = stateBits(.max)
        if schedule(1, { count, state in count == 1 ? state & ~SocketState.denied | bits : state }) { tellSource() }
    }

    /// If it is being closed, nothing is left that would continue the close (S-SOCK-63).
    func wasCancelled() {
        var isOver = false
        let all = SocketState.read | SocketState.write | SocketState.connect | SocketState.readAgain | SocketState.writeAgain
        _ = schedule(-1) { count, state in
            isOver = count == 0 && state & SocketState.ends != 0
            return count == 0 ? state & ~all | SocketState.denied : state
        }
        if isOver { invalidate() }
    }

    /// Count and state change together: one thread may take the source out of its last mode while another one adds it elsewhere.
    private func schedule(_ difference: Int32, _ body: (Int32, UInt32) -> UInt32) -> Bool {
        process.pointee.registryLock.lockWord()
        defer { process.pointee.registryLock.unlockWord() }
        let count = pointee.scheduled.wrappingAdd(difference, ordering: .sequentiallyConsistent).newValue
        return replaceState { body(count, $0) }
    }

    /// In the child of `fork`: it is in no loop but the forking thread's, and no thread but that one reports (S-FORK-3). Reports
    /// of vanished threads have ended.
    func renewInChild(_ own: RunLoopPointer?) {
        pointee.numberUses.store(0, ordering: .relaxed)
        let (count: reports, uses: uses) = reports(on: own)
        let link = own.flatMap { pointee.source?.link(in: $0) }
        let count = Int32(link?.pointee.modes.count ?? 0)
        let former = pointee.scheduled.exchange(count, ordering: .relaxed)
        renewWriterInChild()
        let enabled = stateBits(.max)
        change(tellingSource: nil) { state in
            var state = state & ~(SocketState.uses | SocketState.flushes) | uses * SocketState.use
            if state & SocketState.ends != 0 { state |= SocketState.lingers }
            if reports == 0 { state = finished(state, SocketReport.Claim(reads: true, writes: true)) }
            if count == 0 { state &= ~(SocketState.read | SocketState.write | SocketState.connect) }
            return count > 0 && former == 0 ? state | enabled : state
        }
    }

    /// For one that is invalid, and so not in the table. How many uses are left.
    func forgetVanishedUses() -> UInt32 {
        let uses = reports(on: RunLoop.ofThread).uses
        pointee.state.store(pointee.state.load(ordering: .relaxed) & ~SocketState.uses + uses * SocketState.use, ordering: .relaxed)
        return uses
    }

    /// How many reports of the socket are on the stack of the loop's thread, the caller's, and how many of them use the context's own
    /// reference to the info.
    func reports(on loop: RunLoopPointer?) -> (count: UInt32, uses: UInt32) {
        var found: (count: UInt32, uses: UInt32) = (0, 0)
        loop?.pointee.calls.contains(SocketReport.self) { report in
            if report.pointee.socket == self {
                found.count += 1
                if report.pointee.usesInfo { found.uses += 1 }
            }
            return false
        }
        return found
    }
}
