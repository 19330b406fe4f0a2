/* SPDX-License-Identifier: MIT */
/* The program closes numbers of the library's by mistake, and has files of its own there (S-FD-18). */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files of the program's under such numbers. */
static struct taken {
    int number;
    ino_t file;
} taken[4];
static int taken_count;

static void lose(struct call *call, int number) {
    if (!call->has_number) {
        lose_number(number, -1);
        return;
    }
    int ends[2];
    struct stat status;
    if (taken_count == 4 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) fail("the program has no file");
    lose_number(number, ends[0]);
    fstat(number, &status);
    taken[taken_count++] = (struct taken){number, status.st_ino};
    close(ends[0]);
    close(ends[1]);
}

/* Closes the set in which a loop, or a host's run of it, waited last; with a number the end of a pipe takes its place. */
static void do_lose(struct call *call) {
    if (call->actor->thread->set > STDERR_FILENO) lose(call, call->actor->thread->set);
}

/* The same with the process's wake-up descriptor. */
static void do_lose_wake(struct call *call) {
    for (int number = 64; number < 256; number++) {
        char path[64], name[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        const ssize_t length = readlink(path, name, sizeof name - 1);
        name[length > 0 ? length : 0] = 0;
        if (strcmp(name, "anon_inode:[eventfd]") != 0) continue;
        lose(call, number);
        return;
    }
}

void check_taken(void) {
    const int count = taken_count;
    taken_count = 0;
    for (int i = 0; i < count; i++) {
        struct stat status;
        if (fstat(taken[i].number, &status) != 0 || status.st_ino != taken[i].file) fail("the library has closed the program's file %d", taken[i].number);
        close(taken[i].number);
    }
}

const struct operation lose_operations[] = {
    {"lose", "", do_lose, false},
    {"losewake", "", do_lose_wake, false},
    {NULL, NULL, NULL, false},
};
