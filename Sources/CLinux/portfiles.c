/* SPDX-License-Identifier: MIT */
/* The files by which programs find a message port: the lock file that has its name. */
#define _GNU_SOURCE
#include <bsd/libutil.h>
#include <errno.h>
#include <fcntl.h>

#include "CLinuxCalls.h"
#include "CLinuxMessages.h"

int rl_lock_file(const char *path) {
    int state = rl_disable_cancellation(), file;
    do {
        file = flopen(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
    } while (file < 0 && errno == EINTR);
    rl_restore_cancellation(state);
    /* Others read the name in it, and a later owner opens it to write. */
    if (file >= 0) syscall(SYS_fchmod, file, 0600);
    return file;
}

bool rl_is_path_of(int file, const char *path) {
    struct stat own, named;
    return fstat(file, &own) == 0 && lstat(path, &named) == 0 && own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

int rl_open_read(const char *path) {
    return rl_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
}
