// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// A message whose callback runs, in memory from malloc, with a reference to its port.
struct MessageFrame {
    var port: MessagePortPointer
    var message: IncomingMessage
    /// The connection it came on.
    var token: UInt64
    var callout: MessageFunction?
    /// This message uses its info until a bracket is open.
    var context: ClientContext
    var usesContext = true
    /// Descriptors that the client took.
    var taken = 0
}

typealias MessageFramePointer = UnsafeMutablePointer<MessageFrame>

extension UnsafeMutablePointer where Pointee == MessageFrame {
    /// Calls the client, in the bracket of S-MSG-19, and replies. The frame is then freed.
    func serve() {
        let loop = RunLoop.current()
        let reply = loop.call(MessageCall(frame: self)) { _ in
            loop.callInBracket(pointee.context) {
                pointee.usesContext = false
                pointee.port.endUseOfContext()
            } _: { info -> OpaquePointer? in
                guard let callout = pointee.callout else { return nil }
                let number = pointee.message.header.number
                return callOutMessage(callout, pointee.port.handle, number, pointee.message.data!.handle, info)
            }
        }
        finish(reply.map { DataPointer($0) }, isFailure: false)
    }

    /// What follows the callback, also one that ended its thread: then the sender of the request gets a failure.
    func finish(_ reply: DataPointer?, isFailure: Bool) {
        let port = pointee.port
        if pointee.usesContext { port.endUseOfContext() }
        port.answer(pointee.message.header, pointee.token, reply, isFailure: isFailure)
        reply?.release()
        pointee.message.discard()
        CRunLoopLinux.free(self)
        port.release()
    }
}

extension UnsafeMutablePointer where Pointee == MessagePort {
    /// How many users of the context are on the calling thread's stack.
    var usersOnStack: Int {
        var count = 0
        RunLoop.ofThread?.pointee.calls.contains(MessageCall.self) {
            if $0.pointee.frame.pointee.port == self && $0.pointee.frame.pointee.usesContext { count += 1 }
            return false
        }
        return count
    }

    /// `RLMessagePortTakeDescriptors`: from the message whose callback is the innermost one of this port on this thread.
    func takeDescriptors(_ descriptors: UnsafeMutablePointer<Int32>?, _ capacity: Int) -> Int {
        var served: MessageFramePointer?
        RunLoop.current().pointee.calls.contains(MessageCall.self) {
            guard $0.pointee.frame.pointee.port == self else { return false }
            served = $0.pointee.frame
            return true
        }
        guard let frame = served else { return 0 }
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

/// A message whose callback runs.
struct MessageCall: CallRecord {
    let frame: MessageFramePointer

    static var kind: CallKind { .message }
}
