/* SPDX-License-Identifier: MIT */
/*
 * Events of many descriptors, of which few are active: nanoseconds for an event, one read and one
 * write of the callback included.
 *     arguments: events; descriptors; active ones; 1 or 2 for the library's other kinds of sources
 */
#include "tokens.h"
#include "workloads.h"

static loop *own;
static bool reads;

static void receive(void *place) {
    if (token_take((long)(intptr_t)place, reads)) loop_stop(own);
}

void descriptors(void) {
    long events = bench_argument(0, 1000);
    bench_pin(0);
    own = loop_open(false);
    tokens_open(bench_argument(1, 1), bench_argument(2, 1));
    int kind = (int)bench_argument(3, 0);
    for (long i = 0; i < token_count; i++)
        reads = loop_receive(own, token_places[i].descriptor, receive, (void *)(intptr_t)i, kind);
    for (int phase = 0; phase < 2; phase++) {
        tokens_start(phase ? events : events / 10 + 1);
        bench_begin();
        loop_run(own);
        if (phase) bench_end((double)token_events);
        tokens_end();
    }
}
