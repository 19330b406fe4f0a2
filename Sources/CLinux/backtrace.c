/* SPDX-License-Identifier: MIT */
/* The backtrace of another thread, read from outside: nothing is sent to it. See CLinuxInsight.h. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "CLinux.h"

/* Reads the process's own memory, which may be gone by now: a plain access would be a fault. */
static bool read_memory(uintptr_t address, void *bytes, size_t length) {
    struct iovec to = {bytes, length}, from = {(void *)address, length};
    return syscall(SYS_process_vm_readv, getpid(), &to, 1, &from, 1, 0) == (long)length;
}

/* Where a thread is blocked in the kernel: /proc has the number and the six arguments of the call, then both registers. */
static bool find_blocked(pid_t thread, uintptr_t *stack, uintptr_t *code) {
    char path[48], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)thread);
    int file = rl_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return false;
    ssize_t length = rl_sys_read(file, line, sizeof line - 1);
    rl_sys_close(file);
    if (length <= 0) return false;
    line[length] = '\0';
    char *last = strrchr(line, ' ');
    if (!last) return false;
    *code = strtoul(last + 1, NULL, 16);
    *last = '\0';
    char *before = strrchr(line, ' ');
    if (!before) return false;
    *stack = strtoul(before + 1, NULL, 16);
    return *code != 0 && *stack != 0;
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

unsigned rl_blocked_backtrace(pid_t thread, const void *outermost, const void **frames, unsigned capacity) {
    enum { CHUNK = 512, LONGEST = 1 << 17 };
    uintptr_t stack, code, words[CHUNK];
    if (capacity == 0 || !find_blocked(thread, &stack, &code)) return 0;
    unsigned count = 0;
    frames[count++] = (const void *)code;
    uintptr_t end = (uintptr_t)outermost;
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
