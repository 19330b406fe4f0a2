/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "signal_stack.h"

#include "stress.h"

#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

enum { paint = 0xA5, alignment = 64, least_frame = 2048 };

void signal_stack_begin(struct signal_stack *stack, size_t room) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    /* The frame holds the vector registers, so its size depends on the processor. */
    size_t frame = (size_t)getauxval(AT_MINSIGSTKSZ);
    if (frame < least_frame) frame = least_frame;
    stack->size = (frame + room + alignment - 1) / alignment * alignment;
    stack->mapped = page + (stack->size + page - 1) / page * page;
    stack->mapping = mmap(NULL, stack->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stack->mapping != MAP_FAILED);
    MUST_BE(mprotect(stack->mapping, page, PROT_NONE), ==, 0);
    stack->low = stack->mapping + page;
    memset(stack->low, paint, stack->size);
    stack_t description = {.ss_sp = stack->low, .ss_size = stack->size};
    MUST_BE(sigaltstack(&description, NULL), ==, 0);
}

size_t signal_stack_end(struct signal_stack *stack, const unsigned char *frame) {
    stack_t off = {.ss_flags = SS_DISABLE};
    size_t clean = 0;
    MUST_BE(sigaltstack(&off, NULL), ==, 0);
    while (clean < stack->size && stack->low[clean] == paint) clean++;
    size_t used = (size_t)(frame - (stack->low + clean));
    munmap(stack->mapping, stack->mapped);
    return used;
}
