/* SPDX-License-Identifier: MIT */
/*
 * Threads: one of POSIX that is detached from birth, one of the library with a result, and one whose function makes the scope and
 * the run loop of a thread by hand. The main thread is told of the ends by its loop.
 */
#include <runloop/runloop.h>

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

static RLSemaphore posix_is_done = RL_SEMAPHORE_INIT(0);

static void *posix_main(void *unused) {
    printf("POSIX: detached\n");
    RLSemaphoreSignal(&posix_is_done);
    return unused;
}

static void start_posix_thread(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, posix_main, NULL) != 0) printf("no thread\n");
    pthread_attr_destroy(&attributes);
    RLSemaphoreWait(&posix_is_done);
}

static char scratch_key;

static void free_scratch(void *name) { printf("%s: scratch is freed\n", (const char *)name); }

static void job(void *unused) {
    (void)unused;
    printf("worker: a job\n");
}

/* A skeleton: set up what the thread needs, run the loop until the thread is cancelled, leave a result. */
static void worker_main(RLThreadRef thread, void *name) {
    RLThreadSetValue(&scratch_key, name, free_scratch);
    /* A mode without a source is not waited in. */
    RLSourceContext context = {0};
    RLSourceRef keep = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), keep, kRLDefaultMode);
    RLRelease(keep);
    while (!RLThreadIsCancelled(thread)) RLRunInMode(kRLDefaultMode, 1e6, false);
    RLThreadSetResult(thread, name);
}

static void thread_ended(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)info;
    printf("main: %s has ended\n", (const char *)(intptr_t)event->data);
    RLStop(RLGetCurrent());
}

int main(void) {
    start_posix_thread();

    RLThreadRef worker = RLThreadCreate(worker_main, "worker", NULL);
    RLThreadSetName(worker, "worker");
    RLThreadSetStackSize(worker, 256 * 1024);
    RLThreadSetPriority(worker, RLQualityOfServicePriority(kRLQualityOfServiceUtility));

    RLKernelEvent end = {.filter = kRLKernelFilterThread, .ident = (uintptr_t)worker, .fflags = kRLNoteExit};
    RLSourceRef source = RLKernelEventSourceCreate(&end, thread_ended, NULL);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);

    RLThreadStart(worker);
    RLPerformOnLoop(RLThreadGetRunLoop(worker), kRLDefaultMode, job, NULL, NULL, true);
    /* Cancels the thread, stops its run, and waits for it. */
    RLThreadEnd(worker);
    RLRunInMode(kRLDefaultMode, 60, false);

    RLRelease(source);
    RLRelease(worker);
    return 0;
}
