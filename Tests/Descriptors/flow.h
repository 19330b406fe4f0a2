/* SPDX-License-Identifier: MIT */
/* The bytes that go one way over a file: each says which sender it is from, and which of that sender's bytes it is. */
#ifndef DESCRIPTORS_FLOW_H
#define DESCRIPTORS_FLOW_H

#include <stdbool.h>

/* Each object of a program, and the program or its peer. */
enum { SENDERS = 8, PROGRAM_SENDER = SENDERS - 1 };

struct flow {
    unsigned long sent[SENDERS], received[SENDERS];
    bool is_lossy[SENDERS]; /* bytes of that sender were dropped, as the rules say */
};

/* The next bytes of a sender. */
void flow_make(const struct flow *flow, int sender, char *bytes, int count);
/* So many of them were taken. */
void flow_sent(struct flow *flow, int sender, long count);
/* False: one of them is not the next of its sender. */
bool flow_received(struct flow *flow, const char *bytes, long count);
void flow_is_lossy(struct flow *flow);
/* How many bytes are on their way, of senders that lose none. */
long flow_left(const struct flow *flow);

#endif
