/* SPDX-License-Identifier: MIT */
/* What descriptions say about functions, threads and descriptors. */
#ifndef CLINUX_INSIGHT_H
#define CLINUX_INSIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The name of the function at an address, or NULL if its file does not say; then the file, or NULL if there is none, and how far the
 * address is from the file's beginning. */
const char *rl_symbol(const void *address, const char **file, uintptr_t *offset) __attribute__((visibility("hidden")));

/* The same for the function that an address is in. */
const char *rl_code_symbol(const void *address, const char **file, uintptr_t *offset) __attribute__((visibility("hidden")));

/* The return addresses on the stack of a thread of the process, if the thread is blocked in the kernel: where it is blocked, and every address that
 * follows a call, from the innermost to an address of its stack. Returns their number; 0 without /proc, in a process that is
 * not dumpable, and for a thread that computes, which *computes says. Addresses left there by earlier calls may be
 * among them. The caller keeps the thread from leaving that part of its stack. */
unsigned rl_blocked_backtrace(pid_t thread, const void *outermost, const void **frames, unsigned capacity, bool *computes)
    __attribute__((visibility("hidden")));

/* The same for a computing thread: it is asked by SIGURG. 0 if the program has an action of its own for that signal, or the thread blocks it, or does
 * not answer within a twentieth of a second. Waits, so no lock may be held; the caller checks afterwards whether the thread is still where it was.
 * For one thread at a time. */
unsigned rl_computing_backtrace(pid_t thread, const void *outermost, const void **frames, unsigned capacity)
    __attribute__((visibility("hidden")));

/* Whether the calling thread may be asked. Not if its signal stack, see sigaltstack(2), is too small for the answer: the handler uses that
 * stack, as do all handlers that may interrupt any code, and a program that keeps a small one may never have used it. */
bool rl_takes_questions(void) __attribute__((visibility("hidden")));

/* Forbids such questions, and ends the one that is under way: afterwards the action of SIGURG is the program's, until they are allowed again.
 * For one thread at a time. Waits at most while the asked thread, if it has begun, collects its answer. */
void rl_forbid_questions(void) __attribute__((visibility("hidden")));
void rl_allow_questions(void) __attribute__((visibility("hidden")));

/* In the child of `fork`: no question is pending, and SIGURG has its default action. */
void rl_forget_question(void) __attribute__((visibility("hidden")));

/* Sends text to the socket that NOTIFY_SOCKET names, and waits up to a second for room. False if it was not sent. */
bool rl_service_notify(const char *text, bool waits) __attribute__((visibility("hidden")));
/* Within how many microseconds the service manager wants to hear of this process; 0: it does not. */
uint64_t rl_service_watchdog(void) __attribute__((visibility("hidden")));

enum { RL_THREAD_NAME_SIZE = 16 };
/* The kernel's name of a thread of the process, without a newline: 1. -1: there is no such thread. 0: unknown, without a /proc that has its number,
 * which one of an outer pid namespace has not. */
int rl_thread_name(pid_t thread, char *name) __attribute__((visibility("hidden")));
/* Reads the beginning of a file that /proc has for a thread of the process. False: it has none. */
bool rl_read_about(pid_t thread, const char *name, char *text, size_t size) __attribute__((visibility("hidden")));

/* How /proc names a descriptor, with a NUL at the end; false if there is no such descriptor, or no /proc. */
bool rl_descriptor_target(int descriptor, char *text, size_t size) __attribute__((visibility("hidden")));

/* The names of the fields of RLStatistics behind its version, in their order, each with a NUL; a `*` precedes those of times. */
const char *rl_statistics_names(void) __attribute__((visibility("hidden")));

/* A number that no other socket of the system ever had; 0 for a descriptor that is not a socket. */
uint64_t rl_socket_cookie(int descriptor) __attribute__((visibility("hidden")));
/* Whether a descriptor is of the socket with that number, of which the last 32 bits suffice; true if the kernel does not say. */
bool rl_is_socket(int descriptor, uint64_t cookie) __attribute__((visibility("hidden")));

/* How many bytes the UTF-8 character at the beginning of the text has; 0 if there is none. */
int rl_utf8_length(const char *text) __attribute__((visibility("hidden")));

/* Writes everything, if need be in several parts; it waits for a non-blocking descriptor, a second at a time. No signal is raised.
 * False if not all was written. */
bool rl_write_all(int file, const void *bytes, size_t length) __attribute__((visibility("hidden")));

#endif
