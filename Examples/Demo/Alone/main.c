/* SPDX-License-Identifier: MIT */
/* The C half of the demo on its own: counts a file and prints the figures as wc does. */
#include "counter.h"

#include <stdio.h>
#include <stdlib.h>

static void stop(void *info) {
    (void)info;
    RLStop(RLGetMain());
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE [SECONDS]\n", argv[0]);
        return 2;
    }
    demo_counter *counter = demo_start(argv[1], argc > 2 ? atof(argv[2]) : 1, stop, NULL);
    if (!counter) {
        perror(argv[1]);
        return 1;
    }
    /* The pipe's source goes away before the last report comes: nothing else keeps the loop from finishing. */
    RLSourceContext idle_context = {0};
    RLSourceRef idle = RLSourceCreate(0, &idle_context);
    RLAddSource(RLGetMain(), idle, kRLDefaultMode);
    RLRun();
    demo_counts counts = demo_so_far(counter);
    printf("%lu %lu %lu %s\n", counts.lines, counts.words, counts.bytes, argv[1]);
    demo_free(counter);
    RLSourceInvalidate(idle);
    RLRelease(idle);
    return 0;
}
