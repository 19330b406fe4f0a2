import Synchronization

extension Source {
    static var kind: Kind {
        Kind(
            name: "RLSource", destroy: { Source.destroy($0.cast(to: Source.self)) },
            describe: .init { $0.cast(to: Source.self).describe(&$1) },
            isEqual: { $0.cast(to: Source.self).isEqual($1.cast(to: Source.self)) },
            hash: { $0.cast(to: Source.self).hashOfInfo },
            forkChild: { RunLoop.ofThread?.adoptUnfinishedSignals() })
    }
}

extension UnsafeMutablePointer where Pointee == Source {
    fileprivate func describe(_ text: inout TextBuffer) {
        text.append("version = ", isVersionOne ? 1 : 0)
        text.append(", order = ", pointee.order)
        text.append(", valid = ", isValid)
        text.append(", signalled = ", isFlagged)
        text.appendInfo(pointee.info, functions.copyDescription)
    }
}
