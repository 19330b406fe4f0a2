/* SPDX-License-Identifier: MIT */
/* What descriptions tell of functions, threads and descriptors: what the dynamic linker and /proc know. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "CLinux.h"
#include "CLinuxInsight.h"

const char *rl_symbol(const void *address, const char **file, uintptr_t *offset) {
    Dl_info info;
    *file = NULL;
    if (dladdr(address, &info) == 0) return NULL;
    *offset = (uintptr_t)address - (uintptr_t)info.dli_fbase;
    const char *slash = strrchr(info.dli_fname, '/');
    *file = slash == NULL ? info.dli_fname : slash + 1;
    return info.dli_saddr == address ? info.dli_sname : NULL;
}

bool rl_thread_name(pid_t thread, char *name) {
    char path[48];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)thread);
    int file = rl_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (file < 0) return false;
    ssize_t length = rl_sys_read(file, name, RL_THREAD_NAME_SIZE);
    rl_sys_close(file);
    if (length <= 0) return false;
    name[length - 1] = '\0';
    return true;
}

bool rl_descriptor_target(int descriptor, char *text, size_t size) {
    char path[48];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(path, text, size - 1);
    if (length < 0) return false;
    text[length] = '\0';
    return true;
}
