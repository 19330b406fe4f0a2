// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

/// What a Vnode source knows of its file. The notifier's lock guards it, except for what is fixed at creation.
///
/// The source is an inbox; the thread that reads the notifier finds out what the source has to report and marks it. With a path
/// the folder is watched for the name too. An event about the name only leads to a look at what the name refers to now, so that
/// it does not matter how often it changed before the look. A look needs no descriptor, so it is always possible.
struct Vnode {
    /// In the notifier's table, by folder and name; for a source with a path.
    var node: WatchNode
    /// The source's record, which has this one.
    var event: KernelEventPointer
    /// The notes of interest.
    var wants: UInt32
    /// Without a path: its descriptor names the file, and while it is open the kernel never reports the file's own end: that is
    /// seen by its count of names. With a path: nil if the name refers to no file, or the kernel has no room.
    var file: FileWatchPointer?
    /// With a path: it has a descriptor that names the folder. `nameOffset` is where the name begins in the path. Without one, and for a
    /// folder whose end is of interest: the folder it is in, if that may be watched.
    var folder: FileWatchPointer?
    var nameOffset: Int
    /// Which of the file's events are this source's.
    var mask: UInt32
    /// With a path: whether the name refers to a file.
    var exists: Bool
    /// There was no room for the watch of what the name refers to now, or of the folder that a folder by descriptor is in now: another try
    /// is to come (`Notifier.tryLater`).
    var isUnwatched: Bool
    /// In the child of `fork`: it could not be watched anew.
    var isLost: Bool
    /// The file as it was at the last look, and the second of that look by the wall clock.
    var status: stat
    var second: Int

    /// The sources for which `file` is the file.
    var nextOfFile: VnodePointer?
    var previousOfFile: VnodePointer?
    /// In the folder's list `listeners`: the next one, and what points to this one; else nil.
    var nextOfFolder: VnodePointer?
    var linkOfFolder: UnsafeMutablePointer<VnodePointer?>?
    /// In the notifier's list `sources` or `unwatched`: the next one, and what points to this one.
    var next: VnodePointer?
    var link: UnsafeMutablePointer<VnodePointer?>?
    /// While events are delivered: bits of inotify(7) and those below. Not 0: it is in the notifier's list `touched`.
    var happened: UInt32
    var nextTouched: VnodePointer?

    /// Events of a folder that change its list of names.
    static var changesOfList: UInt32 { UInt32(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO) }
    /// The name was touched; the last time by moving its file away.
    static var nameTouched: UInt32 { 1 << 17 }
    static var nameMoved: UInt32 { 1 << 18 }
    /// It is time for another try.
    static var unwatched: UInt32 { 1 << 19 }
}

typealias VnodePointer = UnsafeMutablePointer<Vnode>

extension KernelFilter {
    static var vnode: KernelFilter {
        KernelFilter(
            number: .vnode, open: { $0.openVnode() }, take: .init { $0.takeFlags(&$1) }, takesPath: true,
            begin: .init { $0.beginVnode($1) }, close: .init { $0.closeVnode() })
    }
}

extension UnsafeMutablePointer where Pointee == KernelEvent {
    fileprivate func openVnode() -> Bool {
        let known: UInt32 = 0x7f | Note.closeWrite.rawValue | (pointee.path != nil ? Note.replace.rawValue : 0)
        guard pointee.fflags != 0, pointee.fflags & ~known == 0 else { return refuse() }
        return watchVnode(wants: pointee.fflags)
    }

    func watchVnode(wants: UInt32) -> Bool {
        lookBeforeLock()
        let vnode = makeRecord(Vnode.self)
        vnode.pointee.event = self
        vnode.pointee.wants = wants
        pointee.vnode = vnode
        let notifier = Notifier.shared
        notifier.lock()
        guard notifier.retainLocked() else {
            notifier.unlock()
            CRunLoopLinux.free(vnode)
            pointee.vnode = nil
            return false
        }
        // Earlier events of a file that is already watched are not for this source.
        notifier.readLocked()
        // The other number is checked here, where time does not matter.
        let port = notifier.instance
        if !port.ownsLocked(port.pointee.spare) { port.makeSpareLocked() }
        vnode.enlist(in: withUnsafeMutablePointer(to: &notifier.pointee.sources) { $0 })
        let isOpen = vnode.open()
        // Before another thread may fork.
        if !isOpen { endVnodeLocked(vnode) }
        notifier.unlock()
        if !isOpen { CRunLoopLinux.free(vnode) }
        return isOpen
    }

    /// Keeps errno.
    @inline(never)
    private func endVnodeLocked(_ vnode: VnodePointer) {
        let error = rl_errno()
        pointee.vnode = nil
        vnode.close()
        vnode.delist()
        Notifier.shared.releaseLocked()
        rl_set_errno(error)
    }

    /// Asks for what the first look needs before that one holds the lock: a file system that does not answer holds up this call alone.
    private func lookBeforeLock() {
        var status = stat()
        if let path = pointee.path { _ = fstatat(AT_FDCWD, path, &status, 0) } else { _ = fstat(Int32(truncatingIfNeeded: pointee.ident), &status) }
    }

    /// Gives its record the source of a file, after which events are reported, also those that have already come.
    fileprivate func beginVnode(_ source: SourcePointer) {
        let notifier = Notifier.shared
        notifier.lock()
        pointee.source = source
        notifier.unlock()
        if mayReport && hasPending { source.markReady() }
    }

    @inline(never)
    func closeVnode() {
        guard let vnode = pointee.vnode else { return }
        let notifier = Notifier.shared
        notifier.lock()
        // Either invalidation or death comes first.
        let isOpen = pointee.vnode == vnode
        if isOpen { endVnodeLocked(vnode) }
        notifier.unlock()
        if isOpen { CRunLoopLinux.free(vnode) }
    }
}

/// Caller holds the notifier's lock.
extension UnsafeMutablePointer where Pointee == Vnode {
    fileprivate var notifier: UnsafeMutablePointer<Notifier> { Notifier.shared }
    private var node: WatchNodePointer { UnsafeMutableRawPointer(self).assumingMemoryBound(to: WatchNode.self) }
    var wants: UInt32 { pointee.wants }
    var hasPath: Bool { pointee.event.pointee.path != nil }
    /// Only with a path.
    var name: UnsafeMutablePointer<CChar> { pointee.event.pointee.path! + pointee.nameOffset }

    // MARK: Watching

    fileprivate func open() -> Bool {
        let event = pointee.event
        guard hasPath else {
            guard let descriptor = Int32(exactly: event.pointee.ident), descriptor >= 0 else {
                rl_set_errno(EBADF)
                return false
            }
            let file = rl_high_number(rl_open_path_of(descriptor))
            var status = stat()
            guard file >= 0 else { return false }
            guard fstat(file, &status) == 0 else {
                rl_close_keeping_error(file)
                return false
            }
            remember(status)
            guard let watch = notifier.watch(file, "", maskOfFile(status)) else {
                rl_close_keeping_error(file)
                return false
            }
            adopt(file, for: watch)
            join(watch, mask: maskOfFile(status))
            let isOpen = watchParent()
            // It may have been removed before that.
            return isOpen && lookUp(&pointee.status)
        }
        guard openFolder() else { return false }
        var status = stat()
        pointee.exists = lookUp(&status)
        if pointee.exists {
            remember(status)
            _ = watchFile()
            if pointee.file != nil { return true }
            // Not if the file was removed since the look.
            pointee.exists = rl_errno() != ENOENT
        }
        return isMissing && rl_errno() != ENAMETOOLONG && wants & Note.replace.rawValue != 0
    }

    private func openFolder() -> Bool {
        let path = pointee.event.pointee.path!
        var slash = -1
        var length = 0
        while path[length] != 0 {
            if path[length] == 0x2f { slash = length }
            length += 1
        }
        pointee.nameOffset = slash + 1
        // The name of a file in the folder, and not the folder itself.
        guard slash + 1 < length, strcmp(name, ".") != 0, strcmp(name, "..") != 0 else { return pointee.event.refuse() }
        var folder: Int32
        if slash < 0 {
            folder = rl_open_path_at(AT_FDCWD, ".")
        } else if slash == 0 {
            folder = rl_open_path_at(AT_FDCWD, "/")
        } else {
            path[slash] = 0
            folder = rl_open_path_at(AT_FDCWD, path)
            path[slash] = 0x2f
        }
        folder = rl_high_number(folder)
        guard folder >= 0 else { return false }
        guard let watch = notifier.watch(folder, "", Vnode.changesOfList | UInt32(IN_MOVE_SELF | IN_ONLYDIR)) else {
            rl_close_keeping_error(folder)
            return false
        }
        adopt(folder, for: watch)
        watch.pointee.members += 1
        pointee.folder = watch
        if pointee.event.pointee.filter.pointee.tell != nil { listen(to: watch) }
        notifier.pointee.table.insert(node, WatchTable.key(watch.pointee.number, name))
        return true
    }

    @inline(never)
    private func listen(to folder: FileWatchPointer) {
        let listeners = withUnsafeMutablePointer(to: &folder.pointee.listeners) { $0 }
        pointee.nextOfFolder = listeners.pointee
        listeners.pointee?.pointee.linkOfFolder = withUnsafeMutablePointer(to: &pointee.nextOfFolder) { $0 }
        pointee.linkOfFolder = listeners
        listeners.pointee = self
    }

    /// A folder's own watch says nothing of its removal while there is a descriptor for it; that of the folder it is in now does. False with
    /// errno if the kernel has no room; one that may not be read is not watched.
    @inline(never)
    func watchParent() -> Bool {
        guard isFolder(pointee.status), wants & (Note.delete.rawValue | Note.link.rawValue) != 0 else { return true }
        let parent = notifier.watch(pointee.file!.pointee.descriptor, "..", UInt32(IN_DELETE))
        parent?.pointee.members += 1
        pointee.isUnwatched = parent == nil && isRefused
        leaveFolder()
        guard let parent else { return !pointee.isUnwatched }
        pointee.folder = parent
        listen(to: parent)
        return true
    }

    /// One descriptor serves all members of a watch, unless its number names another file by now.
    private func adopt(_ descriptor: Int32, for watch: FileWatchPointer) {
        watch.pointee.descriptorUsers += 1
        let known = watch.pointee.descriptor
        watch.pointee.identity = FileIdentity(descriptor)
        let isShared = known >= 0 && known != descriptor && watch.pointee.identity.has(known)
        if isShared { return _ = rl_sys_close(descriptor) }
        rl_number_ends(known)
        rl_number_begins(descriptor)
        watch.pointee.descriptor = descriptor
    }

    private func maskOfFile(_ status: stat) -> UInt32 {
        var mask = UInt32(IN_ATTRIB | IN_MOVE_SELF)
        if wants & (Note.write.rawValue | Note.extend.rawValue) != 0 {
            mask |= isFolder(status) ? Vnode.changesOfList : UInt32(IN_MODIFY)
        }
        if wants & Note.closeWrite.rawValue != 0 { mask |= UInt32(IN_CLOSE_WRITE) }
        return mask
    }

    private func join(_ watch: FileWatchPointer, mask: UInt32) {
        watch.pointee.members += 1
        pointee.file = watch
        pointee.mask = mask
        pointee.previousOfFile = nil
        pointee.nextOfFile = watch.pointee.files
        watch.pointee.files?.pointee.previousOfFile = self
        watch.pointee.files = self
    }

    @inline(never)
    func leaveFile() {
        guard let watch = pointee.file else { return }
        if let previous = pointee.previousOfFile {
            previous.pointee.nextOfFile = pointee.nextOfFile
        } else {
            watch.pointee.files = pointee.nextOfFile
        }
        pointee.nextOfFile?.pointee.previousOfFile = pointee.previousOfFile
        pointee.file = nil
        notifier.leave(watch, descriptor: !hasPath)
    }

    /// Watches the file that the name refers to now, whose status was just remembered. True if it is the one watched before: the
    /// kernel's number shows that, and not the inode's, which may be another file's by now.
    @inline(never)
    func watchFile() -> Bool {
        let mask = maskOfFile(pointee.status)
        var hadFile = true
        // Twice at most: the former file may have had the last watch that there was room for.
        while hadFile {
            let watch = notifier.watch(pointee.folder!.pointee.descriptor, name, mask)
            if let watch, watch == pointee.file {
                pointee.mask = mask
                return true
            }
            hadFile = watch == nil && pointee.file != nil
            leaveFile()
            if let watch { join(watch, mask: mask) }
        }
        pointee.isUnwatched = pointee.file == nil && isRefused
        return false
    }

    fileprivate func close() {
        leaveFile()
        leaveFolder()
    }

    @inline(never)
    private func leaveFolder() {
        guard let folder = pointee.folder else { return }
        notifier.pointee.table.remove(node)
        if let link = pointee.linkOfFolder {
            link.pointee = pointee.nextOfFolder
            link.pointee?.pointee.linkOfFolder = link
        }
        pointee.folder = nil
        notifier.leave(folder, descriptor: hasPath)
    }

    /// Puts it in the list, and takes it out of the one that it is in.
    @inline(never)
    func enlist(in list: UnsafeMutablePointer<VnodePointer?>) {
        delist()
        pointee.next = list.pointee
        pointee.next?.pointee.link = withUnsafeMutablePointer(to: &pointee.next) { $0 }
        pointee.link = list
        list.pointee = self
    }

    @inline(never)
    fileprivate func delist() {
        pointee.link?.pointee = pointee.next
        pointee.next?.pointee.link = pointee.link
    }

    /// The file by descriptor, or what the name refers to now; false with errno if that is nothing.
    @inline(never)
    func lookUp(_ status: inout stat) -> Bool {
        if !hasPath { return fstat(pointee.file!.pointee.descriptor, &status) == 0 }
        let folder = pointee.folder!.pointee.descriptor
        if fstatat(folder, name, &status, 0) == 0 { return true }
        // A failure for lack of memory, for example, says nothing about the name, so one such failure is not believed.
        return rl_errno() != ENOENT && rl_errno() != ENOTDIR && fstatat(folder, name, &status, 0) == 0
    }

    @inline(never)
    func remember(_ status: stat) {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        pointee.status = status
        pointee.second = now.tv_sec
    }

    func isFolder(_ status: stat) -> Bool { status.st_mode & 0o170000 == 0o040000 }
    func isSame(_ first: stat, _ second: stat) -> Bool { first.st_ino == second.st_ino && first.st_dev == second.st_dev }

    // MARK: fork

    func forEachWatch(_ body: (FileWatchPointer) -> Void) {
        if let folder = pointee.folder { body(folder) }
        if let file = pointee.file { body(file) }
    }

    /// In the child of `fork`, after what is known by a descriptor is watched anew: watches the rest, in its present state. The
    /// parent reports what happened before.
    func renewInChild() {
        pointee.event.forgetReports()
        if hasPath {
            let number = pointee.folder!.pointee.number
            if let file = pointee.file, file.pointee.number < 0 { leaveFile() }
            if number >= 0 {
                notifier.pointee.table.insert(node, WatchTable.key(number, name))
                _ = lookAtName(missing: 0)
                if pointee.exists, lookUp(&pointee.status) { remember(pointee.status) }
            }
            pointee.isLost = number < 0 || (pointee.exists && pointee.file == nil)
        } else {
            pointee.isLost = !watchParent() || pointee.file!.pointee.number < 0
            _ = lookUp(&pointee.status)
            remember(pointee.status)
        }
    }
}
