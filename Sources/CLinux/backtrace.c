/* SPDX-License-Identifier: MIT */
/* The backtrace of another thread: read from outside where it is blocked in the kernel, by its own handler of SIGURG where it computes.
 * See CLinuxInsight.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/auxvec.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>

#include "CLinux.h"

/* Reads the process's own memory, which may be unmapped by now: a plain access would fault. */
static bool read_memory(uintptr_t address, void *bytes, size_t length) {
    struct iovec to = {bytes, length}, from = {(void *)address, length};
    /* Not by the process's number: it is the main thread's, which may have ended. */
    return syscall(SYS_process_vm_readv, rl_get_thread_number(), &to, 1, &from, 1, 0) == (long)length;
}

enum place { UNKNOWN, BLOCKED, COMPUTES };

/* Where a thread is blocked in the kernel: /proc shows the number and the six arguments of the call, then both registers. */
static enum place find_place(pid_t thread, uintptr_t *stack, uintptr_t *code) {
    char line[256];
    if (!rl_read_about(thread, "syscall", line, sizeof line)) {
        /* Of a process that is not dumpable, see prctl(2), it can read the state alone. */
        const char *name_end = rl_read_about(thread, "stat", line, sizeof line) ? strrchr(line, ')') : NULL;
        return name_end && strncmp(name_end, ") R", 3) == 0 ? COMPUTES : UNKNOWN;
    }
    if (strncmp(line, "running", 7) == 0) return COMPUTES;
    char *last = strrchr(line, ' ');
    if (!last) return UNKNOWN;
    *code = strtoull(last + 1, NULL, 16);
    *last = '\0';
    char *before = strrchr(line, ' ');
    if (!before) return UNKNOWN;
    *stack = strtoull(before + 1, NULL, 16);
    return *code != 0 && *stack != 0 ? BLOCKED : UNKNOWN;
}

/* Whether a call ends before the address, so that it may be where that call returns to. */
static bool follows_call(uintptr_t address) {
    struct dl_find_object object;
    if (_dl_find_object((void *)address, &object) != 0) return false;
#if defined(__x86_64__)
    uint8_t code[8];
    if (!read_memory(address - 8, code, 8)) return false;
    if (code[3] == 0xe8) return true; /* call rel32 */
    /* call through a register or memory: ff /2, with the length that its operand has */
    static const uint8_t lengths[] = {2, 3, 4, 6, 7};
    for (unsigned i = 0; i < sizeof lengths; i++) {
        const uint8_t *at = code + 8 - lengths[i];
        if (at[0] != 0xff || (at[1] & 0x38) != 0x10) continue;
        unsigned mode = at[1] >> 6, operand = at[1] & 7, length = 2;
        if (mode != 3) {
            if (operand == 4) length++;
            if (mode == 1) length++;
            if (mode == 2 || (mode == 0 && operand == 5)) length += 4;
        }
        if (length == lengths[i]) return true;
    }
    return false;
#elif defined(__aarch64__)
    uint32_t code;
    if (address % 4 != 0 || !read_memory(address - 4, &code, 4)) return false;
    return (code & 0xfc000000u) == 0x94000000u /* bl */ || (code & 0xfffffc1fu) == 0xd63f0000u /* blr */
        || (code & 0xfefff800u) == 0xd63f0800u /* the authenticating forms of blr */;
#else
    return false;
#endif
}

static uintptr_t without_authentication(uintptr_t word) {
#if defined(__aarch64__)
    return word & 0xffffffffffffu;
#else
    return word;
#endif
}

/* Stores every address between two of the stack that follows a call, beginning at frames[count]. Small enough for the stack of a signal handler. */
static unsigned collect(uintptr_t stack, uintptr_t end, const void **frames, unsigned count, unsigned capacity) {
    enum { CHUNK = 128, LONGEST = 1 << 17 };
    uintptr_t words[CHUNK];
    /* It may be on another stack, that of a signal handler or of a coroutine. */
    if (stack >= end || end - stack > LONGEST * sizeof(uintptr_t)) return count;
    while (stack < end && count < capacity) {
        size_t length = end - stack < sizeof words ? end - stack : sizeof words;
        length -= length % sizeof *words;
        if (length == 0 || !read_memory(stack, words, length)) break;
        for (size_t i = 0; i < length / sizeof *words && count < capacity; i++) {
            uintptr_t word = without_authentication(words[i]);
            if (word > 4096 && follows_call(word)) frames[count++] = (const void *)word;
        }
        stack += length;
    }
    return count;
}

unsigned rl_blocked_backtrace(pid_t thread, const void *outermost, const void **frames, unsigned capacity, bool *computes) {
    uintptr_t stack, code;
    enum place place = capacity > 0 ? find_place(thread, &stack, &code) : UNKNOWN;
    *computes = place == COMPUTES;
    if (place != BLOCKED) return 0;
    frames[0] = (const void *)code;
    return collect(stack, (uintptr_t)outermost, frames, 1, capacity);
}

/* ---- of a thread that computes */

/* With ASKED comes the number of the thread that is asked, which is below 2^22: a thread that was too late for its own question does not
 * answer that of another one. */
enum { NO_QUESTION, PREPARING, ASKED, ANSWERING, ANSWERED, WITHDRAWN, FORBIDDEN, STATE_BITS = 3 };

/* The question to a computing thread. The asking thread writes it while the state is PREPARING, the answering one while it is ANSWERING.
 * One thread asks at a time. Except in the states NO_QUESTION and FORBIDDEN the action of SIGURG may be the library's: a source of the signal
 * is made and ended while questions are forbidden, and never finds that action in the place of the program's. */
static struct {
    /* A futex. ASKED is stored releasing, and ANSWERED, and what ends a question or a ban. PREPARING is sequentially consistent with the action
     * that follows, for the child of `fork`, which restores that where the state is another than NO_QUESTION. */
    _Atomic uint32_t state;
    uintptr_t outermost;
    const void **frames;
    unsigned count, capacity;
} question;

static uint32_t asked_is(pid_t thread) { return ASKED | (uint32_t)thread << STATE_BITS; }

static void set_state(uint32_t state) {
    atomic_store_explicit(&question.state, state, memory_order_release);
    syscall(SYS_futex, &question.state, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX);
}

static bool change_state(uint32_t from, uint32_t to) {
    return atomic_compare_exchange_strong(&question.state, &from, to);
}

static void answer(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (!change_state(asked_is(rl_gettid()), ANSWERING)) return;
    int error = errno;
    const ucontext_t *at = context;
    unsigned count = 0;
#if defined(__x86_64__)
    uintptr_t stack = (uintptr_t)at->uc_mcontext.gregs[REG_RSP];
    question.frames[count++] = (const void *)at->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    uintptr_t stack = at->uc_mcontext.sp;
    question.frames[count++] = (const void *)at->uc_mcontext.pc;
    uintptr_t link = without_authentication(at->uc_mcontext.regs[30]);
    if (count < question.capacity && link > 4096 && follows_call(link)) question.frames[count++] = (const void *)link;
#else
    uintptr_t stack = 0;
#endif
    question.count = collect(stack, question.outermost, question.frames, count, question.capacity);
    set_state(ANSWERED);
    errno = error;
}

/* Waits until the thread has answered or the question is withdrawn, for a twentieth of a second at most before the thread begins to. Its
 * handler is not interrupted, and a thread inside it cannot end. */
static bool await_answer(void) {
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_nsec += 50000000;
    if (limit.tv_nsec >= 1000000000) limit.tv_sec++, limit.tv_nsec -= 1000000000;
    while (true) {
        uint32_t state = atomic_load_explicit(&question.state, memory_order_acquire);
        if (state == ANSWERED || state == WITHDRAWN) return state == ANSWERED;
        bool answering = state == ANSWERING;
        long result = syscall(SYS_futex, &question.state, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, state, answering ? NULL : &limit, NULL,
            FUTEX_BITSET_MATCH_ANY);
        /* A thread that has begun writes to the caller's memory until it has answered, whatever the kernel says to this wait. */
        if (answering || result == 0 || errno == EAGAIN || errno == EINTR) continue;
        /* Too late, unless it begins now. */
        if (change_state(state, PREPARING)) return false;
    }
}

static bool is_ours(const struct sigaction *action) { return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == answer; }

/* Whether a thread blocks SIGURG. The program may wait for it there, by sigwait(3) or a signalfd, and the signals that it has not taken yet
 * would be discarded together with the question. A thread that begins to block it between this look and the question is not noticed: only
 * the thread itself could know (S-SLOW-12). */
static bool blocks_signal(pid_t thread) {
    char line[1024];
    if (!rl_read_about(thread, "stat", line, sizeof line)) return true;
    /* The field after the name, in parentheses, is the third, and the mask is the 32nd. */
    const char *field = strrchr(line, ')');
    for (int number = 2; field && number < 32; number++) field = strchr(field + 1, ' ');
    return !field || (strtoull(field, NULL, 10) & 1ul << (SIGURG - 1));
}

/* Restores the default action, if the action is still the library's. What another thread sets meanwhile stays. */
static void uninstall(void) {
    struct sigaction found, action = {.sa_handler = SIG_DFL};
    if (sigaction(SIGURG, NULL, &found) == 0 && is_ours(&found) && sigaction(SIGURG, &action, &found) == 0 && !is_ours(&found))
        rl_put_back_action(SIGURG, &action, &found);
}

bool rl_takes_questions(void) {
    /* What `answer` and what it calls need, generously. */
    enum { ROOM = 4096 };
    stack_t stack;
    return sigaltstack(NULL, &stack) != 0 || (stack.ss_flags & SS_DISABLE) || stack.ss_size >= getauxval(AT_MINSIGSTKSZ) + ROOM;
}

/* Asks with the action of SIGURG in place. The state is PREPARING, and the action is the library's only until this returns. */
static inline __attribute__((always_inline)) unsigned ask(pid_t thread) {
    struct sigaction found, replaced, ours = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    ours.sa_sigaction = answer;
    /* Not by sigfillset(3), which leaves out the signal of pthread_cancel(3). */
    memset(&ours.sa_mask, 0xff, sizeof ours.sa_mask);
    if (blocks_signal(thread) || sigaction(SIGURG, NULL, &found) != 0) return 0;
    /* The library's own action is found if another thread changed the action and restored it while a thread was asked. */
    if (!is_ours(&found) && ((found.sa_flags & SA_SIGINFO) || found.sa_handler != SIG_DFL)) return 0;
    if (sigaction(SIGURG, &ours, &replaced) != 0) return 0;
    unsigned count = 0;
    if (replaced.sa_sigaction == found.sa_sigaction) {
        atomic_store_explicit(&question.state, asked_is(thread), memory_order_release);
        syscall(SYS_tgkill, getpid(), thread, SIGURG);
        if (await_answer()) count = question.count;
    } else {
        /* The program has set one since the check. */
        rl_put_back_action(SIGURG, &ours, &replaced);
    }
    /* The signal is discarded if it is still pending. */
    uninstall();
    return count;
}

unsigned rl_computing_backtrace(pid_t thread, const void *outermost, const void **frames, unsigned capacity) {
    if (capacity == 0 || !change_state(NO_QUESTION, PREPARING)) return 0;
    question.outermost = (uintptr_t)outermost;
    question.frames = frames;
    question.capacity = capacity;
    unsigned count = ask(thread);
    set_state(NO_QUESTION);
    return count;
}

void rl_forbid_questions(void) {
    uint32_t state;
    while (state = NO_QUESTION, !atomic_compare_exchange_strong(&question.state, &state, FORBIDDEN)) {
        /* Its thread has not begun to answer. */
        bool is_withdrawn = (state & ((1u << STATE_BITS) - 1)) == ASKED && change_state(state, WITHDRAWN);
        syscall(SYS_futex, &question.state, (is_withdrawn ? FUTEX_WAKE : FUTEX_WAIT) | FUTEX_PRIVATE_FLAG, is_withdrawn ? INT_MAX : (int)state, NULL);
    }
}

void rl_allow_questions(void) { atomic_store_explicit(&question.state, NO_QUESTION, memory_order_release); }

void rl_forget_question(void) {
    atomic_store_explicit(&question.state, NO_QUESTION, memory_order_relaxed);
    /* The kernel copies the actions before the memory: a question may have ended in between. */
    if (question.capacity > 0) uninstall();
}
