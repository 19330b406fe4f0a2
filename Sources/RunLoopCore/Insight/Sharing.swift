// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// Sharing of the state of the loops with other processes (section 46): whether it is on, and the services that do it.
///
/// A thread that holds this lock takes no other lock and waits for none: `fork` takes it.
struct Sharing: ~Copyable {
    let lock: Lock
    /// Sharing was requested: by a call, by the environment, or in the parent of the fork. Guarded by `lock`, like all fields.
    var isWanted: Bool
    /// The environment variable is neither yes nor no.
    var isMisread: Bool
    /// `lostDescriptor` was set for a request, which a call may answer before a loop finds it.
    var isAnnounced: Bool
    /// There is a thread that tries again what a loop could not begin.
    var isTriedAgain: Bool
    /// The service that answers; nil: none does.
    var current: SharingServicePointer?
    /// The current service and those that are about to end.
    var services: RecordList<SharingService>

    static var shared: UnsafeMutablePointer<Sharing> { rl_sharing().cast(to: Sharing.self) }

    /// The number of processes of a user that can share at once.
    private static var slots: Int { 4096 }
    private static var mostFailures: Int { 16 }

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
            // No process can connect any more, and the thread wakes up.
            if service.hasListener { shutdown(service.pointee.claim.listener, Int32(SHUT_RDWR)) }
        }
        let problem = beginLocked()
        if problem != nil { shared.pointee.isWanted = false }
        shared.pointee.lock.unlockWord()
        if let problem { tell(problem) }
        return problem == nil
    }

    /// Called by a waiting loop: begins the service if that was requested. True if the loop was to find that.
    static func begin() -> Bool {
        shared.pointee.lock.lockWord()
        let isMisread = shared.pointee.isMisread
        shared.pointee.isMisread = false
        // A thread that tries again has told of the problem.
        let isTriedAgain = shared.pointee.isTriedAgain
        let isDue = shared.pointee.isAnnounced || shared.pointee.isWanted && shared.pointee.current == nil && !isTriedAgain
        shared.pointee.isAnnounced = false
        let problem = beginLocked()
        if problem != nil && !isTriedAgain { shared.pointee.isTriedAgain = rl_start_thread({ _ in Sharing.tryAgain() }, nil) }
        shared.pointee.lock.unlockWord()
        if let problem, !isTriedAgain { tell(problem) }
        if isMisread { tell("RUNLOOP_SHARE is neither 0 nor 1") }
        return isDue
    }

    /// The function of a thread, which ends when the service runs or is not wanted any more. No loop may ever wait anew (S-OUT-7).
    private static func tryAgain() {
        var delay = Clock.retryDelay
        var goesOn = true
        while goesOn {
            var pause = timespec(nanoseconds: delay)
            rl_sys_nanosleep(&pause)
            delay = Swift.min(2 * delay, SharingService.longestWait)
            shared.pointee.lock.lockWord()
            goesOn = beginLocked() != nil
            shared.pointee.isTriedAgain = goesOn
            shared.pointee.lock.unlockWord()
        }
    }

    /// Begins the service if it is wanted and does not run. Returns what went wrong; nil: nothing.
    @inline(never)
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

    /// Claims the lowest number that no living process has.
    private static func claim(_ service: SharingServicePointer) -> StaticString? {
        var problem: StaticString = "too many processes are shared"
        var failures = 0
        for slot in 0..<slots {
            var text = TextBuffer()
            text.append("RunLoop.shared.", slot)
            let name = MessagePortName(text.terminated())
            text.free()
            let outcome = service.pointee.claim.take(name)
            name.free()
            switch outcome {
            case .claimed:
                // A port's backlog would hold an honest peer behind thousands of connections that are closed already.
                _ = listen(service.pointee.claim.listener, SharingService.backlog)
                service.pointee.cookie = rl_socket_cookie(service.pointee.claim.listener)
                return nil
            // Something else may be in some places; what fails in many fails in all.
            case .failed(let other):
                problem = other
                failures += 1
                if failures == mostFailures { return problem }
            case .taken: continue
            }
        }
        return problem
    }

    private static func tell(_ problem: StaticString) { Log.write("RLSetShared: ", problem) }

    /// Called when the library is loaded. A service that the environment requests begins when a loop waits (S-OUT-1).
    static func askEnvironment() {
        guard let value = rl_environment("RUNLOOP_SHARE"), value[0] != 0, strcmp(value, "0") != 0 else { return }
        shared.pointee.isWanted = strcmp(value, "1") == 0
        shared.pointee.isMisread = !shared.pointee.isWanted
        announceLocked()
    }

    /// In the child of `fork`, where the services' threads do not exist.
    static func forkedChild() {
        shared.pointee.lock.resetInChild()
        var own: SharingServicePointer?
        shared.pointee.services.forEach { if !$0.loseInChild() { own = $0 } }
        shared.pointee.services = RecordList()
        if let own {
            own.pointee.previous = nil
            shared.pointee.services.insert(own)
        }
        shared.pointee.current = nil
        shared.pointee.isTriedAgain = false
        RunLoop.ofThread?.setAccounting(false, for: AccountingAsker.peer)
        if shared.pointee.isWanted { announceLocked() }
    }

    /// Has a waiting loop call `begin`.
    private static func announceLocked() {
        shared.pointee.isAnnounced = true
        Losses.note()
    }
}
