// SPDX-License-Identifier: MIT
// A file that imports RunLoopKit besides sees the forms with instants and those with dates.
import RunLoopKit
import RunLoopKitFoundation
import Testing

@Suite struct BothFormsTests {
    @Test("A date and an instant of one timer agree: S-NSTM-12")
    func bothForms() {
        let timer = Timer(fire: Date(timeIntervalSinceNow: 100), interval: 0, repeats: false) { _ in }
        let instant: ContinuousClock.Instant = timer.fireDate
        #expect(instant > .now + .seconds(90) && instant <= .now + .seconds(101))
        let again: ContinuousClock.Instant = timer.fireDate
        #expect(instant == again)
        timer.fireDate = instant + .seconds(1000)
        let date: Date = timer.fireDate
        #expect(date > Date(timeIntervalSinceNow: 1000))
        // Without a hint the date is meant.
        let read = timer.fireDate
        #expect(type(of: read) == Date.self)
    }
}
