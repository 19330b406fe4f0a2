import CLinux
import CRunLoop

/// What a Vnode source remembers of its file.
struct VnodeState {
    /// Without a path: a descriptor that only names the file. While it is there the kernel never tells of the file's own end:
    /// that is seen by its count of names.
    var file: Int32 = -1
    /// With a path: a descriptor that names the folder, where the name begins in the path, and whether it stands for a file.
    var folder: Int32 = -1
    var name = 0
    var exists = false
    /// inotify's numbers for the two.
    var fileWatch: Int32 = -1
    var folderWatch: Int32 = -1
    /// As it was at the last look.
    var status = stat()

    /// Events of a folder by which its list of names changes.
    static var changesOfList: UInt32 { UInt32(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO) }
}

/// The Vnode filter: an inotify descriptor for each source.
///
/// With a path the folder is watched for the name too. An event about the name only leads to a look at what the name stands for
/// now, so that it does not matter how often it changed before the look. A look needs no descriptor, so it is always possible.
/// The file's inode may be used anew for the next file of the name; but the end of a file ends its watch first.
extension UnsafeMutablePointer where Pointee == KernelEvent {
    private var wants: UInt32 { pointee.fflags }

    func openVnode() -> Bool {
        let known: UInt32 = 0x7f | Note.closeWrite.rawValue | (pointee.path != nil ? Note.replace.rawValue : 0)
        guard wants != 0, wants & ~known == 0 else { return refuse() }
        pointee.descriptor = makeNotifier()
        guard pointee.descriptor >= 0 else { return false }
        if pointee.path == nil {
            guard let descriptor = Int32(exactly: pointee.ident), descriptor >= 0 else {
                rl_set_errno(EBADF)
                return false
            }
            pointee.vnode.file = highNumber(rl_open_path_of(descriptor))
            return pointee.vnode.file >= 0 && watchFile()
        }
        guard openFolder() else { return false }
        pointee.vnode.exists = lookUp(&pointee.vnode.status)
        if !pointee.vnode.exists { return rl_errno() == ENOENT && wants & Note.replace.rawValue != 0 }
        return watchFile()
    }

    /// What the name stands for now; false with errno if that is nothing.
    private func lookUp(_ status: inout stat) -> Bool {
        fstatat(pointee.vnode.folder, pointee.path! + pointee.vnode.name, &status, 0) == 0
    }

    private func makeNotifier() -> Int32 { highNumber(inotify_init1(Int32(IN_CLOEXEC | IN_NONBLOCK))) }

    private func openFolder() -> Bool {
        let path = pointee.path!
        var slash = -1
        var length = 0
        while path[length] != 0 {
            if path[length] == 0x2f { slash = length }
            length += 1
        }
        pointee.vnode.name = slash + 1
        // The name of a file in the folder, and not the folder itself.
        let name = path + slash + 1
        guard slash + 1 < length, strcmp(name, ".") != 0, strcmp(name, "..") != 0 else { return refuse() }
        if slash < 0 {
            pointee.vnode.folder = highNumber(rl_open_path_at(AT_FDCWD, "."))
        } else if slash == 0 {
            pointee.vnode.folder = highNumber(rl_open_path_at(AT_FDCWD, "/"))
        } else {
            path[slash] = 0
            pointee.vnode.folder = highNumber(rl_open_path_at(AT_FDCWD, path))
            path[slash] = 0x2f
        }
        return pointee.vnode.folder >= 0 && watchFolder()
    }

    private func watchFolder() -> Bool {
        let mask = VnodeState.changesOfList | UInt32(IN_ONLYDIR)
        pointee.vnode.folderWatch = rl_watch_file(pointee.descriptor, pointee.vnode.folder, "", mask)
        return pointee.vnode.folderWatch >= 0
    }

    private func watchFile() -> Bool {
        if pointee.vnode.file >= 0 { fstat(pointee.vnode.file, &pointee.vnode.status) }
        var mask = UInt32(IN_ATTRIB | IN_MOVE_SELF)
        if wants & (Note.write.rawValue | Note.extend.rawValue) != 0 {
            mask |= isFolder ? VnodeState.changesOfList : UInt32(IN_MODIFY)
        }
        if wants & Note.closeWrite.rawValue != 0 { mask |= UInt32(IN_CLOSE_WRITE) }
        if pointee.path == nil {
            pointee.vnode.fileWatch = rl_watch_file(pointee.descriptor, pointee.vnode.file, "", mask)
        } else {
            let name = pointee.path! + pointee.vnode.name
            pointee.vnode.fileWatch = rl_watch_file(pointee.descriptor, pointee.vnode.folder, name, mask)
        }
        return pointee.vnode.fileWatch >= 0
    }

    private var isFolder: Bool { pointee.vnode.status.st_mode & 0o170000 == 0o040000 }

    // MARK: Events

    /// Caller holds the lock.
    func readVnode(_ happened: inout RLKernelEvent) -> Bool {
        var notes: UInt32 = 0
        var isNameTouched = false
        var isNameMoved = false
        // As many events as fit; what is left keeps the descriptor ready.
        withUnsafeTemporaryAllocation(byteCount: 4096, alignment: 8) { buffer in
            let start = buffer.baseAddress!
            let count = rl_sys_read(pointee.descriptor, start, 4096)
            var offset = 0
            while offset + MemoryLayout<inotify_event>.size <= count {
                let event = start + offset
                let header = event.loadUnaligned(as: inotify_event.self)
                offset += MemoryLayout<inotify_event>.size + Int(header.len)
                if header.mask & UInt32(IN_Q_OVERFLOW) != 0 {
                    // The kernel forgot some: anything may have happened.
                    notes |= wants & (Note.write.rawValue | Note.extend.rawValue | Note.attrib.rawValue)
                    isNameTouched = pointee.path != nil
                }
                if header.wd == pointee.vnode.folderWatch && header.len > 0 {
                    let name = (event + MemoryLayout<inotify_event>.size).assumingMemoryBound(to: CChar.self)
                    if strcmp(name, pointee.path! + pointee.vnode.name) == 0 {
                        isNameTouched = true
                        isNameMoved = header.mask & UInt32(IN_MOVED_FROM) != 0
                    }
                }
                if header.wd == pointee.vnode.fileWatch {
                    // What happens to the files in a folder, which a watch of it tells too, is not its own matter.
                    notes |= notesOfFile(header.len > 0 ? header.mask & VnodeState.changesOfList : header.mask)
                    if header.mask & UInt32(IN_IGNORED) != 0 {
                        // The file is gone, and its watch with it. The name may be another file's already.
                        pointee.vnode.fileWatch = -1
                        isNameTouched = pointee.path != nil
                    }
                }
            }
        }
        if isNameTouched { notes |= lookAtName(wasMoved: isNameMoved) }
        happened.fflags = notes & wants
        return happened.fflags != 0
    }

    private func notesOfFile(_ mask: UInt32) -> UInt32 {
        var notes: UInt32 = 0
        let old = pointee.vnode.status
        var new = old
        if pointee.path == nil { fstat(pointee.vnode.file, &new) } else if !lookUp(&new) || !isSame(new, old) { new = old }
        pointee.vnode.status = new
        if mask & (UInt32(IN_MODIFY) | VnodeState.changesOfList) != 0 { notes |= Note.write.rawValue }
        if new.st_size > old.st_size && mask & UInt32(IN_MODIFY) != 0 { notes |= Note.extend.rawValue }
        if new.st_nlink != old.st_nlink {
            // With a path the name counts, and the folder tells of that.
            notes |= Note.link.rawValue
            if new.st_nlink == 0 && pointee.path == nil { notes |= Note.delete.rawValue }
        }
        if mask & UInt32(IN_ATTRIB) != 0 {
            let hasSameOwner = new.st_mode == old.st_mode && new.st_uid == old.st_uid && new.st_gid == old.st_gid
            if !hasSameOwner || new.st_nlink == old.st_nlink { notes |= Note.attrib.rawValue }
        }
        if mask & UInt32(IN_MOVE_SELF) != 0 { notes |= Note.rename.rawValue }
        if mask & UInt32(IN_UNMOUNT) != 0 { notes |= Note.revoke.rawValue }
        if mask & UInt32(IN_CLOSE_WRITE) != 0 { notes |= Note.closeWrite.rawValue }
        return notes
    }

    private func isSame(_ first: stat, _ second: stat) -> Bool { first.st_ino == second.st_ino && first.st_dev == second.st_dev }

    /// The name was touched: what does it stand for now?
    private func lookAtName(wasMoved: Bool) -> UInt32 {
        var status = stat()
        let existed = pointee.vnode.exists
        let exists = lookUp(&status)
        if existed && exists && pointee.vnode.fileWatch >= 0 && isSame(status, pointee.vnode.status) { return 0 }
        if pointee.vnode.fileWatch >= 0 { inotify_rm_watch(pointee.descriptor, pointee.vnode.fileWatch) }
        pointee.vnode.fileWatch = -1
        pointee.vnode.exists = exists
        if exists {
            pointee.vnode.status = status
            // Where the kernel has no room for a watch the next look finds the file without one, and tries again.
            _ = watchFile()
            return Note.replace.rawValue
        }
        return existed ? (wasMoved ? Note.rename.rawValue : Note.delete.rawValue) : 0
    }

    /// In the child of `fork`: a notifier of its own, since what one process reads the other does not get.
    func renewVnode() {
        guard pointee.descriptor >= 0, renewDescriptor({ makeNotifier() }) else { return }
        if pointee.vnode.folder >= 0 { _ = watchFolder() }
        if pointee.vnode.file >= 0 || pointee.vnode.exists { _ = watchFile() }
    }
}
