/* SPDX-License-Identifier: MIT */
/* A whole program: one timer without delay, whose callback ends the loop. */
#include "../adapter.h"

#include <stdlib.h>

void bench_absent(void) { exit(3); }
void bench_require(bool holds, const char *what) {
    (void)what;
    if (!holds) exit(1);
}
void *bench_allocate(size_t size) { return calloc(1, size); }

static loop *own;
static int fired;

static void fire(void *info) {
    (void)info;
    fired++;
    loop_stop(own);
}

int main(void) {
    own = loop_open(false);
    loop_rebase(own);
    timer_add(own, 0, 0, 0, fire, NULL);
    loop_run(own);
    return fired == 1 ? 0 : 1;
}
