// SPDX-License-Identifier: MIT
import CLinux
import Synchronization

/// What the process shows of its loops to others (section 46): whether it does, and the services that do it.
///
/// No lock is taken under this one, and none is waited for: `fork` takes it.
struct Sharing: ~Copyable {
    let lock: Lock
    /// The process wants to be seen: by its own call, by its environment, or because the parent of the fork was. Guarded by `lock`, as all.
    var isWanted: Bool
    /// The environment says something else than yes or no.
    var isMisread: Bool
    /// The service that answers; nil: none does.
    var current: SharingServicePointer?
    /// It and those that are about to end.
    var services: RecordList<SharingService>

    static var shared: UnsafeMutablePointer<Sharing> { rl_sharing().cast(to: Sharing.self) }

    /// So many processes of a user can be seen.
    private static var slots: Int { 4096 }

    static var isOn: Bool {
        shared.pointee.lock.lockWord()
        defer { shared.pointee.lock.unlockWord() }
        return shared.pointee.current != nil
    }

    static func set(_ isOn: Bool) -> Bool {
        shared.pointee.lock.lockWord()
        shared.pointee.isWanted = isOn
        if !isOn, let service = shared.pointee.current {
            shared.pointee.current = nil
            // Nobody connects any more, and the thread wakes up.
            if service.hasListener { shutdown(service.pointee.claim.listener, Int32(SHUT_RDWR)) }
        }
        let problem = beginLocked()
        if problem != nil { shared.pointee.isWanted = false }
        shared.pointee.lock.unlockWord()
        if let problem { tell(problem) }
        return problem == nil
    }

    /// What a loop that waits does if somebody asked for it: true if the service was to be begun.
    static func begin() -> Bool {
        shared.pointee.lock.lockWord()
        let isMisread = shared.pointee.isMisread
        shared.pointee.isMisread = false
        let isDue = isMisread || shared.pointee.isWanted && shared.pointee.current == nil
        let problem = beginLocked()
        shared.pointee.lock.unlockWord()
        if let problem { tell(problem) }
        if isMisread { tell("RUNLOOP_SHARE is neither 0 nor 1") }
        return isDue
    }

    /// Begins the service if it is wanted and not there. What went wrong; nil: nothing.
    private static func beginLocked() -> StaticString? {
        guard shared.pointee.isWanted, shared.pointee.current?.hasListener != true else { return nil }
        let service = SharingServicePointer.make()
        let problem = claim(service) ?? (service.start() ? nil : "no thread")
        if problem == nil {
            shared.pointee.services.insert(service)
            shared.pointee.current = service
        } else {
            service.pointee.claim.release()
            service.free()
        }
        return problem
    }

    /// Takes the least number that no living process has.
    private static func claim(_ service: SharingServicePointer) -> StaticString? {
        for slot in 0..<slots {
            var text = TextBuffer()
            text.append("RunLoop.shared.", slot)
            let name = MessagePortName(text.terminated())
            text.free()
            let outcome = service.pointee.claim.take(name)
            name.free()
            switch outcome {
            case .claimed:
                service.pointee.cookie = rl_socket_cookie(service.pointee.claim.listener)
                return nil
            case .failed(let problem): return problem
            case .taken: continue
            }
        }
        return "too many processes are shared"
    }

    private static func tell(_ problem: StaticString) { Log.write("RLSetShared: ", problem) }

    /// When the library is loaded: what the environment asks for is done when a loop waits (S-OUT-1).
    static func askEnvironment() {
        guard let value = rl_environment("RUNLOOP_SHARE"), value[0] != 0, strcmp(value, "0") != 0 else { return }
        shared.pointee.isWanted = strcmp(value, "1") == 0
        shared.pointee.isMisread = !shared.pointee.isWanted
        process.pointee.lostDescriptor.store(true, ordering: .relaxed)
    }

    /// In the child of `fork`, where the threads of the services are not.
    static func forkedChild() {
        shared.pointee.lock.resetInChild()
        shared.pointee.services.forEach { $0.loseInChild() }
        shared.pointee.services = RecordList()
        shared.pointee.current = nil
        RunLoop.ofThread?.setAccounting(false, for: AccountingAsker.peer)
        if shared.pointee.isWanted { process.pointee.lostDescriptor.store(true, ordering: .relaxed) }
    }
}
