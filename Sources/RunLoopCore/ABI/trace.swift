// SPDX-License-Identifier: MIT
import CRunLoop

// The functions of <runloop/trace.h>.

@c @implementation
public func RLTraceStart(_ path: UnsafePointer<CChar>?, _ loops: Int) -> Bool {
    guard let path else { return false }
    return Trace.start(path, loops: loops)
}

@c @implementation
public func RLTraceStop() { Trace.stop() }

@c @implementation
public func RLIsTracing() -> Bool { Trace.isOn }
