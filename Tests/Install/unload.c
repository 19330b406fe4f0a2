/* SPDX-License-Identifier: MIT */
/* A thread uses its loop, the library is closed, then the thread ends: its teardown is the library's code,
 * which therefore has to stay mapped (S-LOOP-7: the source still gets its cancel).
 * usage: unload LIBRARY */
#include <dlfcn.h>
#include <pthread.h>
#include <runloop/runloop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ISO C has no conversion from an object pointer to a function pointer. */
static void load(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "%s is missing\n", name);
        exit(1);
    }
    memcpy(function, &symbol, sizeof symbol);
}

static void cancelled(void *info, RLRunLoopRef loop, RLMode mode) {
    (void)loop;
    (void)mode;
    ++*(int *)info;
}

static void performed(void *info) { (void)info; }

struct job {
    const char *path;
    int cancels;
    int result;
};

static void *use_and_close(void *argument) {
    struct job *job = argument;
    void *library = dlopen(job->path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    RLRunLoopRef (*get_current)(void);
    RLSourceRef (*create)(RLIndex, RLSourceContext *);
    void (*add)(RLRunLoopRef, RLSourceRef, RLMode);
    void (*signal_source)(RLSourceRef);
    RLRunResult (*run)(RLMode, RLTimeInterval, bool);
    void (*release)(RLTypeRef);
    const char *const *mode = dlsym(library, "kRLDefaultMode");
    load(library, "RLGetCurrent", &get_current);
    load(library, "RLSourceCreate", &create);
    load(library, "RLAddSource", &add);
    load(library, "RLSourceSignal", &signal_source);
    load(library, "RLRunInMode", &run);
    load(library, "RLRelease", &release);

    RLSourceContext context = {.info = &job->cancels, .cancel = cancelled, .perform = performed};
    RLSourceRef source = create(0, &context);
    add(get_current(), source, *mode);
    signal_source(source);
    job->result = (int)run(*mode, 10, true);
    release(source);
    dlclose(library);
    return NULL;
}

int main(int argc, char **argv) {
    struct job job = {argc > 1 ? argv[1] : "librunloop.so.0.2", 0, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, use_and_close, &job) != 0) return 1;
    pthread_join(thread, NULL);
    printf("result %d, cancels %d\n", job.result, job.cancels);
    return job.result == kRLRunHandledSource && job.cancels == 1 ? 0 : 1;
}
