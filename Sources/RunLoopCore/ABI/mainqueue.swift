import CRunLoop

// The function of <runloop/mainqueue.h>.

@_cdecl("RLAttachMainQueue") @implementation
public func RLAttachMainQueue() -> Bool { MainQueue.attach() }
