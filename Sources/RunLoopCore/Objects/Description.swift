import CLinux

/// Descriptions for people who debug: one line, the object's type, address and state, and what the client's
/// `copyDescription` says of its info.
extension ObjectPointer {
    func copyDescription() -> UnsafeMutablePointer<CChar>? {
        guard let describe = kind.pointee.describe else { trap("RLCopyDescription", "the object was released too often") }
        var text = TextBuffer()
        text.append("<", kind.pointee.name)
        text.append(" ")
        text.append(address: UnsafeRawPointer(self))
        text.append(">{")
        describe.call(self, &text)
        text.append("}")
        return text.terminated()
    }
}

extension TextBuffer {
    /// The client's words are appended as they are: it gave them for this (S-ARG-8).
    mutating func appendInfo(_ info: UnsafeMutableRawPointer?, _ copyDescription: DescribeFunction?) {
        append(", info = ")
        if let copyDescription, let words = callOutCopyDescription(copyDescription, info) {
            append(cString: words)
            CLinux.free(words)
        } else {
            append(address: info)
        }
    }
}
