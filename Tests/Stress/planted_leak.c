/* SPDX-License-Identifier: MIT */
/* Has one deliberate defect: a source is never released. The suite expects the leak sanitizer to
   report it, which proves that leaks of the library's objects are found. With the argument
   "released" the defect is gone, and nothing may be reported (S-SRC-14, S-REF-1). */
#include "stress.h"

#include <stdio.h>
#include <string.h>

static void perform(void *info) { (void)info; }

/* Not inlined, so that no register or stack slot of main keeps the pointer alive. */
__attribute__((noinline)) static void make(int *info, bool release) {
    RLSourceRef source = stress_source(0, perform, info);
    RLSourceSignal(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    if (release) RLRelease(source);
}

/* Overwrites what is left of the frames below main. */
__attribute__((noinline)) static void scrub(void) {
    volatile char space[16384];
    memset((void *)space, 0, sizeof space);
}

int main(int count, char **arguments) {
    static int info;
    bool release = count > 1 && strcmp(arguments[1], "released") == 0;
    for (int i = 0; i < 10; i++) make(&info, release);
    scrub();
    printf("made ten sources\n");
    return 0;
}
