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

/* In a user namespace the kernel shows all users that have no number there as one, 65534: the process's own then tells nobody from strangers. A process with that
 * number may also be one of the user that has it everywhere. */
static bool is_told_from_strangers(uid_t user) {
    enum { OVERFLOW = 65534 };
    static const char all[] = "         0          0 4294967295\n";
    if (user != OVERFLOW) return true;
    char map[sizeof all];
    const int file = rl_open_read("/proc/self/uid_map");
    const bool is_all = file >= 0 && rl_sys_read(file, map, sizeof map) == sizeof all - 1 && memcmp(map, all, sizeof all - 1) == 0;
    if (file >= 0) rl_sys_close(file);
    return is_all;
}

bool rl_is_own_folder(const char *path, mode_t closed) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & closed) == 0 &&
           is_told_from_strangers(status.st_uid);
}
