import CLinux
import Synchronization

/// What a loop's thread has under way for message ports, innermost first. Not in frames of the stack: a callback may end its
/// thread, and what it leaves is then found here. The zero value is empty. Loop's thread only.
struct MessageDuties {
    /// Messages whose callbacks run.
    var frames: MessageFramePointer?
    /// Requests that wait for their replies.
    var waiters: ReplyWaiterPointer?
}

/// A message whose callback runs, in memory from malloc, with a reference to its port.
struct MessageFrame {
    var port: MessagePortPointer
    var message: IncomingMessage
    /// The connection it came on.
    var token: UInt64
    var callout: MessageFunction?
    var context: ClientContext
    /// What the callback gets: the context's info as its `retain` returned it.
    var info: UnsafeMutableRawPointer?
    /// The bracket is open: `context.release` is due.
    var isRetained = false
    /// Descriptors that the client took.
    var taken = 0
    var outer: MessageFramePointer?
}

typealias MessageFramePointer = UnsafeMutablePointer<MessageFrame>

extension UnsafeMutablePointer where Pointee == MessageFrame {
    /// Calls the client, in the bracket of S-MSG-19, and replies. The frame is gone then.
    func serve() {
        let loop = RunLoop.current()
        pointee.outer = loop.pointee.messages.frames
        loop.pointee.messages.frames = self
        if let retain = pointee.context.retain {
            pointee.info = UnsafeMutableRawPointer(mutating: callOutRetain(retain, pointee.info))
            pointee.isRetained = true
            pointee.port.endUseOfContext()
        }
        var reply: OpaquePointer?
        if let callout = pointee.callout {
            let number = pointee.message.header.number
            reply = callOutMessage(callout, pointee.port.handle, number, pointee.message.data!.handle, pointee.info)
        }
        loop.pointee.messages.frames = pointee.outer
        finish(reply.map { DataPointer($0) }, isFailure: false)
    }

    /// What follows the callback, also one that ended its thread: then whoever asked gets a failure.
    fileprivate func finish(_ reply: DataPointer?, isFailure: Bool) {
        let port = pointee.port
        if !pointee.isRetained {
            port.endUseOfContext()
        } else if let release = pointee.context.release {
            callOutRelease(release, pointee.info)
        }
        port.answer(pointee.message.header, pointee.token, reply, isFailure: isFailure)
        reply?.release()
        pointee.message.discard()
        CLinux.free(self)
        port.resumeListener()
        port.release()
    }
}

extension UnsafeMutablePointer where Pointee == MessagePort {
    /// `RLMessagePortTakeDescriptors`: from the message whose callback is the innermost one of this port on this thread.
    func takeDescriptors(_ descriptors: UnsafeMutablePointer<Int32>?, _ capacity: Int) -> Int {
        var frame = RunLoop.current().pointee.messages.frames
        while let current = frame, current.pointee.port != self { frame = current.pointee.outer }
        guard let frame else { return 0 }
        let left = frame.pointee.message.descriptorCount - frame.pointee.taken
        guard let descriptors else { return left }
        let count = Swift.max(0, Swift.min(left, capacity))
        for index in 0..<count {
            let place = frame.pointee.taken + index
            descriptors[index] = frame.pointee.message.descriptors![place]
            frame.pointee.message.descriptors![place] = -1
        }
        frame.pointee.taken += count
        return count
    }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// A callback ended the thread: its messages are answered, and what it waited for comes in vain.
    func abandonMessages() {
        while let frame = pointee.messages.frames {
            pointee.messages.frames = frame.pointee.outer
            frame.finish(nil, isFailure: true)
        }
        while let waiter = pointee.messages.waiters {
            pointee.messages.waiters = waiter.pointee.outer
            let port = waiter.pointee.port
            port.dequeueWaiter(waiter, mayReuse: false)?.release()
            port.release()
        }
    }
}
