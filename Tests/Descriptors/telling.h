/* SPDX-License-Identifier: MIT */
/* What the callbacks of sockets are told: connections, the ends of connects, data. The callers hold the lock of the model. */
#ifndef DESCRIPTORS_TELLING_H
#define DESCRIPTORS_TELLING_H

#include <runloop/runloop.h>

/* A descriptor that was accepted, and whose it is. */
void told_connection(int index, int fd, RLDataRef address);
/* NULL: the connect has succeeded. */
void told_connect(int index, const int32_t *error);

/* Of length 0: the end of the stream. */
void told_data(int index, RLDataRef data);

#endif
