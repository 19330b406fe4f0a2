// SPDX-License-Identifier: MIT
import CRunLoopLinux

/// Descriptions for debugging: one line with the object's type, address and state, and what the client's
/// `copyDescription` returns for its info.
extension ObjectPointer {
    func copyDescription() -> UnsafeMutablePointer<CChar>? {
        var text = TextBuffer()
        describe(&text)
        return text.terminated()
    }

    func describe(_ text: inout TextBuffer) {
        guard let describe = kind.pointee.describe else { trap("RLCopyDescription", "the object was released too often") }
        text.append("<")
        text.append(cString: kind.pointee.name.characters)
        text.append(" ")
        text.append(address: UnsafeRawPointer(self))
        text.append(">{")
        if let name = copyName() {
            text.append("name = ")
            text.appendName(name)
            text.append(", ")
            CRunLoopLinux.free(name)
        }
        describe.call(self, &text)
        text.append("}")
    }
}

/// The part of a description that calls the client.
private struct InfoWork {
    let text: UnsafeMutablePointer<TextBuffer>
    let info: UnsafeMutableRawPointer?
    let copyDescription: DescribeFunction

    func append() { text.pointee.appendDescription(info, copyDescription) }
}

extension TextBuffer {
    /// The function that is called for an item; nothing if it has none.
    @inline(always)
    mutating func appendCallback<Function>(_ function: Function?) {
        appendCallback(at: unsafeBitCast(function, to: UnsafeRawPointer?.self))
    }

    @inline(never)
    mutating func appendCallback(at address: UnsafeRawPointer?) {
        if address != nil { append(", callback = ", function: address) }
    }

    /// Called before the description of an object looks whether that is valid: from here until the info is appended an Invalidate on another
    /// thread leaves the context to this one (S-THR-8), unless no function of the client will be called.
    @inline(never)
    mutating func beginUse(of object: ObjectPointer, _ copyDescription: DescribeFunction?) {
        if callsClient && copyDescription != nil { use = UnsafeMutableRawPointer(ContextUses.beginDescription(of: object)) }
    }

    /// The use ends here, also if the client ends the thread.
    mutating func appendInfo(_ info: UnsafeMutableRawPointer?, _ copyDescription: DescribeFunction?) {
        append(", info = ")
        let use = self.use
        self.use = nil
        defer { if let use { ContextUses.endDescription(use.cast(to: ContextUse.self)) } }
        guard callsClient, let copyDescription else { return append(address: info) }
        guard let use else { return appendDescription(info, copyDescription) }
        withUnsafeMutablePointer(to: &self) { text in
            var work = InfoWork(text: text, info: info, copyDescription: copyDescription)
            withUnsafeMutablePointer(to: &work) { work in
                callOutGuarded(
                    { $0!.cast(to: InfoWork.self).pointee.append() }, work, { ContextUses.endDescription($0!.cast(to: ContextUse.self)) }, use)
            }
        }
    }

    /// The client's text is appended unchanged: that is its purpose (S-ARG-8).
    @inline(never)
    fileprivate mutating func appendDescription(_ info: UnsafeMutableRawPointer?, _ copyDescription: DescribeFunction) {
        guard let words = callOutCopyDescription(copyDescription, info) else { return append(address: info) }
        append(cString: words)
        CRunLoopLinux.free(words)
    }
}
