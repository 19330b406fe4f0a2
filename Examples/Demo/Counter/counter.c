/* SPDX-License-Identifier: MIT */
/* The main thread's part: a port source on the pipe, lines for the worker, and its reports. */
#include "private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { read_size = 64 * 1024, portions = 40 };

/* Hands the worker the rest and the first part of the bytes, and keeps what comes after it as the new rest. */
static void give(demo_counter *counter, const char *bytes, size_t length, size_t keep, bool last) {
    size_t whole = length - keep;
    if (whole > 0 || last) {
        demo_batch *batch = malloc(sizeof *batch + counter->rest_length + whole);
        if (!batch) abort();
        batch->next = NULL;
        batch->last = last;
        batch->length = counter->rest_length + whole;
        if (counter->rest_length) memcpy(batch->bytes, counter->rest, counter->rest_length);
        if (whole) memcpy(batch->bytes + counter->rest_length, bytes, whole);
        counter->rest_length = 0;
        demo_worker_give(&counter->worker, batch);
    }
    if (keep > 0) {
        char *rest = realloc(counter->rest, counter->rest_length + keep);
        if (!rest) abort();
        memcpy(rest + counter->rest_length, bytes + whole, keep);
        counter->rest = rest;
        counter->rest_length += keep;
    }
}

static RLPort get_port(void *info) { return ((demo_counter *)info)->pipe; }

/* Called while the pipe is readable. The loop reads nothing from it and calls again if something is left. */
static void readable(void *info) {
    demo_counter *counter = info;
    char bytes[read_size];
    ssize_t count = read(counter->pipe, bytes, sizeof bytes);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count > 0) {
        size_t keep = 0;
        while (keep < (size_t)count && bytes[(size_t)count - keep - 1] != '\n') ++keep;
        give(counter, bytes, (size_t)count, keep, false);
        return;
    }
    give(counter, NULL, 0, 0, true);
    RLSourceInvalidate(counter->source);
    close(counter->pipe);
}

/* Runs on the main loop, once per batch, in the order the worker counted them. */
static void reported(void *info) {
    demo_report *report = info;
    demo_counter *counter = report->counter;
    counter->counts.lines += report->counts.lines;
    counter->counts.words += report->counts.words;
    counter->counts.bytes += report->counts.bytes;
    counter->counts.portions += report->counts.portions;
    if (report->last) counter->finished(counter->info);
}

demo_counter *demo_start(const char *path, double seconds, void (*finished)(void *info), void *info) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    struct stat status;
    int ends[2];
    if (fstat(file, &status) != 0 || pipe(ends) != 0) {
        close(file);
        return NULL;
    }
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);

    demo_counter *counter = calloc(1, sizeof *counter);
    if (!counter) abort();
    counter->pipe = ends[0];
    counter->finished = finished;
    counter->info = info;
    counter->worker.report = reported;
    counter->worker.counter = counter;
    counter->feeder.file = file;
    counter->feeder.pipe = ends[1];
    counter->feeder.portion = (size_t)(status.st_size > 0 ? status.st_size / portions + 1 : read_size);
    counter->feeder.interval = seconds / portions;

    RLSourceContext1 context = {.version = 1, .info = counter, .getPort = get_port, .perform = readable};
    counter->source = RLSourceCreate(0, (RLSourceContext *)(void *)&context);
    RLAddSource(RLGetMain(), counter->source, kRLDefaultMode);
    if (!demo_worker_start(&counter->worker) || !demo_feeder_start(&counter->feeder)) abort();
    return counter;
}

demo_counts demo_so_far(demo_counter *counter) { return counter->counts; }

void demo_free(demo_counter *counter) {
    pthread_join(counter->feeder.thread, NULL);
    demo_worker_join(&counter->worker);
    RLRelease(counter->source);
    free(counter->rest);
    free(counter);
}
