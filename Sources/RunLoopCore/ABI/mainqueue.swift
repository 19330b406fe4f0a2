// SPDX-License-Identifier: MIT
import CRunLoop

// The function of <runloop/mainqueue.h>.

@c @implementation
public func RLAttachMainQueue() -> Bool { MainQueue.attach() }
