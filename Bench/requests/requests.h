/* SPDX-License-Identifier: MIT */
/* What a way of sending requests to another process gives to the measurement. */
#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include "../bench.h"

#include <sys/types.h>

/* In the child: makes its end ready, writes a byte to `ready`, and echoes requests for ever. */
void serve_requests(int socket, int ready, const char *name);
/* In the parent, after that. */
void open_requests(int socket, const char *name);
/* Sends a request and waits for its echo; true if it has the same length and ends. */
bool make_request(const char *bytes, size_t length);

#endif
