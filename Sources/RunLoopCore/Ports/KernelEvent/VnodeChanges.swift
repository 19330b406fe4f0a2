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
        if !hasPath && happened & (UInt32(IN_MOVE_SELF | IN_Q_OVERFLOW) | Vnode.unwatched) != 0 {
            _ = watchParent()
            // A removal that no watch reported.
            if happened & Vnode.unwatched != 0 { happened |= UInt32(IN_DELETE_SELF) }
        }
        let isOverflow = happened & UInt32(IN_Q_OVERFLOW) != 0
        if isOverflow || (hasPath && happened & (Vnode.unwatched | Vnode.nameTouched) == Vnode.unwatched) {
            notes = lookAnew(touched: isOverflow)
        } else {
            // The folder says nothing of a file to which the name leads only.
            if hasPath && happened & UInt32(IN_ATTRIB | IN_MOVE_SELF) != 0 && isLink {
                happened |= happened & UInt32(IN_MOVE_SELF) != 0 ? Vnode.nameTouched | Vnode.nameMoved : Vnode.nameTouched
            }
            if hasPath && happened & UInt32(IN_IGNORED) != 0 {
                // The file is gone, and its watch with it. The name may be another file's already.
                leaveFile()
                happened |= Vnode.nameTouched
            }
            if hasPath && happened & Vnode.nameTouched != 0 {
                let wasMoved = happened & Vnode.nameMoved != 0
                notes = lookAtName(missing: wasMoved ? Note.rename.rawValue : Note.delete.rawValue)
            }
            if happened & 0xffff != 0 { notes |= notesOfFile(happened, notes) }
        }
        let isOfLock = pointee.event.pointee.filter.pointee.tell != nil
        // The source of a lock looks without a watch too.
        if isOfLock { pointee.isUnwatched = false } else if pointee.isUnwatched { tryLater() }
        // A file that was made and removed before this look leaves no notes; a lock was free in between.
        if notes & wants != 0 || isOfLock { pointee.event.tell(notes & wants) }
    }

    /// The loops that the source is in learn of it at once: they may be asleep, and another one may have read the events.
    @inline(never)
    private func tryLater() {
        Notifier.shared.tryLater(self)
        pointee.event.pointee.source?.makeLoopsLookAgain()
    }

    /// Whether the name is a symbolic link.
    private var isLink: Bool {
        var status = stat()
        return fstatat(pointee.folder!.pointee.descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_mode & 0o170000 == 0o120000
    }

    /// The second argument is what became of the name.
    private func notesOfFile(_ mask: UInt32, _ nameNotes: UInt32) -> UInt32 {
        let old = pointee.status
        var new = old
        // What the name no longer stands for cannot be looked at.
        var isFormer = nameNotes != 0
        if !isFormer {
            isFormer = lookUp(&new) ? hasPath && !isSame(new, old) : isMissing
            if isFormer { new = old }
        }
        remember(new)
        let names = notesOfNames(old, new)
        var notes = names
        if mask & (UInt32(IN_MODIFY) | Vnode.changesOfList) != 0 { notes |= Note.write.rawValue }
        if new.st_size > old.st_size && mask & UInt32(IN_MODIFY) != 0 { notes |= Note.extend.rawValue }
        if mask & UInt32(IN_ATTRIB) != 0 {
            // Of the file that the name stood for. Where that was not moved away it is most likely the loss of this name.
            if isFormer {
                notes |= nameNotes & Note.rename.rawValue != 0 ? Note.attrib.rawValue : Note.link.rawValue
            } else if names == 0 || !hasSameAttributes(new, old) {
                notes |= Note.attrib.rawValue
            }
        }
        // With a path the name counts, and the folder reports its changes.
        if mask & UInt32(IN_MOVE_SELF) != 0 && !hasPath { notes |= Note.rename.rawValue }
        if mask & UInt32(IN_UNMOUNT) != 0 { notes |= Note.revoke.rawValue }
        if mask & UInt32(IN_CLOSE_WRITE) != 0 { notes |= Note.closeWrite.rawValue }
        return notes
    }

    private func hasSameAttributes(_ first: stat, _ second: stat) -> Bool {
        first.st_mode == second.st_mode && first.st_uid == second.st_uid && first.st_gid == second.st_gid
            && isSame(first.st_atim, second.st_atim) && isSame(first.st_mtim, second.st_mtim)
    }

    private func isSame(_ first: timespec, _ second: timespec) -> Bool { first.tv_sec == second.tv_sec && first.tv_nsec == second.tv_nsec }

    private func notesOfNames(_ old: stat, _ new: stat) -> UInt32 {
        // A folder's count is that of the folders in it, until it is removed.
        if new.st_nlink == old.st_nlink || (new.st_nlink != 0 && isFolder(new)) { return 0 }
        return new.st_nlink == 0 && !hasPath ? Note.link.rawValue | Note.delete.rawValue : Note.link.rawValue
    }

    /// Whether a look that failed says that there is no such name.
    var isMissing: Bool {
        switch rl_errno() {
        case ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG: true
        default: false
        }
    }

    /// Whether a watch that the kernel refused is to be tried again: for want of room or memory, and for any reason but that there is no such file or
    /// that it may not be read.
    var isRefused: Bool { !isMissing && rl_errno() != EACCES && rl_errno() != EPERM }

    /// What does the name refer to now? `missing`: what to report if that is nothing, and was a file before. `touched`: the name may have been
    /// touched since the last look.
    @inline(never)
    func lookAtName(missing: UInt32, touched: Bool = true) -> UInt32 {
        var status = stat()
        let existed = pointee.exists
        guard lookUp(&status) else {
            // A folder that may not be searched, or no memory: nothing is known about the name.
            guard isMissing else { return 0 }
            pointee.exists = false
            pointee.isUnwatched = false
            leaveFile()
            return existed ? missing : 0
        }
        pointee.exists = true
        let old = (status: pointee.status, second: pointee.second)
        // No watch shows whether a file without one is the same.
        let isKnown = !touched && pointee.isUnwatched && isSame(status, old.status)
        remember(status)
        guard watchFile() || isKnown else { return Note.replace.rawValue }
        // What happened to the file itself since the last look is still to be reported.
        if isSame(status, old.status) { (pointee.status, pointee.second) = old }
        return 0
    }

    /// The kernel dropped events, or had no room for a watch: whatever may have happened is reported. A time of change that is the same, and was
    /// old at the last look, shows that nothing did but the closing of a file that was not written.
    private func lookAnew(touched: Bool) -> UInt32 {
        let unseen = Note.write.rawValue | Note.extend.rawValue | Note.attrib.rawValue
        let existed = pointee.exists
        if hasPath {
            let notes = lookAtName(missing: Note.delete.rawValue | Note.rename.rawValue, touched: touched)
            // Nothing is known of what was done to a former file.
            if notes != 0 { return existed ? notes | unseen | Note.link.rawValue | Note.closeWrite.rawValue : notes }
            if !existed || pointee.isUnwatched { return 0 }
        }
        let old = pointee.status
        let second = pointee.second
        var new = old
        _ = lookUp(&new)
        remember(new)
        var notes = Note.closeWrite.rawValue | notesOfNames(old, new)
        let isUntouched = isSame(new.st_ctim, old.st_ctim) && second - old.st_ctim.tv_sec >= 2
        if !isUntouched { notes |= unseen | (hasPath ? 0 : Note.rename.rawValue) }
        return notes
    }
}
