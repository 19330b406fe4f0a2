// SPDX-License-Identifier: MIT
/// The modes of a loop that something is in which is no item of the loop's itself, by the rules for items (S-MODE-14 to 18).
///
/// The functions are told which modes are common, because that is not to be asked under the lock that guards the set.
struct ModeSet {
    /// In the common modes, those included that become common later.
    private(set) var isCommon = false
    /// Added to these by their names.
    private(set) var own: Set<RunLoop.Mode> = []
    /// Common modes that it was taken out of by their names, and is not in though it is in the common modes.
    private var left: Set<RunLoop.Mode> = []

    var isEmpty: Bool { !isCommon && own.isEmpty }

    /// The modes, and ``RunLoop/Mode/common``, that it has to be taken out of to be in none.
    var names: [RunLoop.Mode] { (isCommon ? [.common] : []) + own }

    /// Whether a change of the mode depends on which modes are common.
    func dependsOnCommonModes(_ mode: RunLoop.Mode) -> Bool { isCommon && (mode != .common || !own.isEmpty) }

    func contains(_ mode: RunLoop.Mode, common: Set<RunLoop.Mode>) -> Bool {
        own.contains(mode) || isCommon && common.contains(mode) && !left.contains(mode)
    }

    /// False if nothing has changed.
    mutating func insert(_ mode: RunLoop.Mode, common: Set<RunLoop.Mode>) -> Bool {
        if mode == .common {
            let isNew = !isCommon || !left.isEmpty
            (isCommon, left) = (true, [])
            return isNew
        }
        if contains(mode, common: common) { return false }
        if left.remove(mode) == nil { own.insert(mode) }
        return true
    }

    /// False if nothing has changed.
    mutating func remove(_ mode: RunLoop.Mode, common: Set<RunLoop.Mode>) -> Bool {
        if mode == .common {
            if !isCommon { return false }
            (isCommon, left) = (false, [])
            own.subtract(common)
            return true
        }
        guard contains(mode, common: common) else { return false }
        own.remove(mode)
        if isCommon && common.contains(mode) { left.insert(mode) }
        return true
    }

    /// Brings an item to where this is, wherever it is among these modes, the common ones and others that it was in.
    func place(
        also others: Set<RunLoop.Mode>, common: @autoclosure () -> Set<RunLoop.Mode>, add: (RunLoop.Mode) -> Void,
        remove: (RunLoop.Mode) -> Void
    ) {
        // First this, which changes the others.
        if isCommon { add(.common) } else { remove(.common) }
        let modes = others.union(own).union(left).subtracting([.common])
        let common = isCommon && !modes.isEmpty ? common() : []
        for mode in modes {
            if contains(mode, common: common) { add(mode) } else { remove(mode) }
        }
    }
}

extension RunLoop {
    /// The modes that are common now. The C library tells it of its items only: an observer of nothing goes where a common item does.
    var commonModes: Set<Mode> {
        let probe = Observer(activities: []) { _, _ in }
        add(probe, forMode: .common)
        defer { probe.invalidate() }
        return Set(allModes.filter { contains(probe, forMode: $0) })
    }
}
