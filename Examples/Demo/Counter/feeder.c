/* SPDX-License-Identifier: MIT */
/* The feeder's thread: a slow producer, so that there is something to watch. */
#include "private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool write_all(int fd, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(fd, bytes, length);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

/* Writes the next portion. The pipe may be full: this thread may wait, its loop has nothing else to do. */
static void feed(RLTimerRef timer, void *info) {
    demo_feeder *feeder = info;
    char *buffer = malloc(feeder->portion);
    ssize_t count = buffer ? read(feeder->file, buffer, feeder->portion) : -1;
    if (count < 0 && buffer && errno == EINTR) {
        free(buffer);
        return; /* the next fire tries again */
    }
    if (count < 0) perror("demo: reading the file");
    if (count > 0 && !write_all(feeder->pipe, buffer, (size_t)count)) count = -1;
    free(buffer);
    /* With its only timer gone the loop is empty and the run ends. */
    if (count <= 0) RLTimerInvalidate(timer);
}

static void *feeder_main(void *argument) {
    demo_feeder *feeder = argument;
    RLTimerContext context = {.info = feeder};
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent(), feeder->interval, 0, 0, feed, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLRelease(timer);
    RLRun();
    close(feeder->file);
    close(feeder->pipe); /* the reader sees the end of the file */
    return NULL;
}

bool demo_feeder_start(demo_feeder *feeder) {
    return pthread_create(&feeder->thread, NULL, feeder_main, feeder) == 0;
}
