/* SPDX-License-Identifier: MIT */
/* The note in a lock file: which holding of the lock the file is, and by which of the two rules of lockfiles.c it was made. */
#ifndef LOCKNOTES_H
#define LOCKNOTES_H

#include "CLinux.h"

/* What a lock file says. */
struct rl_lock_note {
    struct rl_holding holding;
    bool is_local;
    double date;
};

/* Writes a new holding, with its number. 0, or an errno. */
int rl_write_note(int file, bool local, struct rl_holding *holding) __attribute__((visibility("hidden")));

/* 0, or EEXIST: it is not a lock file; or another errno: that is not known. */
int rl_read_note(int file, struct rl_lock_note *found) __attribute__((visibility("hidden")));

/* 0 if the name refers to the file of the holding, and ESTALE if not; or another errno: that is not known. */
int rl_look_for_holding(int folder, const char *name, const struct rl_holding *holding) __attribute__((visibility("hidden")));

static inline bool rl_is_same_holding(const struct rl_holding *one, const struct rl_holding *other) {
    return one->device == other->device && one->inode == other->inode && one->number == other->number;
}

#endif
