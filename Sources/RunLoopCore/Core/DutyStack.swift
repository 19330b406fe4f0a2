import CLinux

/// What a loop's thread owes for callbacks that are on its stack, innermost last: references to be dropped and states to be put
/// right after them. Not in frames of the stack: a callback may end its thread, and what it leaves is then found here
/// (`abandonCallbacks`). Loop's thread only, under the lock where others look too. The zero value is empty.
struct DutyStack<Duty> {
    private var members: UnsafeMutablePointer<Duty>?
    private var capacity = 0
    private(set) var count = 0

    subscript(index: Int) -> Duty { members.unsafelyUnwrapped[index] }

    /// The innermost one. A pointer to it would not survive a nested call.
    var last: Duty {
        get { members.unsafelyUnwrapped[count - 1] }
        nonmutating set { members.unsafelyUnwrapped[count - 1] = newValue }
    }

    @inline(__always)
    mutating func push(_ duty: Duty) {
        if count == capacity { grow() }
        members.unsafelyUnwrapped[count] = duty
        count &+= 1
    }

    @inline(never)
    private mutating func grow() {
        capacity = max(4, capacity * 2)
        members = growArray(members, count: capacity)
    }

    @inline(__always)
    mutating func pop() -> Duty {
        count &-= 1
        return members.unsafelyUnwrapped[count]
    }

    mutating func free() {
        CLinux.free(members)
        members = nil
        capacity = 0
        count = 0
    }
}
