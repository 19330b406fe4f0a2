/* SPDX-License-Identifier: MIT */
/* What descriptions tell of functions, threads and descriptors: what the dynamic linker and /proc know. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "CLinux.h"
#include "CLinuxInsight.h"

/* A program that is linked statically is in no dynamic linker's list; its segments are known all the same. */
struct rl_place {
    uintptr_t address, base;
};

static int find_segment(struct dl_phdr_info *file, size_t size, void *wanted) {
    (void)size;
    struct rl_place *place = wanted;
    for (int part = 0; part < file->dlpi_phnum; part++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[part];
        if (segment->p_type != PT_LOAD || place->address - file->dlpi_addr - segment->p_vaddr >= segment->p_memsz) continue;
        place->base = file->dlpi_addr;
        return 1;
    }
    return 0;
}

static const char *find_code(const void *address, const char **file, uintptr_t *offset, const void **start) {
    Dl_info info;
    *file = NULL;
    if (dladdr(address, &info) == 0) {
        struct rl_place place = {(uintptr_t)address, 0};
        if (dl_iterate_phdr(find_segment, &place) == 0) return NULL;
        info = (Dl_info){.dli_fname = program_invocation_name, .dli_fbase = (void *)place.base};
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
