// SPDX-License-Identifier: MIT
import CRunLoopLinux
import CRunLoop

/// What the events of a file amount to. Caller holds the notifier's lock.
extension UnsafeMutablePointer where Pointee == Vnode {
    /// Finds out which of the events are of interest, and marks the inbox if any are.
    func tellWhatHappened() {
        var happened = pointee.happened
        pointee.happened = 0
        var notes: UInt32 = 0
        if happened & UInt32(IN_Q_OVERFLOW) != 0 {
            notes = lookAnew()
        } else {
            if happened & 0xffff != 0 { notes = notesOfFile(happened) }
            // The folder says nothing of a file to which the name leads only.
            if hasPath && happened & UInt32(IN_ATTRIB | IN_MOVE_SELF) != 0 && isLink {
                happened |= happened & UInt32(IN_MOVE_SELF) != 0 ? Vnode.nameTouched | Vnode.nameMoved : Vnode.nameTouched
            }
            var isNameTouched = happened & Vnode.nameTouched != 0
            if hasPath && happened & UInt32(IN_IGNORED) != 0 {
                // The file is gone, and its watch with it. The name may be another file's already.
                leaveFile()
                isNameTouched = true
            }
            if isNameTouched {
                let wasMoved = happened & Vnode.nameMoved != 0
                notes |= lookAtName(missing: wasMoved ? Note.rename.rawValue : Note.delete.rawValue)
            }
        }
        // A file that was made and removed before this look leaves no notes; a lock was free in between.
        if notes & wants != 0 || pointee.event.pointee.filter.pointee.tell != nil { pointee.event.tell(notes & wants) }
    }

    /// Whether the name is a symbolic link.
    private var isLink: Bool {
        var status = stat()
        return fstatat(pointee.folder!.pointee.descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_mode & 0o170000 == 0o120000
    }

    private func notesOfFile(_ mask: UInt32) -> UInt32 {
        guard let file = pointee.file else { return 0 }
        var notes: UInt32 = 0
        let old = pointee.status
        var new = old
        if !hasPath { fstat(file.pointee.descriptor, &new) } else if !lookUp(&new) || !isSame(new, old) { new = old }
        remember(new)
        if mask & (UInt32(IN_MODIFY) | Vnode.changesOfList) != 0 { notes |= Note.write.rawValue }
        if new.st_size > old.st_size && mask & UInt32(IN_MODIFY) != 0 { notes |= Note.extend.rawValue }
        notes |= notesOfNames(old, new)
        if mask & UInt32(IN_ATTRIB) != 0 {
            let hasSameOwner = new.st_mode == old.st_mode && new.st_uid == old.st_uid && new.st_gid == old.st_gid
            if !hasSameOwner || new.st_nlink == old.st_nlink { notes |= Note.attrib.rawValue }
        }
        if mask & UInt32(IN_MOVE_SELF) != 0 { notes |= Note.rename.rawValue }
        if mask & UInt32(IN_UNMOUNT) != 0 { notes |= Note.revoke.rawValue }
        if mask & UInt32(IN_CLOSE_WRITE) != 0 { notes |= Note.closeWrite.rawValue }
        return notes
    }

    private func notesOfNames(_ old: stat, _ new: stat) -> UInt32 {
        if new.st_nlink == old.st_nlink { return 0 }
        // With a path the name counts, and the folder reports its changes.
        return new.st_nlink == 0 && !hasPath ? Note.link.rawValue | Note.delete.rawValue : Note.link.rawValue
    }

    /// The name was touched: what does it refer to now? `missing`: what to report if that is nothing, and was a file before.
    @inline(never)
    func lookAtName(missing: UInt32) -> UInt32 {
        var status = stat()
        let existed = pointee.exists
        guard lookUp(&status) else {
            // A folder that may not be searched, or no memory: nothing is known about the name.
            switch rl_errno() {
            case ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG: break
            default: return 0
            }
            pointee.exists = false
            leaveFile()
            return existed ? missing : 0
        }
        pointee.exists = true
        let old = (status: pointee.status, second: pointee.second)
        remember(status)
        guard watchFile() else { return Note.replace.rawValue }
        // What happened to the file itself since the last look is still to be reported.
        if isSame(status, old.status) { (pointee.status, pointee.second) = old }
        return 0
    }

    /// The kernel dropped events: whatever may have happened is reported. A time of change that is the same, and was old at the
    /// last look, shows that nothing did but the closing of a file that was not written.
    private func lookAnew() -> UInt32 {
        let unseen = Note.write.rawValue | Note.extend.rawValue | Note.attrib.rawValue
        let existed = pointee.exists
        if hasPath {
            let notes = lookAtName(missing: Note.delete.rawValue | Note.rename.rawValue)
            // Nothing is known of what was done to a former file.
            if notes != 0 { return existed ? notes | unseen | Note.link.rawValue | Note.closeWrite.rawValue : notes }
            if !existed { return 0 }
        }
        let old = pointee.status
        let second = pointee.second
        var new = old
        if hasPath { _ = lookUp(&new) } else if let file = pointee.file { fstat(file.pointee.descriptor, &new) }
        remember(new)
        var notes = Note.closeWrite.rawValue | notesOfNames(old, new)
        let isUntouched = new.st_ctim.tv_sec == old.st_ctim.tv_sec && new.st_ctim.tv_nsec == old.st_ctim.tv_nsec
            && second - old.st_ctim.tv_sec >= 2
        if !isUntouched { notes |= unseen | (hasPath ? 0 : Note.rename.rawValue) }
        return notes
    }
}
