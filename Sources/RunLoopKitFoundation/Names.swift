// SPDX-License-Identifier: MIT
@_exported public import Foundation
@_exported public import RunLoopKit

// Which of the two modules a name means in a file that imports this one. A name declared here comes before
// the same name of a module that is seen through this one only; a file that imports Foundation as well has to
// choose for itself.

/// RunLoopKit's run loop, with the forms that take Foundation's dates.
public typealias RunLoop = RunLoopKit.RunLoop

/// RunLoopKit's timer, with the forms that take Foundation's dates.
public typealias Timer = RunLoopKit.Timer

/// Foundation's notification: RunLoopKit's is for programs without Foundation.
public typealias Notification = Foundation.Notification

/// Foundation's notification centre: RunLoopKit's is for programs without Foundation.
public typealias NotificationCenter = Foundation.NotificationCenter

/// Foundation's thread: RunLoopKit's is for programs without Foundation, as the locks are.
public typealias Thread = Foundation.Thread

/// Foundation's quality of service.
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
