// SPDX-License-Identifier: MIT
@testable import RunLoopCore
import Testing

/// What a wait decides for what it saw.
@Suite struct LookTests {
    private static func decide(_ facts: Look.Facts, until: Int64 = Clock.never) -> Look.Decision {
        Look(facts: facts, until: until).decide()
    }

    private static let instant: Int64 = 5

    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let facts: Look.Facts
        let decision: Look.Decision

        init(_ description: String, _ facts: Look.Facts, _ decision: Look.Decision) {
            testDescription = description
            self.facts = facts
            self.decision = decision
        }
    }

    static let cases = [
        Case("Nothing there: sleep. S-PASS-16", [], .sleep(until: instant)),
        Case("Ports that are not always ready are what a sleep waits for. S-PASS-16", [.hasPorts, .hasSockets, .hasInboxes],
             .sleep(until: instant)),
        Case("A port that the kernel refused is tried again. S-ARG-10", [.hasPorts, .isRefused], .sleep(until: instant)),
        Case("Due timers are served at once. S-PASS-10", .timersDue, .serve(.timers)),
        Case("Due timers come before ports if they were not last. S-PASS-10", [.timersDue, .hasPorts, .hasAlwaysReady],
             .serve(.timers)),
        Case("Due timers again, and no port that could be next. S-PASS-10", [.timersDue, .servedTimers], .serve(.timers)),
        Case("Due timers again: a port is asked for first. S-PASS-10", [.timersDue, .servedTimers, .hasPorts], .poll),
        Case("Due timers again: an inbox is next. S-PASS-10", [.timersDue, .servedTimers, .inboxReady], .serve(.inbox)),
        Case("An inbox has its turn. S-PASS-14", [.inboxReady, .hasPorts], .serve(.inbox)),
        Case("After an inbox a descriptor is asked for first. S-PASS-14", [.inboxReady, .servedInbox, .hasPorts], .poll),
        Case("After an inbox there is no descriptor to ask for. S-PASS-14", [.inboxReady, .servedInbox], .serve(.inbox)),
        Case("Timers and an inbox, both after their kind: a descriptor is next. S-PASS-10, S-PASS-14",
             [.timersDue, .servedTimers, .inboxReady, .servedInbox, .hasPorts], .poll),
        Case("The end of the wait still serves a port that is ready. S-PASS-8", [.isOver, .hasPorts], .poll),
        Case("What is always ready is asked for without a sleep. S-SRC-47", [.hasPorts, .hasAlwaysReady], .poll),
        Case("The main dispatch queue without a set. S-GCD-1, S-ARG-10", [.hasPorts, .isRefused, .mainQueueReady], .poll),
        Case("A wake-up that roused the set: nothing was ready before it. S-WAKE-2",
             [.isOver, .isWoken, .wasRoused, .hasPorts], .serve(.nothing)),
        Case("A rousing that was no wake-up says nothing of a poll's end. S-PASS-8", [.isOver, .wasRoused, .hasPorts], .poll),
        Case("A rousing says nothing of what is always ready. S-PASS-8",
             [.isOver, .isWoken, .wasRoused, .hasPorts, .hasAlwaysReady], .poll),
        Case("A rousing, timers that were last: a port may have become ready since. S-PASS-10",
             [.isOver, .isWoken, .wasRoused, .hasPorts, .timersDue, .servedTimers], .poll),
        Case("Nothing polled, the wait is over. S-PASS-16", [.hasPolled, .isOver], .serve(.nothing)),
        Case("Nothing polled: the inbox after all. S-PASS-14", [.hasPolled, .inboxReady, .servedInbox, .timersDue, .hasPorts],
             .serve(.inbox)),
        Case("Nothing polled: the main dispatch queue. S-GCD-1", [.hasPolled, .mainQueueReady, .timersDue], .serve(.mainQueue)),
        Case("Nothing polled: the timers after all. S-PASS-10", [.hasPolled, .timersDue, .servedTimers, .isOver, .hasPorts],
             .serve(.timers)),
        Case("Time that goes on by itself: a port is asked for first. S-CLK-9", [.pollsFirst, .hasPorts], .poll),
        Case("Nothing polled: time may go on. S-CLK-9", [.hasPolled, .pollsFirst, .hasPorts], .sleep(until: instant)),
        Case("What was always ready is not there any more. S-PASS-16", [.hasPolled, .hasAlwaysReady, .hasPorts], .lookAgain),
    ]

    @Test("A wait decides by its look alone", arguments: cases)
    func decides(_ one: Case) {
        #expect(LookTests.decide(one.facts, until: LookTests.instant) == one.decision)
    }

    @Test("Whatever it saw, a wait never sleeps beside something to serve, and ends once it has polled: S-PASS-16")
    func everyLook() {
        let calls: Look.Facts = [.isOver, .timersDue, .inboxReady, .mainQueueReady, .hasAlwaysReady]
        for bits in 0..<UInt32(1) << 16 {
            let facts = Look.Facts(rawValue: bits)
            switch LookTests.decide(facts) {
            case .sleep:
                // A wake-up that roused the set ends the wait; the two without that end come from no look.
                let isImpossible = facts.isSuperset(of: [.isWoken, .wasRoused])
                #expect(facts.isDisjoint(with: calls) && (isImpossible || facts.contains(.hasPolled) == facts.contains(.pollsFirst)))
            case .poll: #expect(!facts.contains(.hasPolled) && !facts.isDisjoint(with: calls.union(.pollsFirst)))
            case .lookAgain:
                #expect(facts.contains(.hasPolled) && facts.isDisjoint(with: calls.subtracting(.hasAlwaysReady)))
            case .serve(.nothing): #expect(facts.contains(.isOver) && facts.isDisjoint(with: [.timersDue, .inboxReady]))
            case .serve(.timers): #expect(facts.contains(.timersDue))
            case .serve(.inbox): #expect(facts.contains(.inboxReady))
            case .serve(.mainQueue): #expect(facts.contains(.mainQueueReady))
            }
        }
    }
}
