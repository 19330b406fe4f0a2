// SPDX-License-Identifier: MIT
import CLinux

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
        text.append("<", kind.pointee.name)
        text.append(" ")
        text.append(address: UnsafeRawPointer(self))
        text.append(">{")
        if let name = copyName() {
            text.append("name = ")
            text.appendName(name)
            text.append(", ")
            CLinux.free(name)
        }
        defer { text.append("}") }
        // No function of the client is called, and an Invalidate on another thread has nothing to wait for.
        if !text.callsClient { return describe.call(self, &text) }
        // An Invalidate on another thread leaves the context until the description has ended (S-THR-8), also one whose thread the client ends.
        let use = ContextUses.beginDescription(of: self)
        withUnsafeMutablePointer(to: &text) { text in
            var work = DescriptionWork(object: self, function: describe, text: text)
            withUnsafeMutablePointer(to: &work) { work in
                callOutGuarded(
                    { $0!.cast(to: DescriptionWork.self).pointee.describe() }, work,
                    { ContextUses.endDescription($0!.cast(to: ContextUse.self)) }, use)
            }
        }
        ContextUses.endDescription(use)
    }
}

private struct DescriptionWork {
    let object: ObjectPointer
    let function: Kind.Describe
    let text: UnsafeMutablePointer<TextBuffer>

    func describe() { function.call(object, &text.pointee) }
}

extension TextBuffer {
    /// The function that is called for an item; nothing if it has none.
    @inline(always)
    mutating func appendCallback<Function>(_ function: Function?) {
        appendCallback(at: unsafeBitCast(function, to: UnsafeRawPointer?.self))
    }

    @inline(never)
    private mutating func appendCallback(at address: UnsafeRawPointer?) {
        if address != nil { append(", callback = ", function: address) }
    }

    /// The client's text is appended unchanged: that is its purpose (S-ARG-8).
    mutating func appendInfo(_ info: UnsafeMutableRawPointer?, _ copyDescription: DescribeFunction?) {
        append(", info = ")
        if callsClient, let copyDescription, let words = callOutCopyDescription(copyDescription, info) {
            append(cString: words)
            CLinux.free(words)
        } else {
            append(address: info)
        }
    }
}
