/* SPDX-License-Identifier: MIT */
/* Descriptor objects for tests: each records its name and the letters of what is reported. */
#ifndef RUNLOOP_TESTS_SUPPORT_DESCRIPTOR_H
#define RUNLOOP_TESTS_SUPPORT_DESCRIPTOR_H

#include "support.h"

typedef struct Descriptor Descriptor;
struct Descriptor {
    const char *name;                 /* records "name:r", "name:w" or "name:rw" */
    RLOptionFlags again;              /* what the callback enables again */
    bool reads;                       /* the callback reads one byte */
    void (*action)(Descriptor *self); /* called last in the callback; may be NULL */
    void *data;                       /* for the action */
    RLFileDescriptorRef file;
    RLSourceRef source; /* not owned, good while it is in a loop */
    int fd;
    int calls, retains, releases; /* read with count_of from other threads */
    pthread_t thread;             /* where the callback ran last */
};

/* Makes the object with a context that counts retain and release; the caller owns it. */
void descriptor_make(Descriptor *descriptor, int fd, bool close_on_invalidate);
/* Makes it, enables types, and leaves its source to the current loop's default mode. */
void add_descriptor(Descriptor *descriptor, int fd, RLOptionFlags types);
/* A connected pair of stream sockets. */
void make_pair(int ends[2]);
/* A run of the default mode of so many seconds, with one wait and no callback. */
void expect_quiet_run(double seconds);
/* The numbers from 64 up that name files of a kind, as /proc has it: "anon_inode:[eventpoll]". Returns how many there are, 8 at most. */
int library_descriptors(const char *kind, int fds[8]);

#endif
