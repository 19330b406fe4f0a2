// SPDX-License-Identifier: MIT
// Foundation's run loop and a C library on librunloop-cf in one process.
import Foundation

@_silgen_name("clock_ticks") func clockTicks() -> Int32
@_silgen_name("clock_loop") func clockLoop() -> UnsafeRawPointer
@_silgen_name("clock_length") func clockLength(_ text: UnsafePointer<CChar>) -> Int
@_silgen_name("CFRunLoopGetCurrent") func foundationLoop() -> UnsafeRawPointer

var fires = 0
var ticks: Int32 = 0
let timer = Timer(timeInterval: 0.001, repeats: true) { timer in
    fires += 1
    // One loop inside a callback of the other.
    ticks += clockTicks()
    if fires == 3 { timer.invalidate() }
}
RunLoop.main.add(timer, forMode: .default)
while timer.isValid, RunLoop.main.run(mode: .default, before: Date() + 10) {}
let word = NSString(string: "grün")
let length = clockLength("grün")
print("\(fires) fires, \(ticks) ticks, lengths \(word.length) and \(length)")
exit(fires == 3 && ticks == 9 && clockLoop() != foundationLoop() && word.length == 4 && length == 4 ? 0 : 1)
