// SPDX-License-Identifier: MIT
@_exported public import RunLoopKitFoundation
@_exported public import XCTest

// For files that import XCTest, which brings Foundation along: there `import XCTest` becomes `import RunLoopKitXCTest`, and the names
// that RunLoopKitFoundation declares mean RunLoopKit's. It declares them once more, because a name comes before others only in a file
// that imports the module which declares it.

/// RunLoopKit's run loop, with the forms that take Foundation's dates.
public typealias RunLoop = RunLoopKit.RunLoop

/// RunLoopKit's timer, with the forms that take Foundation's dates.
public typealias Timer = RunLoopKit.Timer

/// Foundation's notification.
public typealias Notification = Foundation.Notification

/// Foundation's notification centre.
public typealias NotificationCenter = Foundation.NotificationCenter

/// RunLoopKit's notification queue for Foundation's notifications.
public typealias NotificationQueue = RunLoopKitFoundation.NotificationQueue

/// RunLoopKit's port, with the forms that take Foundation's dates and data.
public typealias Port = RunLoopKit.Port

/// RunLoopKit's Mach-like port.
public typealias NSMachPort = RunLoopKit.MachPort

/// RunLoopKit's message port.
public typealias MessagePort = RunLoopKit.MessagePort

/// RunLoopKit's socket port.
public typealias SocketPort = RunLoopKit.SocketPort

/// RunLoopKit's message between ports.
public typealias PortMessage = RunLoopKit.PortMessage

/// Who gets the messages of a port of RunLoopKit's.
public typealias PortDelegate = RunLoopKit.PortDelegate

/// Foundation's thread.
public typealias Thread = Foundation.Thread

/// Foundation's wish to the scheduler.
public typealias QualityOfService = Foundation.QualityOfService

/// What Foundation's locks are.
public typealias NSLocking = Foundation.NSLocking

/// Foundation's lock.
public typealias NSLock = Foundation.NSLock

/// Foundation's lock that its holder may lock again.
public typealias NSRecursiveLock = Foundation.NSRecursiveLock

/// Foundation's condition.
public typealias NSCondition = Foundation.NSCondition

/// Foundation's lock with a number.
public typealias NSConditionLock = Foundation.NSConditionLock
