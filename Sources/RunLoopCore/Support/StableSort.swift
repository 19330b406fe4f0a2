// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Sorts words so that equal ones keep their order: merge sort above an insertion sort. `room` is for as many words; nil: it is
/// allocated if need be. Words already in order cost one look each.
@inline(never)
func sortStably(
    _ words: UnsafeMutablePointer<UInt>, _ count: Int, room: UnsafeMutablePointer<UInt>? = nil, precedes: @convention(c) (UInt, UInt) -> Bool
) {
    var width = 16
    var low = 0
    while low < count {
        let high = min(low + width, count)
        for index in (low + 1)..<max(high, low + 1) {
            let word = words[index]
            var place = index
            while place > low && precedes(word, words[place - 1]) {
                words[place] = words[place - 1]
                place -= 1
            }
            words[place] = word
        }
        low += width
    }
    if width >= count { return }
    let scratch = room ?? makeArray(UInt.self, count: count)
    while width < count {
        var from = 0
        while from + width < count {
            merge(words + from, width, min(2 * width, count - from), scratch, precedes)
            from += 2 * width
        }
        width *= 2
    }
    if room == nil { CRunLoopLinux.free(scratch) }
}

private func merge(
    _ base: UnsafeMutablePointer<UInt>, _ middle: Int, _ end: Int, _ scratch: UnsafeMutablePointer<UInt>,
    _ precedes: @convention(c) (UInt, UInt) -> Bool
) {
    if !precedes(base[middle], base[middle - 1]) { return }
    memcpy(scratch, base, middle * MemoryLayout<UInt>.stride)
    var left = 0
    var right = middle
    var out = 0
    while left < middle {
        if right < end && precedes(base[right], scratch[left]) {
            base[out] = base[right]
            right += 1
        } else {
            base[out] = scratch[left]
            left += 1
        }
        out += 1
    }
}
