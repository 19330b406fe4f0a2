import CLinux
import CRunLoop

// The functions of <runloop/insight.h>.

@c @implementation
public func RLSetName(_ obj: UnsafeRawPointer?, _ name: UnsafePointer<CChar>?) {
    anyObject(obj, "RLSetName")?.setName(name)
}

@c @implementation
public func RLCopyName(_ obj: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? {
    guard let object = anyObject(obj, "RLCopyName") else { return nil }
    if let name = object.copyName() { return name }
    guard object.type == ObjectType.thread.rawValue else { return nil }
    return RLThreadGetName(OpaquePointer(object)).flatMap { strdup($0) }
}

@c @implementation
public func RLCopyItems(
    _ rl: OpaquePointer?, _ mode: UnsafePointer<CChar>?, _ kinds: RLItemKinds, _ count: UnsafeMutablePointer<Int>?
) -> UnsafeMutablePointer<UnsafeRawPointer?>? {
    count?.pointee = 0
    guard let loop = object(rl, as: RunLoop.self, "RLCopyItems") else { return nil }
    let list = loop.copyItems(ModeName(mode), kinds.rawValue)
    count?.pointee = list.count
    return UnsafeMutableRawPointer(list.items).assumingMemoryBound(to: UnsafeRawPointer?.self)
}

@c @implementation
public func RLDump(_ rl: OpaquePointer?, _ fd: Int32) -> Bool {
    RunLoop.dump(object(rl, as: RunLoop.self, "RLDump"), fd)
}
