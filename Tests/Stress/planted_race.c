/* SPDX-License-Identifier: MIT */
/* Has one deliberate defect: two threads write a plain variable, one of them from a source's
   perform, with nothing that orders the two. The suite expects the thread sanitizer to report it,
   which proves that the sanitizer sees through the library. With the argument "ordered" the defect
   is gone, because what is written before a signal is seen by the perform (S-WAKE-8): then nothing
   may be reported. */
#include "stress.h"

#include <stdio.h>
#include <string.h>

static int plain;
static atomic_int performed;
static RLRunLoopRef loop;

static void perform(void *info) {
    (void)info;
    plain++;
    /* Relaxed, so that it orders nothing. */
    atomic_store_explicit(&performed, 1, memory_order_relaxed);
    RLStop(loop);
}

int main(int count, char **arguments) {
    bool ordered = count > 1 && strcmp(arguments[1], "ordered") == 0;
    struct stress_loop target;
    RLSourceRef source = stress_source(0, perform, NULL);
    stress_loop_start(&target, SLEEP_ON_FUTEX);
    loop = target.loop;
    RLAddSource(loop, source, kRLDefaultMode);
    if (ordered) plain++;
    RLSourceSignal(source);
    RLWakeUp(loop);
    while (!atomic_load_explicit(&performed, memory_order_relaxed)) sched_yield();
    if (!ordered) plain++;
    stress_loop_join(&target);
    RLRelease(source);
    printf("plain is %d\n", plain);
    return 0;
}
