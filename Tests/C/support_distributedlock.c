/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "support_distributedlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

char folder[64], path[128];
bool is_shared;
void (*before_unlink)(void);
int link_error;

int fstatfs(int file, struct statfs *status) {
    int result = (int)syscall(SYS_fstatfs, file, status);
    if (result == 0 && is_shared) status->f_type = 0x6969;
    return result;
}

int unlinkat(int directory, const char *name, int flags) {
    void (*function)(void) = before_unlink;
    before_unlink = NULL;
    if (function) function();
    return (int)syscall(SYS_unlinkat, directory, name, flags);
}

int linkat(int from, const char *old, int to, const char *new, int flags) {
    if (link_error <= 0 && syscall(SYS_linkat, from, old, to, new, flags) != 0) return -1;
    if (link_error == 0) return 0;
    errno = abs(link_error);
    return -1;
}

void make_folder(void) {
    strcpy(folder, "/tmp/runloop-dlock-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/lock", folder);
}

void remove_folder(void) {
    ck_assert_int_eq(count_files(), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

int count_files(void) {
    int count = -2; /* "." and ".." */
    DIR *directory = opendir(folder);
    ck_assert_ptr_nonnull(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

RLDistributedLockRef new_lock(void) {
    RLDistributedLockRef lock = RLDistributedLockCreate(path);
    ck_assert_ptr_nonnull(lock);
    return lock;
}

Holder holder_start(void) {
    Holder holder;
    int answers[2], commands[2];
    make_pipe(answers);
    make_pipe(commands);
    holder.process = fork();
    ck_assert_int_ge(holder.process, 0);
    if (holder.process == 0) {
        char command;
        RLDistributedLockRef lock = RLDistributedLockCreate(path);
        if (!RLDistributedLockTryLock(lock)) _exit(1);
        write_byte(answers[1]);
        close(commands[1]);
        if (read(commands[0], &command, 1) != 1) _exit(2);
        _exit(RLDistributedLockUnlock(lock) ? 0 : 3);
    }
    close(answers[1]);
    close(commands[0]);
    holder.answers = answers[0];
    holder.commands = commands[1];
    read_byte(holder.answers);
    return holder;
}

static int holder_end(Holder *holder) {
    int status;
    ck_assert_int_eq(waitpid(holder->process, &status, 0), holder->process);
    close(holder->answers);
    close(holder->commands);
    return status;
}

void holder_unlock(Holder *holder) {
    write_byte(holder->commands);
    int status = holder_end(holder);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

void holder_kill(Holder *holder) {
    ck_assert_int_eq(kill(holder->process, SIGKILL), 0);
    ck_assert_int_eq(WTERMSIG(holder_end(holder)), SIGKILL);
}
