/* SPDX-License-Identifier: MIT */
/*
 * CoreFoundation's names as symbols, for dlsym, ctypes and compilers of other languages: functions jump to those of librunloop-cf
 * and librunloop, constants are copies of theirs. A program that is compiled with the headers needs none of this.
 *
 * Two libraries with these names in one process take each other's calls. So this one ends a process that has another when it is
 * loaded; a library that comes later cannot be kept out.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#define JUMP "jmp "
#define PLT "@PLT"
#elif defined(__aarch64__)
#define JUMP "b "
#define PLT ""
#else
#error "No jumps are known for this processor."
#endif

/* A symbol that jumps. */
#define FUNCTION(name, target) \
    __asm__(".text\n.p2align 4\n.globl " #name "\n.type " #name ", %function\n" #name ":\n\t" JUMP #target PLT "\n.size " #name \
            ", .-" #name "\n");
#define CONSTANT(name, target)
#include "RLCFExports.h"
#undef FUNCTION
#undef CONSTANT

/* The constants are pointers, numbers and structs of pointers; none is longer than this. */
typedef struct Constant {
    const void *words[6];
} Constant;

#define FUNCTION(name, target)
#define CONSTANT(name, target) \
    extern const char target[]; \
    __attribute__((visibility("default"))) Constant name;
#include "RLCFExports.h"
#undef CONSTANT

/* Copies as many bytes as the constant has, by its symbol. */
static void copy(Constant *constant, const void *source) {
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    size_t size = sizeof(void *);
    if (dladdr1(source, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol && symbol->st_size) size = symbol->st_size;
    memcpy(constant, source, size < sizeof *constant ? size : sizeof *constant);
}

static int findOther(struct dl_phdr_info *object, size_t size, void *found) {
    (void)size;
    static const char symbol[] = "CFRunLoopGetMain";
    const char *path = object->dlpi_name && object->dlpi_name[0] ? object->dlpi_name : NULL;
    void *handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    void *function = handle ? dlsym(handle, symbol) : NULL;
    Dl_info other, own;
    if (function && dladdr(function, &other) && dladdr((void *)findOther, &own) && other.dli_fbase != own.dli_fbase)
        *(const char **)found = other.dli_fname;
    if (handle) dlclose(handle);
    return *(const char **)found != NULL;
}

static void say(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

__attribute__((constructor)) static void load(void) {
    const char *other = NULL;
    dl_iterate_phdr(findOther, &other);
    if (other) {
        say("librunloop-cf-names: the process already has CoreFoundation's names from ");
        say(other);
        say("; each would take calls that are meant for the other. Compile with runloop-cf's headers instead, which need no such names.\n");
        abort();
    }
#define CONSTANT(name, target) copy(&name, target);
#include "RLCFExports.h"
#undef CONSTANT
}
