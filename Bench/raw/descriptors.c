/* SPDX-License-Identifier: MIT */
/* epoll_wait that takes many events at once, as it would be written by hand. */
#define _GNU_SOURCE
#include "raw.h"
#include "../workloads/tokens.h"

#include <sys/epoll.h>

static void run(int epoll) {
    struct epoll_event events[64];
    bool is_over = false;
    while (!is_over) {
        int count = epoll_wait(epoll, events, 64, -1);
        for (int i = 0; i < count; i++) is_over = token_take((long)events[i].data.u64, false);
    }
}

void raw_descriptors(void) {
    long count = bench_argument(0, 1000);
    bench_pin(0);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    tokens_open(bench_argument(1, 1), bench_argument(2, 1));
    if (bench_argument(3, 0)) bench_absent();
    for (long i = 0; i < token_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)i};
        bench_require(epoll_ctl(epoll, EPOLL_CTL_ADD, token_places[i].descriptor, &event) == 0,
                      "no registration");
    }
    for (int phase = 0; phase < 2; phase++) {
        tokens_start(phase ? count : count / 10 + 1);
        bench_begin();
        run(epoll);
        if (phase) bench_end((double)token_events);
        tokens_end();
    }
}
