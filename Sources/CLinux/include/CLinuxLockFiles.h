/* SPDX-License-Identifier: MIT */
/* Files that are locks of processes and hosts (S-DLOCK). */
#ifndef CLINUX_LOCK_FILES_H
#define CLINUX_LOCK_FILES_H

#include <stdbool.h>
#include <stdint.h>

/* One holding of a lock: the file, and a number that is written in it. Two are the same if all fields are. The number is 0 before it is
 * written. */
struct rl_holding {
    uint64_t device, inode, number;
};

/* What one object knows of its lock. */
struct rl_lock_file {
    char *path, *folder;       /* absolute, from malloc; fixed. The name follows the folder and a slash. */
    bool is_held;              /* by this object */
    bool has_looked;           /* `seen` is what others held at the last look, zeroes if they held none */
    int descriptor;            /* of the file that is held, or about to be; -1: none, as on file systems of several hosts */
    struct rl_holding holding; /* of the descriptor, or what is held */
    struct rl_holding seen;
};

/* Nothing is opened. False with errno. */
bool rl_lock_file_init(struct rl_lock_file *lock, const char *path) __attribute__((visibility("hidden")));

/* These return 0, or an errno. `fork_section` is called with true before a descriptor is opened that a child of fork may not keep,
 * and with false when the record has it. */
int rl_lock_file_take(struct rl_lock_file *lock, void (*fork_section)(bool begins)) __attribute__((visibility("hidden")));
int rl_lock_file_give_back(struct rl_lock_file *lock) __attribute__((visibility("hidden")));
/* The object ends: what it holds is given back, in any case so that others can take the lock. */
void rl_lock_file_end(struct rl_lock_file *lock) __attribute__((visibility("hidden")));
/* The seconds since 2001, if it is held. */
int rl_lock_file_date(struct rl_lock_file *lock, double *date) __attribute__((visibility("hidden")));
int rl_lock_file_break(struct rl_lock_file *lock, void (*fork_section)(bool begins)) __attribute__((visibility("hidden")));

/* In the child of fork: it is the parent's. */
void rl_lock_file_forget(struct rl_lock_file *lock) __attribute__((visibility("hidden")));

/* Whether it is free, by the fixed fields alone. is_told: whether the kernel reports when that changes. */
bool rl_lock_file_is_free(const struct rl_lock_file *lock, bool *is_told) __attribute__((visibility("hidden")));

#endif
