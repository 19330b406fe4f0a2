// SPDX-License-Identifier: MIT
// What becomes of an executor in a child of `fork`.
#if InstalledLibrary
internal import CRunLoopInstalled
#else
internal import CRunLoop
#endif

extension RunLoopExecutor {
    /// That of a loop which has one.
    static func known(of loop: RLRunLoopRef?) -> RunLoopExecutor? { table.find(UInt(bitPattern: loop)) }

    /// In a child of `fork`, of the loop that goes on. A thread that does not exist there may have put something in and had yet to post the
    /// function that drains. One more of these does no harm.
    func goOnInChild() { if isWaitingForDrain { post() } }

    /// In a child of `fork`, of a loop whose thread does not exist there. Its structures are whole: `fork` holds all locks, but for
    /// those that only its thread touched.
    ///
    /// - Returns: whom to tell, when the child runs its loop.
    func vanish() -> [@Sendable () -> Void] {
        let (handlers, requests) = RunLoopExecutor.takeAll(of: mail)
        return RunLoopExecutor.calls(handlers, requests)
    }

    private static func takeAll(of mail: borrowing Locked<Mail>) -> ([@Sendable () -> Void], [LoopRequest]) {
        mail.withLock { mail in
            var requests = mail.taken
            mail.entries.appendRequests(to: &requests)
            if !mail.isEnded { mail.entries = LoopEntries() }
            let handlers = Array(mail.endHandlers.values)
            mail.taken = []
            mail.isEnded = true
            mail.endHandlers = [:]
            return (handlers, requests)
        }
    }

    /// What ``vanish()`` does, for an executor that nobody waits for (`ForkedChild.prepare`).
    static func callsOfNothing() -> [@Sendable () -> Void] {
        let mail = Locked(Mail())
        mail.withLock { mail in
            mail.endHandlers[0] = {}
            mail.taken.append(LoopRequest())
            mail.entries.append(.request(LoopRequest()))
        }
        let (handlers, requests) = takeAll(of: mail)
        return calls(handlers, requests)
    }

    private static func calls(_ handlers: [@Sendable () -> Void], _ requests: [LoopRequest]) -> [@Sendable () -> Void] {
        var calls = handlers
        for request in requests { calls.append { request.abandon() } }
        return calls
    }
}
