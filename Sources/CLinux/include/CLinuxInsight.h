/* SPDX-License-Identifier: MIT */
/* What descriptions tell of functions, threads and descriptors. */
#ifndef CLINUX_INSIGHT_H
#define CLINUX_INSIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The name of the function at an address, or NULL if its file does not tell; then the file, or NULL if there is none, and how far the
 * address is from the file's beginning. */
const char *rl_symbol(const void *address, const char **file, uintptr_t *offset) __attribute__((visibility("hidden")));

enum { RL_THREAD_NAME_SIZE = 16 };
/* The kernel's name of a thread of the process, without a newline. False if there is no such thread, or no /proc. */
bool rl_thread_name(pid_t thread, char *name) __attribute__((visibility("hidden")));

/* What /proc says that a descriptor is, with a NUL at the end; false if there is no such descriptor, or no /proc. */
bool rl_descriptor_target(int descriptor, char *text, size_t size) __attribute__((visibility("hidden")));

/* Writes everything, if need be in several parts; a descriptor that is not blocking is waited for, a second at a time. No signal is
 * raised. False if not all was written. */
bool rl_write_all(int file, const void *bytes, size_t length) __attribute__((visibility("hidden")));

#endif
