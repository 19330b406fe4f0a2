/* SPDX-License-Identifier: MIT */
/*
 * Tokens that go round among descriptors, for the loops and for raw epoll: with n descriptors of
 * which m are active there are m rings of n / m eventfds. Whoever finds its own readable takes the
 * token and writes the next one of its ring. No two tokens meet, so each event must be exactly one.
 */
#ifndef BENCH_TOKENS_H
#define BENCH_TOKENS_H

#include "../bench.h"

#include <sys/eventfd.h>
#include <unistd.h>

static struct token_place {
    int descriptor;
    bool has_token;
} *token_places;
static long token_count, tokens, token_events, tokens_taken, tokens_given;

static inline void token_give(long place) {
    uint64_t one = 1;
    token_places[place].has_token = true;
    tokens_given++;
    bench_require(write(token_places[place].descriptor, &one, sizeof one) == sizeof one, "no write");
}

/* Returns whether the last token was taken. */
static inline bool token_take(long place, bool was_read) {
    uint64_t count = 1;
    if (!was_read)
        bench_require(read(token_places[place].descriptor, &count, sizeof count) == sizeof count,
                      "a descriptor was not readable");
    bench_require(token_places[place].has_token && count == 1, "an event came that was none");
    token_places[place].has_token = false;
    tokens_taken++;
    if (tokens_given < token_events) token_give((place + tokens) % token_count);
    return tokens_taken == token_events;
}

static inline void tokens_open(long count, long active) {
    token_count = count;
    tokens = active;
    bench_require(count % active == 0, "the rings are not alike");
    bench_allow_descriptors(count);
    token_places = bench_allocate((size_t)count * sizeof *token_places);
    for (long i = 0; i < count; i++) token_places[i].descriptor = bench_idle_descriptor();
}

static inline void tokens_start(long events) {
    token_events = events < tokens ? tokens : events;
    tokens_given = tokens_taken = 0;
    for (long i = 0; i < tokens; i++) token_give(i);
}

static inline void tokens_end(void) {
    bench_require(tokens_taken == token_events && tokens_given == token_events, "an event was lost");
}

#endif
