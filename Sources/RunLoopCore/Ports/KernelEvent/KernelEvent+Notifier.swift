// SPDX-License-Identifier: MIT
import CRunLoopLinux
import Synchronization

/// The process's one inotify instance, and what it watches.
///
/// It exists while there are valid sources of files. Each mode that has such sources has the instance in its epoll set, level-triggered. A loop whose
/// wait finds it readable reads all there is, under the lock, and delivers it to the sources' inboxes, whichever loops they are in; then it looks at
/// its own inboxes again. So what a loop learns does not depend on whether other loops run, and reading ends no wait. A loop whose sources are all in
/// modes that do not run has the instance in no set it waits in.
///
/// A file or folder is watched once, however many sources watch it. The kernel gives a watched inode a number; the same number is
/// the same inode, whatever `stat` says. A number is reused only after 2^31 of them have been used.
///
/// The instance itself, its lock and its users are `NotifierPort`. That lock guards all fields here and everything of `Vnode` and
/// `FileWatch`. Under it only the kernel is called, and no lock is taken.
struct Notifier {
    var table: WatchTable
    /// The valid sources of files, each in one of two lists: those that wait for another try to watch their file, and the others. One of the
    /// first may have got its watch since.
    var sources: VnodePointer?
    var unwatched: VnodePointer?
    /// Those that something happened to, while events are delivered to them.
    var touched: VnodePointer?

    static var shared: UnsafeMutablePointer<Notifier> { withUnsafeMutablePointer(to: &KernelEvents.shared.pointee.notifier) { $0 } }

    static func make() -> Int32 { rl_high_number(inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))) }
}

/// An inode that the kernel watches, by its number. It lives as long as it has members.
struct FileWatch {
    var node: WatchNode
    /// -1: the kernel has ended the watch.
    var number: Int32
    /// What the kernel was asked for: all that members wanted so far. It shrinks with the last member only, because the kernel
    /// takes a new mask only with a path, which may lead elsewhere by now.
    var mask: UInt32
    /// Sources for which it is the file, and those for which it is the folder.
    var members: Int
    /// A descriptor that only names the inode, for those members that need one; else -1.
    var descriptor: Int32
    /// Of the inode, while there is a descriptor.
    var identity: FileIdentity
    var descriptorUsers: Int
    /// The sources for which it is the file, linked by `nextOfFile`.
    var files: VnodePointer?
    /// Of the sources for which it is the folder those of locks and those without a path, linked by `nextOfFolder`.
    var listeners: VnodePointer?
}

typealias FileWatchPointer = UnsafeMutablePointer<FileWatch>

extension UnsafeMutablePointer where Pointee == Notifier {
    var instance: UnsafeMutablePointer<NotifierPort> { NotifierPort.shared }
    func lock() { instance.pointee.lock.lockWord() }
    func unlock() { instance.pointee.lock.unlockWord() }

    // MARK: Life

    /// For one more source; false with errno if no instance can be made. Caller holds the lock.
    func retainLocked() -> Bool {
        if instance.pointee.users == 0 {
            instance.pointee.descriptor = Notifier.make()
            guard instance.pointee.descriptor >= 0 else { return false }
            instance.enterNumbersLocked()
            instance.pointee.serial = Swift.max(instance.pointee.serial &+ 1, 1)
            if !instance.pointee.areMembers && rl_errno() != 0 {
                instance.pointee.users = 1
                releaseLocked()
                return false
            }
        }
        instance.pointee.users += 1
        return true
    }

    func releaseLocked() {
        instance.pointee.users -= 1
        guard instance.pointee.users == 0 else { return }
        instance.pointee.nextTry.store(0, ordering: .relaxed)
        closeOwn(instance.pointee.descriptor, RL_INOTIFY, isMember: instance.pointee.areMembers)
        instance.closeSpareLocked()
        pointee.table.free()
    }

    /// A source whose instance is lost, with one more reference.
    func copyLostSource() -> SourcePointer? {
        lock()
        defer { unlock() }
        guard instance.pointee.users > 0 && instance.pointee.descriptor < 0 else { return nil }
        var lost: SourcePointer?
        forEachSource {
            if let source = $0.pointee.event.pointee.source, source.tryRetain() { lost = source }
            return lost == nil
        }
        return lost
    }

    // MARK: Watches

    /// The watch of a name in the folder that a descriptor names, or of what it names itself; nil with errno.
    @inline(never)
    func watch(_ descriptor: Int32, _ name: UnsafePointer<CChar>, _ mask: UInt32) -> FileWatchPointer? {
        let number = rl_watch_file(instance.pointee.descriptor, descriptor, name, mask | UInt32(IN_MASK_ADD))
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
                rl_number_ends(watch.pointee.descriptor)
                watch.pointee.identity.close(watch.pointee.descriptor)
                watch.pointee.descriptor = -1
            }
        }
        watch.pointee.members -= 1
        guard watch.pointee.members == 0 else { return }
        if watch.pointee.number >= 0 {
            inotify_rm_watch(instance.pointee.descriptor, watch.pointee.number)
            pointee.table.remove(watch.node)
        }
        CRunLoopLinux.free(watch)
    }

    /// The kernel has no room for a watch: a read tries again when it is time, and the loops that have sources of files see to it that there is
    /// one then (`PortSet.tryFiles`).
    @inline(always)
    func tryLater(_ source: VnodePointer) {
        source.enlist(in: withUnsafeMutablePointer(to: &pointee.unwatched) { $0 })
        if instance.pointee.nextTry.load(ordering: .relaxed) != 0 { return }
        instance.pointee.nextTry.store(Clock.now() + Clock.retryDelay, ordering: .sequentiallyConsistent)
    }

    // MARK: Events

    /// Reads all there is and delivers it to the sources. False if the kernel refuses to read. Any thread that holds no lock that comes after
    /// the notifier's.
    func readEvents() -> Bool {
        lock()
        defer { unlock() }
        return instance.pointee.users == 0 || readLocked(isReported: true)
    }

    /// What it means for the sources is determined at the end: an event that is still in the kernel must not be taken for one of a file that a source
    /// watches only now. The kernel's queue is bounded, and so is the number of reads, if other processes fill it as fast.
    @discardableResult
    func readLocked(isReported: Bool = false) -> Bool {
        // Another thread may have tried since the caller found that it is time.
        let nextTry = instance.pointee.nextTry.load(ordering: .relaxed)
        let tries = nextTry != 0 && Clock.now() >= nextTry
        // If it fails once more, that sets another time.
        if tries { instance.pointee.nextTry.store(0, ordering: .relaxed) }
        guard instance.isOpenLocked() else { return true }
        if tries {
            while let source = pointee.unwatched {
                source.enlist(in: withUnsafeMutablePointer(to: &pointee.sources) { $0 })
                if source.pointee.isUnwatched { touch(source, Vnode.unwatched) }
            }
        }
        var isRefused = false
        // As much as Swift takes from the stack: longer memory would come from malloc, whose failure it does not report.
        let room = 1024
        withUnsafeTemporaryAllocation(byteCount: room, alignment: 8) { buffer in
            let start = buffer.baseAddress!
            for turn in 0..<1024 {
                let count = rl_sys_read(instance.pointee.descriptor, start, room)
                isRefused = count < 0 && rl_errno() != EAGAIN
                if count < 0 && turn == 0 && isReported && isOtherInstance && instance.loseLocked() { continue }
                var offset = 0
                while offset + MemoryLayout<inotify_event>.size <= count {
                    let event = start + offset
                    let header = event.loadUnaligned(as: inotify_event.self)
                    offset += MemoryLayout<inotify_event>.size + Int(header.len)
                    let name = (event + MemoryLayout<inotify_event>.size).assumingMemoryBound(to: CChar.self)
                    accept(header, header.len > 0 ? name : nil)
                }
                // There was room for another event, but none came.
                if count + MemoryLayout<inotify_event>.size + Int(NAME_MAX) + 1 <= room { break }
            }
        }
        while let source = pointee.touched {
            pointee.touched = source.pointee.nextTouched
            source.tellWhatHappened()
        }
        return !isRefused
    }

    /// Whether the first number, which has nothing to read, names an instance of the program's: nobody else reads that of the library.
    @inline(never)
    private var isOtherInstance: Bool {
        readiness(of: instance.pointee.spare, .read) != [] && instance.ownsLocked(instance.pointee.spare)
            && readiness(of: instance.pointee.descriptor, .read, believed: .read) == []
    }

    private func accept(_ event: inotify_event, _ name: UnsafePointer<CChar>?) {
        if event.mask & UInt32(IN_Q_OVERFLOW) != 0 {
            // The kernel dropped some: anything may have happened to any file.
            forEachSource {
                touch($0, UInt32(IN_Q_OVERFLOW))
                return true
            }
        }
        guard let watch = find(event.wd) else { return }
        var file = watch.pointee.files
        while let current = file {
            file = current.pointee.nextOfFile
            // A watch of a folder also reports what happens to the files in it, which are not events of the folder itself.
            let own = name == nil ? current.pointee.mask | UInt32(IN_IGNORED | IN_UNMOUNT) : current.pointee.mask & Vnode.changesOfList
            touch(current, event.mask & own)
        }
        // What happens to a file beside, as its folder's own watch reports it, is no change of its name.
        if let name, event.mask & Vnode.changesOfList != 0 {
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
        // The path of a lock may lead to another folder by now, and a folder in this one may be the one that was removed.
        let isInside = name != nil
        if event.mask & UInt32(isInside ? IN_ISDIR : IN_IGNORED | IN_MOVE_SELF) != 0 {
            var listener = watch.pointee.listeners
            while let current = listener {
                listener = current.pointee.nextOfFolder
                if current.hasPath != isInside { touch(current, isInside ? UInt32(IN_DELETE_SELF) : Vnode.nameTouched) }
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

    /// In the child of `fork`: an instance of its own, with all watches. Events queued in the parent's instance are the parent's.
    /// The sources for which that fails are marked as lost. Called by the only thread.
    func renewInChild() {
        instance.pointee.lock.resetInChild()
        guard instance.pointee.users > 0 else { return }
        _ = instance.isOpenLocked()
        instance.closeSpareLocked()
        pointee.table.clear()
        forEachSource {
            $0.forEachWatch {
                rl_number_begins($0.pointee.descriptor)
                $0.pointee.number = -1
            }
            return true
        }
        let isMade = renewDescriptor(&instance.pointee.descriptor) { Notifier.make() }
        if isMade {
            // First those that are known by a descriptor, for which it is the same inode in any case.
            forEachSource { source in
                source.forEachWatch { watch in
                    guard watch.pointee.number < 0, watch.pointee.descriptor >= 0 else { return }
                    watch.pointee.number = rl_watch_file(instance.pointee.descriptor, watch.pointee.descriptor, "", watch.pointee.mask)
                    if watch.pointee.number >= 0 { pointee.table.insert(watch.node, WatchTable.key(watch.pointee.number)) }
                }
                return true
            }
        }
        forEachSource {
            $0.renewInChild()
            return true
        }
    }

    /// Until the body returns false. It may take its source out of the lists.
    func forEachSource(_ body: (VnodePointer) -> Bool) {
        var source = pointee.unwatched
        var others = pointee.sources
        while true {
            // Without a generic function, for which a child of `fork` would need the runtime.
            if source == nil { (source, others) = (others, nil) }
            guard let current = source else { return }
            source = current.pointee.next
            guard body(current) else { return }
        }
    }
}

extension UnsafeMutablePointer where Pointee == FileWatch {
    var node: WatchNodePointer { UnsafeMutableRawPointer(self).assumingMemoryBound(to: WatchNode.self) }
}
