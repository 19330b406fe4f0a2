/* SPDX-License-Identifier: MIT */
/* What the tests of section 46 share: a process that asks another what its loops do. */
#ifndef RUNLOOP_TESTS_SUPPORT_SHARE_H
#define RUNLOOP_TESTS_SUPPORT_SHARE_H

#include "support.h"

#include <sys/types.h>
#include <sys/un.h>

/* Makes a directory for names that only this case uses; it goes with the case's process. */
void share_alone(void);

/* The address of the n-th shared process of the directory; without a path if there is none. */
struct sockaddr_un share_address(int number);
/* A connection to the n-th shared process of the directory, in the order of their numbers; -1 if there is none, or it refuses. */
int share_connect(int number);
/* The same once it takes connections. */
int share_connect_soon(int number);

/* Sends a request; whether it was taken. */
bool share_send(int connection, const char *request);
/* The whole answer, which the caller frees; NULL if the connection ended, or if nothing came for 10 seconds. */
char *share_receive(int connection);
/* Both. */
char *share_ask(int connection, const char *request);
/* Whether the other end closes the connection, within 10 seconds. */
bool share_ends(int connection);

/* The text behind the first "NAME": of the line of a loop, up to the next comma; good until the next call. */
const char *share_value(const char *answer, RLRunLoopRef loop, const char *name);

/* How many threads of the process serve others. */
int share_threads(void);

#endif
