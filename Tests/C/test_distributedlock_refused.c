/* SPDX-License-Identifier: MIT */
/* File systems that do not say what a name or a descriptor refers to (S-DLOCK). */
#define _GNU_SOURCE
#include "support_distributedlock.h"

#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool refuse_opens(long number, const long argument[6], long *result) {
    (void)argument;
    if (number != SYS_openat) return false;
    errno = EACCES;
    *result = -1;
    return true;
}

/* What the library hears of descriptors, and of names. */
static int descriptor_error, name_error;

int fstat(int descriptor, struct stat *status) {
    if (descriptor_error == 0) return (int)syscall(SYS_newfstatat, descriptor, "", status, AT_EMPTY_PATH);
    errno = descriptor_error;
    return -1;
}
int fstatat(int at, const char *restrict name, struct stat *restrict status, int flags) {
    if (name_error == 0) return (int)syscall(SYS_newfstatat, at, name, status, flags);
    errno = name_error;
    return -1;
}

RL_TEST(what_is_not_known_is_still_held, "S-DLOCK-6 S-DLOCK-2", "An object whose file the file system does not tell of still holds the lock, and unlocks it later") {
    make_folder();
    RLDistributedLockRef lock = new_lock(), other = new_lock();
    for (int i = 0; i < 2; i++) {
        ck_assert(RLDistributedLockTryLock(lock));
        *(i ? &name_error : &descriptor_error) = EIO;
        for (int j = 0; j < 2; j++) expect_error(RLDistributedLockUnlock(lock), EIO);
        descriptor_error = name_error = 0;
        expect_error(RLDistributedLockTryLock(other), EWOULDBLOCK);
        ck_assert(RLDistributedLockUnlock(lock));
        ck_assert(RLDistributedLockTryLock(other));
        ck_assert(RLDistributedLockUnlock(other));
    }
    RLRelease(lock);
    RLRelease(other);
    remove_folder();
}

RL_TEST(a_folder_that_may_not_be_searched, "S-DLOCK-6", "An object that may not look up its file for the moment still holds the lock, and unlocks it later") {
    make_folder();
    RLDistributedLockRef lock = new_lock();
    ck_assert(RLDistributedLockTryLock(lock));
    hook_system_calls(refuse_opens);
    for (int j = 0; j < 2; j++) expect_error(RLDistributedLockUnlock(lock), EACCES);
    hook_system_calls(NULL);
    ck_assert(RLDistributedLockUnlock(lock));
    ck_assert_int_eq(count_files(), 0);
    RLRelease(lock);
    remove_folder();
}

RL_TEST(a_name_that_is_not_known_breaks_nothing, "S-DLOCK-8", "BreakLock fails with the error of a file system that does not say what the name is, and the holder still holds the lock") {
    make_folder();
    RLDistributedLockRef lock = new_lock(), other = new_lock();
    ck_assert(RLDistributedLockTryLock(lock));
    name_error = EIO;
    expect_error(RLDistributedLockBreakLock(other), EIO);
    name_error = 0;
    expect_error(RLDistributedLockTryLock(other), EWOULDBLOCK);
    ck_assert(RLDistributedLockUnlock(lock));
    RLRelease(lock);
    RLRelease(other);
    remove_folder();
}

RL_TEST(an_object_that_ends_leaves_no_lock, "S-DLOCK-6 S-DLOCK-2", "The last release of an object lets others take the lock, also if the file system tells nothing of it then") {
    make_folder();
    RLDistributedLockRef other = new_lock();
    for (int i = 0; i < 2; i++) {
        const int before = count_descriptors();
        RLDistributedLockRef lock = new_lock();
        ck_assert(RLDistributedLockTryLock(lock));
        *(i ? &name_error : &descriptor_error) = EIO;
        RLRelease(lock);
        descriptor_error = name_error = 0;
        /* What may be another file by then stays open. */
        ck_assert_int_le(count_descriptors(), before + (i == 0));
        ck_assert(RLDistributedLockTryLock(other));
        ck_assert(RLDistributedLockUnlock(other));
    }
    RLRelease(other);
    remove_folder();
}
