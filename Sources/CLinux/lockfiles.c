/* SPDX-License-Identifier: MIT */
/* Files that are locks of processes and hosts.
 *
 * On a file system of one machine the locking object opens the file, makes it if it is missing, and locks its first byte with a lock of
 * the open file description: that ends with the last descriptor, whatever ends the process, and others can test it without taking it.
 * The second byte is the right to remove the file: only its owner does, after a check that the name still refers to the file. So check
 * and removal are one step for all that follow this rule, and no object removes the file of another lock. A locking object takes both
 * bytes, writes the note, and then gives the second one back. (lockbytes.h)
 * On other file systems the lock is held while the file exists. It is made as a link to a complete file, which is exclusive on all
 * versions of NFS; the count of links shows that it was made, because the answer to link(2) may be lost.
 * Each file has a note, which says by which of the two it was made: programs on the server find a file that another host made through
 * it on a local file system, and without a lock of its bytes. */
#define _GNU_SOURCE
#include <sys/vfs.h>

#include "CLinux.h"
#include "lockbytes.h"
#include "locknotes.h"

/* The file systems of one machine that locks of open file descriptions are known to work on. A missing one is merely treated as a
 * file system of several hosts. */
static bool is_local(int folder) {
    static const uint32_t local[] = {
        0xef53 /* ext2, 3 and 4 */, 0x58465342 /* xfs */,   0x9123683e /* btrfs */,  0x01021994 /* tmpfs */,
        0x858458f6 /* ramfs */,     0xf2f52010 /* f2fs */,  0x2fc12fc1 /* zfs */,    0x794c7630 /* overlayfs */,
        0xca451a4e /* bcachefs */,  0x00004d44 /* vfat */,  0x2011bab0 /* exfat */,  0x7366746e /* ntfs3 */,
        0x3153464a /* jfs */,       0x52654973 /* reiserfs */};
    struct statfs status;
    if (fstatfs(folder, &status) != 0) return false;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if ((uint32_t)status.f_type == local[i]) return true;
    return false;
}

/* Closes, and says what went wrong before that. */
static int close_for(int file, int error) {
    rl_sys_close(file);
    return error;
}

/* What cannot be opened because it is no file at all is there. A file of which another process has a lease, as a file server may, can be
 * opened when that process has given it back: nothing of it is known before. */
static int open_file(int folder, const char *name, int flags) {
    int file = rl_unowned_number(rl_sys_openat(folder, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
    if (file < 0 && (errno == ENXIO || errno == EISDIR)) errno = EEXIST;
    if (file < 0 && errno == EAGAIN) errno = EBUSY;
    return file;
}

/* EWOULDBLOCK: it is held, as found, by a lock of one of the first `bytes`; ENOENT: it is free; 0: it is free, but there is a file; or
 * another error, of which EBUSY is a lease. */
static int look(int folder, const char *name, bool local, int bytes, struct rl_lock_note *found) {
    int file = open_file(folder, name, O_RDONLY);
    if (file < 0) return errno;
    /* In this order: the note of an object that has the first byte alone is written. */
    int locked = local ? locked_bytes(file, bytes) : FREE;
    int error = rl_read_note(file, found);
    if (error) return close_for(file, error);
    if (locked == LOCKED_BOTH) found->holding.number = 0;
    return close_for(file, !local || !found->is_local || locked ? EWOULDBLOCK : 0);
}

/* What an object saw that could not look. No file has the inode 0. */
static const struct rl_holding unknown_holding = {0, 0, 1};

static const char *name_of(const struct rl_lock_file *lock) { return lock->path + strlen(lock->folder) + 1; }

/* The empty string is the root. */
static int open_folder(const char *folder) { return rl_open_path_at(AT_FDCWD, *folder ? folder : "/"); }

bool rl_lock_file_init(struct rl_lock_file *lock, const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    errno = EINVAL;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return false;
    char *start = NULL;
    if (*path != '/' && !(start = getcwd(NULL, 0))) return false;
    size_t size = (start ? strlen(start) + 1 : 0) + strlen(path) + 1;
    lock->path = malloc(size);
    lock->folder = malloc(size);
    if (lock->path && lock->folder) {
        snprintf(lock->path, size, "%s%s%s", start && strcmp(start, "/") ? start : "", start ? "/" : "", path);
        strlcpy(lock->folder, lock->path, (size_t)(strrchr(lock->path, '/') - lock->path) + 1);
    }
    free(start);
    lock->descriptor = -1;
    return true;
}

/* For the caller this is EWOULDBLOCK, which is EAGAIN; that here means another attempt, because the file was made, removed or replaced meanwhile. */
enum { HELD_BY_OTHERS = -1 };

/* Takes the lock with both bytes, in one attempt. */
static int take_bytes(struct rl_lock_file *lock, int folder, const char *name) {
    struct rl_lock_note found;
    int error = 0, file = lock->descriptor;
    if (!set_bytes(file, F_WRLCK, HELD, 2)) error = errno == EACCES || errno == EAGAIN ? EBUSY : errno;
    int locked = error ? locked_bytes(file, 1) : FREE;
    int unknown = rl_read_note(file, &found);
    if (unknown) return unknown;
    unknown = rl_look_for_holding(folder, name, &found.holding);
    if (unknown) return unknown == ESTALE ? EAGAIN : unknown;
    /* An object that has only the second byte removes the file. */
    if (error == EBUSY && !locked) return EAGAIN;
    if (locked == LOCKED_BOTH) found.holding.number = 0;
    if (error == EBUSY || !found.is_local) {
        lock->seen = found.holding;
        return HELD_BY_OTHERS;
    }
    if (error) return error;
    error = rl_write_note(file, true, &lock->holding);
    if (error) {
        /* Because a file without room for its note is of no use to others either. */
        unlinkat(folder, name, 0);
        return error;
    }
    set_bytes(file, F_UNLCK, REMOVES, 1);
    return 0;
}

/* Opens a file and notes its descriptor, which a child of fork may not keep. -1, and errno. */
static int open_noted(struct rl_lock_file *lock, int folder, const char *name, int flags, void (*fork_section)(bool begins)) {
    fork_section(true);
    const int file = rl_high_number(open_file(folder, name, flags)), error = errno;
    struct stat status;
    lock->descriptor = file;
    if (file >= 0 && fstat(file, &status) == 0)
        lock->holding = (struct rl_holding){(uint64_t)status.st_dev, (uint64_t)status.st_ino, 0};
    fork_section(false);
    errno = error;
    return file;
}

static int close_noted(struct rl_lock_file *lock, bool local, int error) {
    int file = lock->descriptor;
    /* Before the close, which the kernel reports to waiting processes; and a child that has just begun may still have the descriptor. */
    if (local) set_bytes(file, F_UNLCK, HELD, 2);
    lock->descriptor = -1;
    return close_for(file, error);
}

static int take_local(struct rl_lock_file *lock, int folder, const char *name, bool exists, void (*fork_section)(bool begins)) {
    /* Without O_CREAT where there is a file: in folders such as /tmp the kernel refuses that for files of other users. */
    int file = open_noted(lock, folder, name, O_RDWR | (exists ? 0 : O_CREAT), fork_section);
    if (file < 0) return errno == ENOENT ? EAGAIN : errno;
    int error = take_bytes(lock, folder, name);
    return error ? close_noted(lock, true, error) : 0;
}

/* Whether the name is a link to the file that was made for it. */
static bool is_linked(int folder, const char *name) {
    struct stat status;
    /* With a descriptor: opening it asks the server. */
    int file = open_file(folder, name, O_RDONLY);
    if (file < 0) return false;
    bool is_linked = fstat(file, &status) == 0 && status.st_nlink == 2;
    rl_sys_close(file);
    return is_linked;
}

static int write_and_close(int file, struct rl_holding *holding) {
    int error = rl_write_note(file, false, holding);
    /* The server may find out only now that there is no room. */
    return rl_sys_close(file) != 0 && !error ? errno : error;
}

static int take_shared(struct rl_lock_file *lock, int folder, const char *name) {
    char made[40];
    struct rl_holding holding;
    snprintf(made, sizeof made, ".rl-%d-%016llx", (int)getpid(), (unsigned long long)rl_order_of_time());
    int file = open_file(folder, made, O_WRONLY | O_CREAT | O_EXCL);
    int error = file < 0 ? errno : write_and_close(file, &holding);
    if (file >= 0) {
        if (!error) error = linkat(folder, made, folder, name, 0) == 0 ? 0 : errno;
        if (error && is_linked(folder, made)) error = 0;
        unlinkat(folder, made, 0);
    }
    if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK) {
        /* There are no links here. */
        file = open_file(folder, name, O_WRONLY | O_CREAT | O_EXCL);
        error = file < 0 ? errno : write_and_close(file, &holding);
        if (error && file >= 0) unlinkat(folder, name, 0);
    }
    if (error) return error == EEXIST ? EAGAIN : error;
    lock->holding = holding;
    return 0;
}

int rl_lock_file_take(struct rl_lock_file *lock, void (*fork_section)(bool begins)) {
    if (lock->is_held) return EWOULDBLOCK;
    int folder = open_folder(lock->folder);
    if (folder < 0) return errno;
    const char *name = name_of(lock);
    const bool local = is_local(folder);
    int error = EAGAIN;
    for (int turns = 0; error == EAGAIN && turns < 100; turns++) {
        struct rl_lock_note found;
        error = look(folder, name, local, 1, &found);
        if (error == EWOULDBLOCK) {
            lock->seen = found.holding;
            error = HELD_BY_OTHERS;
        } else if (error == 0 || error == ENOENT) {
            const bool is_there = error == 0, has_note = is_there && found.holding.number != 0;
            error = local ? take_local(lock, folder, name, is_there, fork_section) : take_shared(lock, folder, name);
            /* Another user has made the file, since the look or before it, and is about to lock it: see below, in the next turn. */
            if (error == EACCES && !has_note && turns < 40 && (is_there || faccessat(folder, ".", W_OK, AT_EACCESS) == 0)) {
                rl_sys_nanosleep(&(struct timespec){0, 50000});
                error = EAGAIN;
            }
        }
    }
    lock->is_held = error == 0;
    /* Only now: the child of a fork during the call has seen what the object saw before. */
    if (error != HELD_BY_OTHERS) lock->seen = error == 0 ? (struct rl_holding){0, 0, 0} : unknown_holding;
    lock->has_looked = true;
    return close_for(folder, error == HELD_BY_OTHERS || error == EBUSY ? EWOULDBLOCK : error);
}

/* 0 if the descriptor is that of the holding, and ESTALE if not: a program that closed the number without the object's knowledge may have reused it.
 * Otherwise the file system does not say. */
static int look_at_own(const struct rl_lock_file *lock) {
    struct stat status;
    /* Most errors pass. */
    for (int rest = 3; fstat(lock->descriptor, &status) != 0; rest--)
        if (errno == EBADF || rest == 0) return errno == EBADF ? ESTALE : errno;
    return (uint64_t)status.st_ino == lock->holding.inode && (uint64_t)status.st_dev == lock->holding.device ? 0 : ESTALE;
}

/* Whether the number, closed without the object's knowledge, is that of another object's lock by now. */
static bool is_of_another(const struct rl_lock_file *lock) {
    struct rl_lock_note found;
    return rl_read_note(lock->descriptor, &found) == 0 && found.holding.number != 0 && found.holding.number != lock->holding.number;
}

static bool is_gone(int error) { return error == ENOENT || error == ENOTDIR || error == EEXIST || error == ELOOP || error == ESTALE; }

/* `missing`: the folder's error, if it is -1. */
static int give_back_local(struct rl_lock_file *lock, int folder, const char *name, int missing) {
    int error = look_at_own(lock), file = lock->descriptor;
    if (error && error != ESTALE) return error;
    const bool is_own = !error && !is_of_another(lock);
    error = !is_own ? ESTALE : folder != -1 ? rl_look_for_holding(folder, name, &lock->holding) : missing;
    if (error && !is_gone(error)) return error;
    if (is_own) {
        bool removes = !error && set_bytes(file, F_WRLCK, REMOVES, 1);
        if (!error && !removes) {
            /* An object that has the byte at this moment breaks the lock, or came too late for that: see remove_ended. */
            set_bytes(file, F_UNLCK, HELD, 2);
            removes = set_bytes(file, F_WRLCK, HELD, 2);
        }
        if (removes && rl_look_for_holding(folder, name, &lock->holding) == 0) unlinkat(folder, name, 0);
        set_bytes(file, F_UNLCK, HELD, 2);
        rl_sys_close(file);
    }
    lock->descriptor = -1;
    return error;
}

static int give_back_shared(struct rl_lock_file *lock, int folder, const char *name) {
    struct rl_lock_note found;
    if (folder < 0) return errno;
    int error = look(folder, name, false, 1, &found);
    if (error != EWOULDBLOCK) return error;
    if (!rl_is_same_holding(&found.holding, &lock->holding)) return ESTALE;
    return unlinkat(folder, name, 0) == 0 ? 0 : errno;
}

int rl_lock_file_give_back(struct rl_lock_file *lock) {
    if (!lock->is_held) return EPERM;
    int folder = open_folder(lock->folder), error = errno;
    if (lock->descriptor < 0)
        error = give_back_shared(lock, folder, name_of(lock));
    else if (folder < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        error = give_back_local(lock, AT_FDCWD, lock->path, 0); /* without a descriptor */
    else
        error = give_back_local(lock, folder, name_of(lock), error);
    if (is_gone(error)) error = ESTALE;
    lock->is_held = error != 0 && error != ESTALE;
    if (folder >= 0) rl_sys_close(folder);
    return error;
}

int rl_lock_file_date(struct rl_lock_file *lock, double *date) {
    struct rl_lock_note found;
    int folder = open_folder(lock->folder);
    if (folder < 0) return errno;
    int error = look(folder, name_of(lock), is_local(folder), 1, &found);
    lock->seen = error == EWOULDBLOCK ? found.holding : error == 0 || error == ENOENT ? (struct rl_holding){0, 0, 0} : unknown_holding;
    lock->has_looked = true;
    if (error == EWOULDBLOCK) *date = found.date;
    return close_for(folder, error == EWOULDBLOCK ? 0 : error == 0 ? ENOENT : error);
}

/* A holder that finds the second byte taken does not remove the file when its lock ends, and tries once more after that. The object that had
 * the byte looks for such a file after giving it back: so one of the two finds the other gone. */
static void remove_ended(int folder, const char *name, int file) {
    struct rl_lock_note found;
    bool has_ended = false;
    for (int turns = 0; turns < 100 && !has_ended && !is_byte_locked(file) && take_removal(file); turns++) {
        has_ended = !is_byte_locked(file);
        if (has_ended && rl_read_note(file, &found) == 0 && found.is_local && rl_look_for_holding(folder, name, &found.holding) == 0) unlinkat(folder, name, 0);
        set_bytes(file, F_UNLCK, REMOVES, 1);
    }
}

/* 0: the holding has ended, no matter how. */
static int break_file(struct rl_lock_file *lock, int folder, const char *name, int file) {
    struct rl_lock_note found, now;
    int error = rl_read_note(file, &found);
    if (error) return error;
    if (lock->has_looked && rl_is_same_holding(&unknown_holding, &lock->seen)) return found.is_local && !is_byte_locked(file) ? 0 : EBUSY;
    if (lock->has_looked && !rl_is_same_holding(&found.holding, &lock->seen)) {
        /* This may be what was seen before its note was written. */
        found.holding.number = 0;
        return rl_is_same_holding(&found.holding, &lock->seen) && is_byte_locked(file) ? EBUSY : 0;
    }
    if (is_local(folder) && found.is_local) {
        if (!take_removal(file)) return EBUSY;
        /* A file of another user that has ended is removed, because this one cannot take it. */
        if (is_writable(file) && !is_byte_locked(file)) return 0;
        /* This object has the byte: no other takes the lock now. */
        error = rl_read_note(file, &now);
        if (error) return error == EEXIST ? 0 : error;
        /* Another one, which has begun since; or the same one, which was locking and has written its note since. */
        if (!rl_is_same_holding(&now.holding, &found.holding)) return is_byte_locked(file) ? EBUSY : 0;
    }
    error = rl_look_for_holding(folder, name, &found.holding);
    if (error) return error == ESTALE ? 0 : error;
    return unlinkat(folder, name, 0) == 0 || errno == ENOENT ? 0 : errno;
}

int rl_lock_file_break(struct rl_lock_file *lock, void (*fork_section)(bool begins)) {
    int error, folder, file;
    if (lock->is_held) {
        error = rl_lock_file_give_back(lock);
        return error == ESTALE ? 0 : error;
    }
    folder = open_folder(lock->folder);
    if (folder < 0) return errno;
    file = open_noted(lock, folder, name_of(lock), O_RDWR, fork_section);
    if (file < 0 && (errno == EACCES || errno == EPERM)) file = open_noted(lock, folder, name_of(lock), O_RDONLY, fork_section);
    if (file < 0) {
        error = errno == ENOENT ? 0 : errno;
    } else {
        const bool local = is_local(folder);
        error = break_file(lock, folder, name_of(lock), file);
        /* Also after EBUSY, for which this object may have had the second byte. */
        if (local && error != EEXIST) {
            set_bytes(file, F_UNLCK, HELD, 2);
            remove_ended(folder, name_of(lock), file);
            flock(file, LOCK_UN);
        }
        error = close_noted(lock, local, error);
    }
    return close_for(folder, error);
}

void rl_lock_file_end(struct rl_lock_file *lock) {
    rl_lock_file_give_back(lock);
    if (lock->descriptor < 0) return;
    /* A file of the program's has no such lock. */
    set_bytes(lock->descriptor, F_UNLCK, HELD, 2);
    if (look_at_own(lock) == 0) rl_sys_close(lock->descriptor);
}

void rl_lock_file_forget(struct rl_lock_file *lock) {
    if (lock->descriptor >= 0 && look_at_own(lock) == 0) rl_sys_close(lock->descriptor);
    lock->descriptor = -1;
    /* What was seen stays: the child breaks no lock that was taken after that. */
    lock->is_held = false;
}

bool rl_lock_file_is_free(const struct rl_lock_file *lock, bool *is_told) {
    struct rl_lock_note found;
    int folder = open_folder(lock->folder);
    *is_told = folder >= 0 && is_local(folder);
    if (folder < 0) return false;
    /* While another object has the right to remove the file nobody can lock it. */
    int error = look(folder, name_of(lock), *is_told, 2, &found);
    /* If the file could not be examined, the kernel does not report when it can be. */
    if (error != 0 && error != ENOENT && error != EWOULDBLOCK && error != EEXIST && error != ELOOP) *is_told = false;
    return close_for(folder, error) == 0 || error == ENOENT;
}
