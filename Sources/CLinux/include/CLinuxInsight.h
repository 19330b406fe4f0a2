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

/* The same of the function that an address is in. */
const char *rl_code_symbol(const void *address, const char **file, uintptr_t *offset) __attribute__((visibility("hidden")));

/* What the stack of a thread of the process has, if the thread is blocked in the kernel: where that is, and every address that follows
 * a call, from the innermost to an address of its stack. Their number; 0 for a thread that computes, or without /proc. What calls that
 * are over have left there may be among them. The caller keeps the thread from leaving that part of its stack. */
unsigned rl_blocked_backtrace(pid_t thread, const void *outermost, const void **frames, unsigned capacity)
    __attribute__((visibility("hidden")));

/* Sends text to the socket that NOTIFY_SOCKET names, and waits up to a second for room. False if it was not sent. */
bool rl_service_notify(const char *text, bool waits) __attribute__((visibility("hidden")));
/* Within how many microseconds the service manager wants to hear of this process; 0: it does not. */
uint64_t rl_service_watchdog(void) __attribute__((visibility("hidden")));

enum { RL_THREAD_NAME_SIZE = 16 };
/* The kernel's name of a thread of the process, without a newline. False if there is no such thread, or no /proc. */
bool rl_thread_name(pid_t thread, char *name) __attribute__((visibility("hidden")));

/* What /proc says that a descriptor is, with a NUL at the end; false if there is no such descriptor, or no /proc. */
bool rl_descriptor_target(int descriptor, char *text, size_t size) __attribute__((visibility("hidden")));

/* The names of the fields of RLStatistics behind its version, in their order, each with a NUL; a `*` stands before those of times. */
const char *rl_statistics_names(void) __attribute__((visibility("hidden")));

/* What tells a socket from all others that the system ever had; 0 for a number that is none. */
uint64_t rl_socket_cookie(int descriptor) __attribute__((visibility("hidden")));

/* How many bytes the character of UTF-8 has that the text begins with; 0 if that is none. */
int rl_utf8_length(const char *text) __attribute__((visibility("hidden")));

/* Writes everything, if need be in several parts; a descriptor that is not blocking is waited for, a second at a time. No signal is
 * raised. False if not all was written. */
bool rl_write_all(int file, const void *bytes, size_t length) __attribute__((visibility("hidden")));

#endif
