// SPDX-License-Identifier: MIT
import ExploreHooks

/// For the patches of plants/: whether the fault of this name is to be there in this run.
func planted(_ name: StaticString) -> Bool {
    rlx_planted(UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self))
}
