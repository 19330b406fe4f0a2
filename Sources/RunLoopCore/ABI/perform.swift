import CRunLoop

// The functions of <runloop/perform.h>.

@_cdecl("RLPerformFunction") @implementation
public func RLPerformFunction(
    _ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?, _ perform: PerformFunction?, _ info: UnsafeMutableRawPointer?,
    _ release: PerformFunction?
) {
    if let loop = object(rl, as: RunLoop.self, "RLPerformFunction"), let perform {
        var modes: PostModes?
        switch ModeName(mode) {
        case .none: break
        case .common: modes = PostModes(mode: nil)
        case .named(let name): modes = PostModes(mode: loop.makeMode(name))
        }
        if let modes, loop.post(Post(perform: perform, release: release, info: info, modes: modes)) { return }
    }
    if let release { callOutPerformedRelease(release, info) }
}

@_cdecl("RLPerformFunctionInModes") @implementation
public func RLPerformFunctionInModes(
    _ rl: OpaquePointer?, _ modes: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int, _ perform: PerformFunction?,
    _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) {
    if let loop = object(rl, as: RunLoop.self, "RLPerformFunctionInModes"), let perform, let modes, count > 0,
        let postModes = loop.postModes(modes, count)
    {
        if loop.post(Post(perform: perform, release: release, info: info, modes: postModes)) { return }
        postModes.free()
    }
    if let release { callOutPerformedRelease(release, info) }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// A client's list of modes; NULL entries are skipped (S-BLK-13), and nil is returned if nothing else is in it.
    fileprivate func postModes(_ names: UnsafePointer<UnsafePointer<CChar>?>, _ count: Int) -> PostModes? {
        let list = makeArray(ModePointer?.self, count: count)
        var length = 0
        for index in 0..<count {
            switch ModeName(names[index]) {
            case .none: continue
            case .common: list[length] = nil
            case .named(let name): list[length] = makeMode(name)
            }
            length += 1
        }
        let modes = PostModes(mode: nil, list: list, listCount: Int32(clamping: length))
        if length > 1 { return modes }
        defer { modes.free() }
        return length == 1 ? PostModes(mode: list[0]) : nil
    }
}
