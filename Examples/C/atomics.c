/* SPDX-License-Identifier: MIT */
/*
 * Atomic operations with OSAtomic's meaning: bits by Apple's order, compare-and-swap, and a count of references whose last user sees
 * what the others did. Examples/Atomics has the same in Swift.
 */
#include <runloop/runloop.h>
#include <runloop/atomic.h>

#include <stdint.h>
#include <stdio.h>

static volatile int32_t users;
static int work[4], sum;
static RLSemaphore is_over = RL_SEMAPHORE_INIT(0);

/* Leaves its part; the last of the threads adds all. */
static void use(RLThreadRef thread, void *part) {
    (void)thread;
    *(int *)part = 10;
    if (RLAtomicDecrement32Barrier(&users) != 0) return;
    for (int i = 0; i < 4; i++) sum += work[i];
    RLSemaphoreSignal(&is_over);
}

int main(void) {
    int32_t value = 0;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t bit = (uint32_t[]){0, 7, 15}[i];
        value = 0;
        bool was_set = RLAtomicTestAndSetBarrier(bit, &value);
        printf("bit %u: %d, was set: %s\n", bit, value, was_set ? "yes" : "no");
    }
    bool swapped = RLAtomicCompareAndSwap32(256, 512, &value);
    printf("256 to 512: %s, %d\n", swapped ? "yes" : "no", value);
    swapped = RLAtomicCompareAndSwap32(256, 1024, &value);
    printf("256 to 1024: %s, %d\n", swapped ? "yes" : "no", value);
    printf("sum: %d\n", RLAtomicAdd32(2, &value));

    users = 4;
    for (int i = 0; i < 4; i++) RLThreadDetachNew(use, &work[i], NULL);
    RLSemaphoreWait(&is_over);
    printf("last user: %d\n", sum);
    return 0;
}
