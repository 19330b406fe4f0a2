// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

// The functions of <runloop/perform.h>.

@c @implementation
public func RLPerformFunction(
    _ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?, _ perform: PerformFunction?, _ info: UnsafeMutableRawPointer?,
    _ release: PerformFunction?
) {
    if Trace.isWanted {
        let caller = rl_caller()
        return withUnsafePointer(to: mode) { performInModes(rl, $0, 1, perform, info, release, caller) }
    }
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

@c @implementation
public func RLPerformFunctionInModes(
    _ rl: OpaquePointer?, _ modes: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int, _ perform: PerformFunction?,
    _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) {
    performInModes(rl, modes, count, perform, info, release, rl_caller())
}

@inline(never)
private func performInModes(
    _ rl: OpaquePointer?, _ modes: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int, _ perform: PerformFunction?,
    _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?, _ caller: UInt
) {
    if let loop = object(rl, as: RunLoop.self, "RLPerformFunctionInModes"), let perform, let modes, count > 0,
        let postModes = loop.postModes(modes, count)
    {
        if Trace.isWanted {
            Trace.tell(.post, loop, item: UInt(bitPattern: info), info: unsafeBitCast(perform, to: UInt.self), caller: caller)
        }
        if loop.post(Post(perform: perform, release: release, info: info, modes: postModes)) { return }
        postModes.free()
    }
    if let release { callOutPerformedRelease(release, info) }
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// A client's list of modes; NULL entries are skipped (S-BLK-13), and nil is returned if it has no other entries.
    func postModes(_ names: UnsafePointer<UnsafePointer<CChar>?>, _ count: Int) -> PostModes? {
        let list = makeArray(UInt.self, count: 1 + count)
        var length = 0
        for index in 0..<count {
            switch ModeName(names[index]) {
            case .none: continue
            case .common: list[1 + length] = 0
            case .named(let name): list[1 + length] = UInt(bitPattern: makeMode(name))
            }
            length += 1
        }
        list[0] = UInt(length)
        if length > 1 { return PostModes(list: list) }
        defer { CRunLoopLinux.free(list) }
        return length == 1 ? PostModes(mode: ModePointer(bitPattern: list[1])) : nil
    }
}

// MARK: The perform family

@c @implementation
public func RLPerformOnLoop(
    _ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?, _ perform: PerformFunction?, _ info: UnsafeMutableRawPointer?,
    _ release: PerformFunction?, _ waitUntilDone: Bool
) -> Bool {
    let caller = rl_caller()
    return withUnsafePointer(to: mode) { performOnLoop(rl, $0, 1, perform, info, release, waitUntilDone, caller) }
}

@c @implementation
public func RLPerformOnLoopInModes(
    _ rl: OpaquePointer?, _ modes: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int, _ perform: PerformFunction?,
    _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?, _ waitUntilDone: Bool
) -> Bool {
    performOnLoop(rl, modes, count, perform, info, release, waitUntilDone, rl_caller())
}

private func performOnLoop(
    _ rl: OpaquePointer?, _ modes: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int, _ perform: PerformFunction?,
    _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?, _ waitUntilDone: Bool,
    _ caller: UInt
) -> Bool {
    guard let loop = object(rl, as: RunLoop.self, "RLPerformOnLoop"),
        let post = loop.makePost(modes, count, perform, info, release)
    else {
        if let release { callOutPerformedRelease(release, info) }
        return false
    }
    if Trace.isWanted {
        Trace.tell(.request, loop, item: UInt(bitPattern: info), info: unsafeBitCast(post.perform, to: UInt.self), caller: caller)
    }
    // The main thread, which may not have asked for its loop, is not to wait for itself.
    if waitUntilDone { _ = RunLoop.currentIfMade() }
    return loop.performRequest(post, waits: waitUntilDone)
}

@c @implementation
public func RLPerformInOrder(
    _ rl: OpaquePointer?, _ modes: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int, _ order: Int,
    _ target: UnsafeRawPointer?, _ perform: PerformFunction?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) {
    guard let loop = object(rl, as: RunLoop.self, "RLPerformInOrder"),
        let post = loop.makePost(modes, count, perform, info, release)
    else {
        if let release { callOutPerformedRelease(release, info) }
        return
    }
    if Trace.isWanted {
        Trace.tell(.request, loop, item: UInt(bitPattern: info), info: unsafeBitCast(post.perform, to: UInt.self), caller: rl_caller())
    }
    loop.performOrdered(post, target: target, order: order)
}

@c @implementation
public func RLCancelPerformInOrder(
    _ rl: OpaquePointer?, _ target: UnsafeRawPointer?, _ perform: PerformFunction?, _ info: UnsafeMutableRawPointer?
) {
    object(rl, as: RunLoop.self, "RLCancelPerformInOrder")?.cancelOrdered(target: target, perform: perform, info: info)
}

@c @implementation
public func RLPerformAfterDelay(
    _ mode: UnsafePointer<CChar>?, _ delay: Double, _ target: UnsafeRawPointer?, _ perform: PerformFunction?,
    _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) {
    withUnsafePointer(to: mode) { RLPerformAfterDelayInModes($0, 1, delay, target, perform, info, release) }
}

@c @implementation
public func RLPerformAfterDelayInModes(
    _ modes: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int, _ delay: Double, _ target: UnsafeRawPointer?,
    _ perform: PerformFunction?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) {
    let loop = RunLoop.current()
    if let post = loop.makePost(modes, count, perform, info, release) {
        loop.performDelayed(post, target: target, delay: delay)
    } else if let release {
        callOutPerformedRelease(release, info)
    }
}

@c @implementation
public func RLCancelPerformAfterDelay(
    _ target: UnsafeRawPointer?, _ perform: PerformFunction?, _ info: UnsafeMutableRawPointer?,
    _ equal: (@convention(c) (UnsafeRawPointer?, UnsafeRawPointer?) -> Bool)?
) {
    RunLoop.current().cancelDelayed(target: target, perform: perform, info: info, equal: equal)
}

@c @implementation
public func RLPerformInBackground(
    _ perform: PerformFunction?, _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
) -> Bool {
    if let perform, RunLoop.performOnNewThread(perform, info, release) { return true }
    if let release { callOutPerformedRelease(release, info) }
    return false
}

extension UnsafeMutablePointer where Pointee == RunLoop {
    /// The request of a client; nil if it can never run. The caller then releases it.
    fileprivate func makePost(
        _ modes: UnsafePointer<UnsafePointer<CChar>?>?, _ count: Int, _ perform: PerformFunction?,
        _ info: UnsafeMutableRawPointer?, _ release: PerformFunction?
    ) -> Post? {
        guard let perform, let modes, count > 0, let postModes = postModes(modes, count) else { return nil }
        return Post(perform: perform, release: release, info: info, modes: postModes)
    }
}
