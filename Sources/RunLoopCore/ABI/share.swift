// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

// The functions of <runloop/share.h>.

@c @implementation
public func RLSetShared(_ isOn: Bool) -> Bool { Sharing.set(isOn) }

@c @implementation
public func RLIsShared() -> Bool { Sharing.isOn }
