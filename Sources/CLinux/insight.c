/* SPDX-License-Identifier: MIT */
/* What descriptions say about functions, threads and descriptors: what the dynamic linker and /proc know. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "CLinux.h"
#include "CLinuxInsight.h"

/* A statically linked program is in no dynamic linker's list; the kernel tells where its segments are. dl_iterate_phdr(3), which knows
 * too, may wait for ever in the child of a fork. */
static bool find_segment(uintptr_t address, uintptr_t *base) {
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    uintptr_t distance = 0;
    for (unsigned long part = 0; segments && part < getauxval(AT_PHNUM); part++) {
        if (segments[part].p_type == PT_PHDR) distance = (uintptr_t)segments - segments[part].p_vaddr;
    }
    for (unsigned long part = 0; segments && part < getauxval(AT_PHNUM); part++) {
        if (segments[part].p_type != PT_LOAD || address - distance - segments[part].p_vaddr >= segments[part].p_memsz) continue;
        *base = distance;
        return true;
    }
    return false;
}

static const char *find_code(const void *address, const char **file, uintptr_t *offset, const void **start) {
    Dl_info info;
    *file = NULL;
    if (dladdr(address, &info) == 0) {
        uintptr_t base;
        if (!find_segment((uintptr_t)address, &base)) return NULL;
        info = (Dl_info){.dli_fname = program_invocation_name, .dli_fbase = (void *)base};
    }
    *offset = (uintptr_t)address - (uintptr_t)info.dli_fbase;
    const char *slash = strrchr(info.dli_fname, '/');
    *file = slash == NULL ? info.dli_fname : slash + 1;
    *start = info.dli_saddr;
    return info.dli_sname;
}

const char *rl_symbol(const void *address, const char **file, uintptr_t *offset) {
    const void *start;
    const char *name = find_code(address, file, offset, &start);
    return name && start == address ? name : NULL;
}

const char *rl_code_symbol(const void *address, const char **file, uintptr_t *offset) {
    const void *start;
    return find_code(address, file, offset, &start);
}

bool rl_read_about(pid_t thread, const char *name, char *text, size_t size) {
    char path[48];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", (int)thread, name);
    return rl_read_text(path, text, size);
}

int rl_thread_name(pid_t thread, char *name) {
    if (thread == rl_gettid()) return prctl(PR_GET_NAME, name) == 0;
    if (!rl_read_about(thread, "comm", name, RL_THREAD_NAME_SIZE)) {
        /* What a filter of system calls answers says nothing. */
        return thread == 0 || (syscall(SYS_tgkill, getpid(), thread, 0) < 0 && errno == ESRCH) ? -1 : 0;
    }
    char *newline = strchr(name, '\n');
    if (newline) *newline = '\0';
    return 1;
}

const char *rl_statistics_names(void) {
    return "runs\0passes\0waits\0sleeps\0wakeUps\0rouses\0sources\0ports\0timers\0skippedDates\0functions\0requests\0"
           "observers\0mainQueue\0*accountedTime\0callOuts\0*callOutTime\0*longestCallOut\0*asleepTime";
}

uint64_t rl_socket_cookie(int descriptor) {
    enum { COOKIE = 57 }; /* SO_COOKIE, which libc declares late */
    uint64_t cookie = 0;
    socklen_t size = sizeof cookie;
    return getsockopt(descriptor, SOL_SOCKET, COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

bool rl_is_socket(int descriptor, uint64_t cookie) {
    uint64_t found = rl_socket_cookie(descriptor);
    /* A filter may refuse the question: an answer is only what a number that was closed gives. */
    return found == 0 ? cookie == 0 || (errno != EBADF && errno != ENOTSOCK) : (uint32_t)found == (uint32_t)cookie;
}

int rl_utf8_length(const char *text) {
    const unsigned char *bytes = (const unsigned char *)text;
    if (bytes[0] < 0x80) return 1;
    int length = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : 2;
    uint32_t character = bytes[0] & (0xffu >> (length + 1));
    if (bytes[0] < 0xc2 || bytes[0] > 0xf4) return 0;
    for (int i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80) return 0;
        character = character << 6 | (bytes[i] & 0x3f);
    }
    /* Longer than needed, half of a pair of UTF-16, or beyond the last. */
    if (length == 3 && (character < 0x800 || character >> 11 == 0xd800 >> 11)) return 0;
    return length == 4 && (character < 0x10000 || character > 0x10ffff) ? 0 : length;
}
