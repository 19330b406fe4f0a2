// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Elements in order, in memory from malloc that grows and is kept. The zero value is empty.
struct GrowingArray<Element> {
    private var elements: UnsafeMutablePointer<Element>?
    private var capacity = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    subscript(index: Int) -> Element {
        get { elements.unsafelyUnwrapped[index] }
        nonmutating set { elements.unsafelyUnwrapped[index] = newValue }
    }

    @inline(always)
    mutating func append(_ element: Element) {
        if count == capacity { grow() }
        elements.unsafelyUnwrapped[count] = element
        count &+= 1
    }

    @inline(never)
    private mutating func grow() {
        capacity = max(4, capacity * 2)
        elements = growArray(elements, count: capacity)
    }

    mutating func remove(at index: Int) {
        count -= 1
        for place in index..<count { self[place] = self[place + 1] }
    }

    /// Where the first element is for which the body is true; nil: there is none.
    func place(where matches: (Element) -> Bool) -> Int? {
        for place in 0..<count where matches(self[place]) { return place }
        return nil
    }

    /// Keeps those elements, in order, for which the body is true.
    mutating func keep(where isKept: (Element) -> Bool) {
        var kept = 0
        for place in 0..<count where isKept(self[place]) {
            self[kept] = self[place]
            kept += 1
        }
        count = kept
    }

    mutating func free() {
        CRunLoopLinux.free(elements)
        self = GrowingArray()
    }
}
