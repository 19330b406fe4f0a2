/* SPDX-License-Identifier: MIT */
/* What the tests of distributed locks share: a folder, file systems that look shared, holders in processes of their own. */
#ifndef RUNLOOP_TESTS_SUPPORT_DISTRIBUTEDLOCK_H
#define RUNLOOP_TESTS_SUPPORT_DISTRIBUTEDLOCK_H

#include "support.h"

#include <sys/types.h>

/* A new folder, and the path of a lock in it. */
extern char folder[64], path[128];
void make_folder(void);
/* It must be empty. */
void remove_folder(void);
int count_files(void);

RLDistributedLockRef new_lock(void);

/* fstatfs(2) calls every file system NFS while this is set. */
extern bool is_shared;
/* Called before a file is removed, or linked, and cleared by that. */
extern void (*before_unlink)(void);
/* What linkat(2) does: 0 what it should, a positive number is its error, a negative one is given after the link was made. */
extern int link_error;

/* A process that locks, says so, and holds the lock until it is told to unlock or killed. */
typedef struct Holder {
    pid_t process;
    int answers, commands;
} Holder;
Holder holder_start(void);
void holder_unlock(Holder *holder);
void holder_kill(Holder *holder);

/* expect_error(call, EPERM): the call gives false and that error. */
#define expect_error(call, number)         \
    do {                                   \
        errno = 0;                         \
        ck_assert(!(call));                \
        ck_assert_int_eq(errno, (number)); \
    } while (0)

#endif
