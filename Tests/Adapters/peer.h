/* SPDX-License-Identifier: MIT */
/*
 * The peers of adapters: real servers, started and ended by the test, with a folder of their own for sockets and files. A server
 * dies with the process of its case, whatever becomes of that; the folder is removed then.
 */
#ifndef RUNLOOP_TESTS_ADAPTERS_PEER_H
#define RUNLOOP_TESTS_ADAPTERS_PEER_H

#include "support.h"

#include <sys/types.h>

typedef struct Peer {
    pid_t pid;
    int output; /* what it prints, standard error included */
    char *line; /* what peer_start waited for */
} Peer;

/* The folder, which the first call makes, with a name in it: a string for the life of the process. */
char *peer_path(const char *name);
/* Starts a program, found as the shell finds it, and returns when a line with this text has been printed. The list ends with NULL. */
Peer peer_start(const char *text, const char *const arguments[]);
/* Kills it, and waits until it is gone. */
void peer_kill(Peer *peer);
/* It does nothing any more, or goes on. */
void peer_pause(const Peer *peer);
void peer_continue(const Peer *peer);

/* The passes that the calling thread's loop makes in a mode, counted from this call on; a use of their number. */
const long *count_passes(RLMode mode);
/* Runs the default mode until the counter has reached the value; fails if the run ends, or 30 seconds pass, before that. */
void run_until(const int *counter, int value);
/* S-ADP-10: serves the default mode by a foreign run from now on, and returns when that waits; code of the test is the host's then. */
void host_begin(void);
/* Is the host until the counter has reached the value and the run waits; fails if nothing comes for 30 seconds. */
void host_until(const int *counter, int value);
void host_end(void);
/* S-ADP-3: in a tenth of a second in which nothing happens the loop makes hardly any pass. */
void expect_idle(void);

#endif
