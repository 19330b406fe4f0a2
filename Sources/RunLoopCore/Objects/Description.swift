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
        describe.call(self, &text)
        text.append("}")
    }
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
