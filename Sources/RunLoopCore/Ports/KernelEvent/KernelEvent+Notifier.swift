import CLinux
import Synchronization

/// The process's one inotify instance, and what it watches.
///
/// It is there while there are valid sources of files. Each mode that has such sources has the instance in its epoll set, level
/// triggered. A loop whose wait finds it readable reads all there is, under the lock, and brings it to the sources' inboxes,
/// whichever loops they are in; then it looks at its own inboxes again. So what a loop is told does not depend on other loops'
/// running, and reading ends no wait. A loop whose sources are all in modes that do not run has the instance in no set it waits in.
///
/// A file or folder is watched once however many sources want it. The kernel gives a watched inode a number; the same number
/// is the same inode, whatever `stat` says. Numbers are not used again before 2^31 of them were.
struct Notifier: ~Copyable {
    /// Guards all fields here and everything of `Vnode` and `FileWatch`. Taken after a loop's lock and the registry's. Under it
    /// nothing is called but the kernel, and no lock is taken.
    let lock: Lock
    /// Good while `users` is not 0; -1 then: it was lost.
    var descriptor: Int32
    /// Another number of the same instance, by which it is found again where the client closed the first (S-FD-18). Sets in which
    /// the kernel has it under that one go on telling of it. -1: there is none.
    var spare: Int32
    /// The valid sources of files.
    var users: Int
    /// Tells this instance from earlier ones, whose number it may have; never 0 while there is one.
    var serial: UInt32
    var table: WatchTable
    /// The valid sources of files.
    var sources: VnodePointer?
    /// Those that something happened to, while events are brought to them.
    var touched: VnodePointer?

    static var shared: UnsafeMutablePointer<Notifier> { withUnsafeMutablePointer(to: &KernelEvents.shared.pointee.notifier) { $0 } }

    static func make() -> Int32 { highNumber(inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))) }
}

/// An inode that the kernel watches, by its number. It lives as long as it has members.
struct FileWatch {
    var node: WatchNode
    /// -1: the kernel has ended the watch.
    var number: Int32
    /// What the kernel was asked for: all that members wanted so far. It shrinks with the last member only, because the kernel
    /// takes a mask by a path alone, which may lead elsewhere by now.
    var mask: UInt32
    /// Sources for which it is the file, and those for which it is the folder.
    var members: Int
    /// A descriptor that only names the inode, for those members that need one; else -1.
    var descriptor: Int32
    var descriptorUsers: Int
    /// The sources for which it is the file, linked by `nextOfFile`.
    var files: VnodePointer?
}

typealias FileWatchPointer = UnsafeMutablePointer<FileWatch>

extension UnsafeMutablePointer where Pointee == Notifier {
    // MARK: Life

    /// For one more source; false with errno if there is no instance to be had. Caller holds the lock.
    func retainLocked() -> Bool {
        if pointee.users == 0 {
            pointee.descriptor = Notifier.make()
            guard pointee.descriptor >= 0 else { return false }
            pointee.spare = rl_dup_above(pointee.descriptor, 64)
            pointee.serial = Swift.max(pointee.serial &+ 1, 1)
        }
        pointee.users += 1
        return true
    }

    func releaseLocked() {
        pointee.users -= 1
        guard pointee.users == 0 else { return }
        closeOwn(pointee.descriptor, RL_INOTIFY)
        closeOwn(pointee.spare, RL_INOTIFY)
        pointee.table.free()
    }

    /// Whether the instance is there, under one of its two numbers. What has taken a number of it is the client's. If it is not,
    /// its sources have to become invalid, which a loop does that finds `lostDescriptor` (S-KEV-11).
    @inline(never)
    func isOpenLocked() -> Bool {
        if rl_is_kind(pointee.descriptor, RL_INOTIFY) { return true }
        process.pointee.lostDescriptor.store(true, ordering: .relaxed)
        pointee.descriptor = rl_is_kind(pointee.spare, RL_INOTIFY) ? pointee.spare : -1
        pointee.spare = pointee.descriptor < 0 ? -1 : rl_dup_above(pointee.descriptor, 64)
        return pointee.descriptor >= 0
    }

    /// A source whose instance is lost, with one more reference.
    func copyLostSource() -> SourcePointer? {
        pointee.lock.lockWord()
        defer { pointee.lock.unlockWord() }
        var vnode = pointee.users > 0 && pointee.descriptor < 0 ? pointee.sources : nil
        while let current = vnode {
            if let source = current.pointee.event.pointee.source, source.tryRetain() { return source }
            vnode = current.pointee.next
        }
        return nil
    }

    // MARK: Watches

    /// The watch of a name in the folder that a descriptor names, or of what it names itself; nil with errno.
    @inline(never)
    func watch(_ descriptor: Int32, _ name: UnsafePointer<CChar>, _ mask: UInt32) -> FileWatchPointer? {
        let number = rl_watch_file(pointee.descriptor, descriptor, name, mask | UInt32(IN_MASK_ADD))
        guard number >= 0 else { return nil }
        if let known = find(number) {
            known.pointee.mask |= mask
            return known
        }
        let made = makeRecord(FileWatch.self)
        made.pointee.number = number
        made.pointee.mask = mask
        made.pointee.descriptor = -1
        pointee.table.insert(made.node, WatchTable.key(number))
        return made
    }

    private func find(_ number: Int32) -> FileWatchPointer? {
        pointee.table.first(WatchTable.key(number)).map { UnsafeMutableRawPointer($0).assumingMemoryBound(to: FileWatch.self) }
    }

    /// One member less.
    @inline(never)
    func leave(_ watch: FileWatchPointer, descriptor: Bool) {
        if descriptor {
            watch.pointee.descriptorUsers -= 1
            if watch.pointee.descriptorUsers == 0 {
                closeOwn(watch.pointee.descriptor, RL_PATH)
                watch.pointee.descriptor = -1
            }
        }
        watch.pointee.members -= 1
        guard watch.pointee.members == 0 else { return }
        if watch.pointee.number >= 0 {
            inotify_rm_watch(pointee.descriptor, watch.pointee.number)
            pointee.table.remove(watch.node)
        }
        CLinux.free(watch)
    }

    // MARK: Events

    /// Reads all there is and brings it to the sources. Any thread, without a lock that comes after the notifier's.
    func readEvents() {
        pointee.lock.lockWord()
        if pointee.users > 0 { readLocked() }
        pointee.lock.unlockWord()
    }

    /// What the sources make of it is found out at the end: an event that is still in the kernel must not be taken for one of
    /// a file that a source watches only now. The kernel's queue is bounded, and so are the turns, if others fill it as fast.
    func readLocked() {
        guard isOpenLocked() else { return }
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
            let start = buffer.baseAddress!
            for _ in 0..<256 {
                let count = rl_sys_read(pointee.descriptor, start, 4096)
                var offset = 0
                while offset + MemoryLayout<inotify_event>.size <= count {
                    let event = start + offset
                    let header = event.loadUnaligned(as: inotify_event.self)
                    offset += MemoryLayout<inotify_event>.size + Int(header.len)
                    let name = (event + MemoryLayout<inotify_event>.size).assumingMemoryBound(to: CChar.self)
                    accept(header, header.len > 0 ? name : nil)
                }
                // With room for another event there was none.
                if count + MemoryLayout<inotify_event>.size + Int(NAME_MAX) + 1 <= 4096 { break }
            }
        }
        while let source = pointee.touched {
            pointee.touched = source.pointee.nextTouched
            source.tellWhatHappened()
        }
    }

    private func accept(_ event: inotify_event, _ name: UnsafePointer<CChar>?) {
        if event.mask & UInt32(IN_Q_OVERFLOW) != 0 {
            // The kernel forgot some: anything may have happened to anyone.
            var source = pointee.sources
            while let current = source {
                source = current.pointee.next
                touch(current, UInt32(IN_Q_OVERFLOW))
            }
        }
        guard let watch = find(event.wd) else { return }
        var file = watch.pointee.files
        while let current = file {
            file = current.pointee.nextOfFile
            // What happens to the files in a folder, which a watch of it tells too, is not its own matter.
            let own = name == nil ? current.pointee.mask | UInt32(IN_IGNORED | IN_UNMOUNT) : current.pointee.mask & Vnode.changesOfList
            touch(current, event.mask & own)
        }
        if let name {
            let key = WatchTable.key(event.wd, name)
            var node = pointee.table.first(key)
            while let current = node {
                node = current.next(key)
                let source = UnsafeMutableRawPointer(current).assumingMemoryBound(to: Vnode.self)
                guard strcmp(name, source.name) == 0 else { continue }
                source.pointee.happened &= ~Vnode.nameMoved
                touch(source, Vnode.nameTouched | (event.mask & UInt32(IN_MOVED_FROM) != 0 ? Vnode.nameMoved : 0))
            }
        }
        if event.mask & UInt32(IN_IGNORED) != 0 {
            watch.pointee.number = -1
            pointee.table.remove(watch.node)
        }
    }

    @inline(never)
    private func touch(_ source: VnodePointer, _ what: UInt32) {
        if what == 0 { return }
        if source.pointee.happened == 0 {
            source.pointee.nextTouched = pointee.touched
            pointee.touched = source
        }
        source.pointee.happened |= what
    }

    // MARK: fork

    /// In the child of `fork`: an instance of its own, with all watches. What the parent's has in store is the parent's. The
    /// sources for which that fails are marked as lost. Called by the only thread.
    func renewInChild() {
        pointee.lock.resetInChild()
        guard pointee.users > 0 else { return }
        _ = isOpenLocked()
        closeOwn(pointee.spare, RL_INOTIFY)
        let isMade = renewDescriptor(&pointee.descriptor) { Notifier.make() }
        pointee.spare = rl_dup_above(pointee.descriptor, 64)
        pointee.table.clear()
        forEachSource { $0.forEachWatch { $0.pointee.number = -1 } }
        if isMade {
            // First those that are known by a descriptor, for which it is the same inode in any case.
            forEachSource { source in
                source.forEachWatch { watch in
                    guard watch.pointee.number < 0, watch.pointee.descriptor >= 0 else { return }
                    watch.pointee.number = rl_watch_file(pointee.descriptor, watch.pointee.descriptor, "", watch.pointee.mask)
                    if watch.pointee.number >= 0 { pointee.table.insert(watch.node, WatchTable.key(watch.pointee.number)) }
                }
            }
        }
        forEachSource { $0.renewInChild() }
    }

    private func forEachSource(_ body: (VnodePointer) -> Void) {
        var source = pointee.sources
        while let current = source {
            source = current.pointee.next
            body(current)
        }
    }
}

extension UnsafeMutablePointer where Pointee == FileWatch {
    var node: WatchNodePointer { UnsafeMutableRawPointer(self).assumingMemoryBound(to: WatchNode.self) }
}

/// What the table finds: the first field of a `FileWatch`, by its number, or of a `Vnode`, by its folder's number and its name.
struct WatchNode {
    var key: UInt64
    var following: WatchNodePointer?
    /// What points to it; nil: it is not in the table.
    var place: UnsafeMutablePointer<WatchNodePointer?>?
}

typealias WatchNodePointer = UnsafeMutablePointer<WatchNode>

extension UnsafeMutablePointer where Pointee == WatchNode {
    /// The next one with the same key.
    @inline(never)
    func next(_ key: UInt64) -> WatchNodePointer? {
        var node = pointee.following
        while let current = node, current.pointee.key != key { node = current.pointee.following }
        return node
    }
}

/// A hash table of lists. Adding and removing cost the same for any number of nodes, also of one key.
struct WatchTable {
    private var buckets: UnsafeMutablePointer<WatchNodePointer?>?
    private var capacity: Int
    private var count: Int

    static func key(_ number: Int32) -> UInt64 { UInt64(UInt32(bitPattern: number)) << 32 }

    static func key(_ number: Int32, _ name: UnsafePointer<CChar>) -> UInt64 {
        let hash = digest(UnsafeRawPointer(name).assumingMemoryBound(to: UInt8.self), count: strlen(name))
        return key(number) | UInt64(hash & 0xffff_ffff) | 1
    }

    private func bucket(_ key: UInt64) -> UnsafeMutablePointer<WatchNodePointer?> {
        buckets! + Int((key &* 0x9e37_79b9_7f4a_7c15) >> 32) & (capacity - 1)
    }

    /// The first of the nodes with the key.
    @inline(never)
    func first(_ key: UInt64) -> WatchNodePointer? {
        guard capacity > 0, let first = bucket(key).pointee else { return nil }
        return first.pointee.key == key ? first : first.next(key)
    }

    @inline(never)
    mutating func insert(_ node: WatchNodePointer, _ key: UInt64) {
        if count == capacity { grow() }
        count += 1
        node.pointee.key = key
        link(node)
    }

    private func link(_ node: WatchNodePointer) {
        let place = bucket(node.pointee.key)
        node.pointee.following = place.pointee
        if let following = place.pointee { following.pointee.place = node.followingField }
        node.pointee.place = place
        place.pointee = node
    }

    @inline(never)
    mutating func remove(_ node: WatchNodePointer) {
        guard let place = node.pointee.place else { return }
        place.pointee = node.pointee.following
        node.pointee.following?.pointee.place = place
        node.pointee.place = nil
        count -= 1
    }

    private mutating func grow() {
        let old = buckets
        let oldCapacity = capacity
        capacity = Swift.max(16, capacity * 2)
        buckets = makeArray(WatchNodePointer?.self, count: capacity)
        memset(buckets!, 0, capacity * MemoryLayout<WatchNodePointer?>.stride)
        for index in 0..<oldCapacity {
            var node = old![index]
            while let current = node {
                node = current.pointee.following
                link(current)
            }
        }
        CLinux.free(old)
    }

    /// Forgets all nodes.
    mutating func clear() {
        for index in 0..<capacity {
            while let node = buckets![index] { remove(node) }
        }
    }

    mutating func free() {
        CLinux.free(buckets)
        buckets = nil
        capacity = 0
        count = 0
    }
}

extension UnsafeMutablePointer where Pointee == WatchNode {
    /// Where the pointer to the next one is.
    fileprivate var followingField: UnsafeMutablePointer<WatchNodePointer?> {
        withUnsafeMutablePointer(to: &pointee.following) { $0 }
    }
}
