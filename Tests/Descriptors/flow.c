/* SPDX-License-Identifier: MIT */
#include "flow.h"

enum { SERIAL_BITS = 5, SERIALS = 1 << SERIAL_BITS };

void flow_make(const struct flow *flow, int sender, char *bytes, int count) {
    for (int i = 0; i < count; i++) bytes[i] = (char)(sender << SERIAL_BITS | (int)((flow->sent[sender] + (unsigned long)i) % SERIALS));
}

void flow_sent(struct flow *flow, int sender, long count) {
    if (count > 0) flow->sent[sender] += (unsigned long)count;
}

bool flow_received(struct flow *flow, const char *bytes, long count) {
    bool is_right = true;
    for (long i = 0; i < count; i++) {
        int sender = (unsigned char)bytes[i] >> SERIAL_BITS;
        unsigned long next = flow->received[sender]++;
        if (flow->is_lossy[sender]) continue;
        if (next % SERIALS != (unsigned char)bytes[i] % SERIALS || next >= flow->sent[sender]) is_right = false;
    }
    return is_right;
}

void flow_is_lossy(struct flow *flow) {
    for (int i = 0; i < SENDERS; i++) flow->is_lossy[i] = true;
}

long flow_left(const struct flow *flow) {
    long left = 0;
    for (int i = 0; i < SENDERS; i++)
        if (!flow->is_lossy[i]) left += (long)(flow->sent[i] - flow->received[i]);
    return left;
}
