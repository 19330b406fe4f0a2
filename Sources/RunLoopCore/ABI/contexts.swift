// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

/// The C contexts that consist of an info and three functions for it, all with the same members.
protocol InfoContext {
    var info: UnsafeMutableRawPointer? { get }
    var retain: RetainFunction? { get }
    var release: ReleaseFunction? { get }
    var copyDescription: DescribeFunction? { get }

    init(
        version: Int, info: UnsafeMutableRawPointer?, retain: RetainFunction?, release: ReleaseFunction?,
        copyDescription: DescribeFunction?)
}

extension RLObserverContext: InfoContext {}
extension RLTimerContext: InfoContext {}
extension RLSocketContext: InfoContext {}
extension RLMachPortContext: InfoContext {}
extension RLMessagePortContext: InfoContext {}
extension RLKernelEventContext: InfoContext {}

extension InfoContext {
    /// What a Get function returns: an invalid object has no info.
    init(_ own: ClientContext, isValid: Bool) {
        self.init(
            version: 0, info: isValid ? own.info : nil, retain: own.retain, release: own.release, copyDescription: own.copyDescription)
    }
}

extension ClientContext {
    /// NULL: an empty context.
    init<Context: InfoContext>(_ given: UnsafePointer<Context>?) {
        self.init()
        guard let given = given?.pointee else { return }
        self.init(info: given.info, retain: given.retain, release: given.release, copyDescription: given.copyDescription)
    }

    /// The functions alone, for objects that store them as sources do.
    var functions: SourceFunctions { SourceFunctions(retain: retain, release: release, copyDescription: copyDescription) }
}
