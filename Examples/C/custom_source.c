/* SPDX-License-Identifier: MIT */
/*
 * A custom input source: the main thread hands commands to a worker through a buffer, signals the source
 * and wakes the worker's loop. The source's schedule and cancel routines, called on the worker's thread,
 * register it with its client, the main thread, and take it off again.
 */
#include <runloop/runloop.h>

#include <pthread.h>
#include <stdio.h>

enum { quit = 0, capacity = 8 };

struct command_source {
    RLSourceRef source;
    RLRunLoopRef loop; /* where the source is scheduled; set before the client hears of it */
    pthread_mutex_t lock;
    int commands[capacity]; /* guarded by lock */
    int count;              /* guarded by lock */
};

static void add_command(struct command_source *self, int command) {
    pthread_mutex_lock(&self->lock);
    if (self->count < capacity) self->commands[self->count++] = command;
    pthread_mutex_unlock(&self->lock);
}

/* Any number of commands may have come since the source was signalled first: take them all. */
static void perform(void *info) {
    struct command_source *self = info;
    int taken[capacity];
    pthread_mutex_lock(&self->lock);
    int count = self->count;
    for (int i = 0; i < count; ++i) taken[i] = self->commands[i];
    self->count = 0;
    pthread_mutex_unlock(&self->lock);
    for (int i = 0; i < count; ++i) {
        if (taken[i] == quit)
            RLSourceInvalidate(self->source); /* calls cancel, and leaves the loop empty */
        else
            printf("command %d\n", taken[i]);
    }
}

/* The client, on the main thread, hears of the source: it sends a few commands and then says goodbye. */
static void client_registered(void *info) {
    struct command_source *self = info;
    printf("registered\n");
    for (int command = 1; command <= 4; ++command) add_command(self, command);
    add_command(self, quit);
    RLSourceSignal(self->source);
    RLWakeUp(self->loop);
}

static void client_unregistered(void *info) {
    struct command_source *self = info;
    printf("unregistered\n");
    RLRelease(self->loop);
    RLStop(RLGetMain());
}

/* Nothing waits here: the client is told by a function that its own loop runs. */
static void schedule(void *info, RLRunLoopRef loop, RLMode mode) {
    struct command_source *self = info;
    (void)mode;
    self->loop = (RLRunLoopRef)RLRetain(loop);
    RLPerformFunction(RLGetMain(), kRLDefaultMode, client_registered, self, NULL);
    RLWakeUp(RLGetMain());
}

static void cancel(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)loop, (void)mode;
    RLPerformFunction(RLGetMain(), kRLDefaultMode, client_unregistered, info, NULL);
    RLWakeUp(RLGetMain());
}

static void *worker_main(void *argument) {
    struct command_source *self = argument;
    RLAddSource(RLGetCurrent(), self->source, kRLDefaultMode);
    return (void *)(RLRunInMode(kRLDefaultMode, 60, false) == kRLRunFinished ? "Finished" : "ended otherwise");
}

int main(void) {
    struct command_source self = {.lock = PTHREAD_MUTEX_INITIALIZER};
    RLSourceContext context = {.info = &self, .schedule = schedule, .cancel = cancel, .perform = perform};
    self.source = RLSourceCreate(0, &context);
    /* A loop with nothing in it would not wait for the functions: an idle source keeps it there. */
    RLSourceContext idle_context = {0};
    RLSourceRef idle = RLSourceCreate(0, &idle_context);
    RLAddSource(RLGetMain(), idle, kRLDefaultMode);

    pthread_t worker;
    if (pthread_create(&worker, NULL, worker_main, &self) != 0) return 1;
    RLRunResult result = RLRunInMode(kRLDefaultMode, 60, false);
    void *said;
    pthread_join(worker, &said);
    printf("%s\n", (const char *)said);
    RLRelease(idle), RLRelease(self.source);
    return result == kRLRunStopped ? 0 : 1;
}
