import CLinux
import CRunLoop

/// What a Vnode source remembers of its file.
struct VnodeState {
    /// A descriptor that only names the file. While it is there the kernel does not use the file's number for another one, and never
    /// tells of the file's own end: that is seen by its count of names.
    var file: Int32 = -1
    /// With a path: the folder, and where the name begins in the path.
    var folder: Int32 = -1
    var name = 0
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
/// With a path the folder is watched for the name too. An event about the name only leads to a look at what the name stands for now,
/// so that it does not matter how often it changed before the look.
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
        pointee.vnode.file = openName()
        if pointee.vnode.file < 0 { return rl_errno() == ENOENT && wants & Note.replace.rawValue != 0 }
        return watchFile()
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

    private func openName() -> Int32 { highNumber(rl_open_path_at(pointee.vnode.folder, pointee.path! + pointee.vnode.name)) }

    private func watchFolder() -> Bool {
        let mask = VnodeState.changesOfList | UInt32(IN_ONLYDIR)
        pointee.vnode.folderWatch = rl_watch_file(pointee.descriptor, pointee.vnode.folder, mask)
        return pointee.vnode.folderWatch >= 0
    }

    private func watchFile() -> Bool {
        fstat(pointee.vnode.file, &pointee.vnode.status)
        var mask = UInt32(IN_ATTRIB | IN_MOVE_SELF)
        if wants & (Note.write.rawValue | Note.extend.rawValue) != 0 {
            mask |= isFolder ? VnodeState.changesOfList : UInt32(IN_MODIFY)
        }
        if wants & Note.closeWrite.rawValue != 0 { mask |= UInt32(IN_CLOSE_WRITE) }
        pointee.vnode.fileWatch = rl_watch_file(pointee.descriptor, pointee.vnode.file, mask)
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
            let count = read(pointee.descriptor, start, 4096)
            var offset = 0
            while offset + MemoryLayout<inotify_event>.size <= count {
                let event = start + offset
                let header = event.loadUnaligned(as: inotify_event.self)
                offset += MemoryLayout<inotify_event>.size + Int(header.len)
                if header.mask & UInt32(IN_Q_OVERFLOW) != 0 {
                    // The kernel forgot some: anything may have happened.
                    notes |= wants & (Note.write.rawValue | Note.extend.rawValue | Note.attrib.rawValue)
                    isNameTouched = true
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
                }
            }
        }
        if isNameTouched && pointee.path != nil { notes |= lookAtName(wasMoved: isNameMoved) }
        happened.fflags = notes & wants
        return happened.fflags != 0
    }

    private func notesOfFile(_ mask: UInt32) -> UInt32 {
        var notes: UInt32 = 0
        let old = pointee.vnode.status
        fstat(pointee.vnode.file, &pointee.vnode.status)
        let new = pointee.vnode.status
        if mask & (UInt32(IN_MODIFY) | VnodeState.changesOfList) != 0 { notes |= Note.write.rawValue }
        if new.st_size > old.st_size && mask & UInt32(IN_MODIFY) != 0 { notes |= Note.extend.rawValue }
        if new.st_nlink != old.st_nlink {
            // With a path the name counts, and the folder tells of that.
            notes |= Note.link.rawValue
            if new.st_nlink == 0 && pointee.path == nil { notes |= Note.delete.rawValue }
        }
        if mask & UInt32(IN_ATTRIB) != 0 {
            let isSame = new.st_mode == old.st_mode && new.st_uid == old.st_uid && new.st_gid == old.st_gid
            if !isSame || new.st_nlink == old.st_nlink { notes |= Note.attrib.rawValue }
        }
        if mask & UInt32(IN_MOVE_SELF) != 0 { notes |= Note.rename.rawValue }
        if mask & UInt32(IN_UNMOUNT) != 0 { notes |= Note.revoke.rawValue }
        if mask & UInt32(IN_CLOSE_WRITE) != 0 { notes |= Note.closeWrite.rawValue }
        return notes
    }

    /// The name was touched: what does it stand for now?
    private func lookAtName(wasMoved: Bool) -> UInt32 {
        var file = openName()
        if file < 0 && rl_errno() != ENOENT { return 0 }  // No descriptor to be had: the file that is known stays.
        if file >= 0 && pointee.vnode.file >= 0 {
            var status = stat()
            fstat(file, &status)
            if status.st_ino == pointee.vnode.status.st_ino && status.st_dev == pointee.vnode.status.st_dev {
                closeOne(&file)
                return 0
            }
        }
        let hadFile = pointee.vnode.file >= 0
        if pointee.vnode.fileWatch >= 0 { inotify_rm_watch(pointee.descriptor, pointee.vnode.fileWatch) }
        pointee.vnode.fileWatch = -1
        closeOne(&pointee.vnode.file)
        pointee.vnode.file = file
        if file >= 0 {
            _ = watchFile()
            return Note.replace.rawValue
        }
        return hadFile ? (wasMoved ? Note.rename.rawValue : Note.delete.rawValue) : 0
    }

    /// In the child of `fork`: a notifier of its own, since what one process reads the other does not get.
    func renewVnode() {
        guard pointee.descriptor >= 0, renewDescriptor({ makeNotifier() }) else { return }
        if pointee.vnode.folder >= 0 { _ = watchFolder() }
        if pointee.vnode.file >= 0 { _ = watchFile() }
    }
}
