/* SPDX-License-Identifier: MIT */
/* The bytes of a lock file on a local file system, and the locks on them: see lockfiles.c. */
#ifndef LOCKBYTES_H
#define LOCKBYTES_H

#include <sys/file.h>

#include "CLinux.h"

enum { HELD = 0, REMOVES = 1 };

static bool set_bytes(int file, short type, int first, int count) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    return fcntl(file, F_OFD_SETLK, &range) == 0;
}

enum { FREE, LOCKED, LOCKED_BOTH };

/* Whether others have the first byte, or any of so many; LOCKED_BOTH: one has both, which may not have written its note yet. If the
 * kernel cannot be asked they count as locked. */
static int locked_bytes(int file, int count) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = HELD, .l_len = count};
    if (fcntl(file, F_OFD_GETLK, &range) != 0) return LOCKED;
    if (range.l_type == F_UNLCK) return FREE;
    return range.l_start == HELD && range.l_len == 2 ? LOCKED_BOTH : LOCKED;
}
static bool is_byte_locked(int file) { return locked_bytes(file, 1) != FREE; }

static bool is_writable(int file) { return (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR; }

/* Takes the right to remove the file, if nobody has it. A file of another user may be open for reading alone, and then the lock of the
 * byte excludes only those that can write; flock(2) excludes the others. */
static bool take_removal(int file) {
    if (is_writable(file)) return set_bytes(file, F_WRLCK, REMOVES, 1);
    return flock(file, LOCK_EX | LOCK_NB) == 0 && set_bytes(file, F_RDLCK, REMOVES, 1);
}

#endif
