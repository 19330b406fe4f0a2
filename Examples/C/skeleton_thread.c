/* SPDX-License-Identifier: MIT */
/*
 * The skeleton of a thread that lives in its loop: it installs its source and then runs the loop, ten
 * seconds at a time, until somebody stops it or nothing is left that could wake it.
 *
 * The main thread hands a job to a first thread and stops it, then one to a second thread and takes its
 * source away.
 */
#include <runloop/runloop.h>

#include <pthread.h>
#include <stdio.h>

struct worker {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    RLRunLoopRef loop;  /* guarded by lock */
    RLSourceRef source; /* guarded by lock */
    int jobs_done;      /* guarded by lock */
};

static void perform(void *info) {
    (void)info;
    printf("a job\n");
}

static void *thread_main(void *argument) {
    struct worker *worker = argument;
    RLSourceContext context = {.info = worker, .perform = perform};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);

    pthread_mutex_lock(&worker->lock);
    worker->source = source;
    worker->loop = (RLRunLoopRef)RLRetain(RLGetCurrent());
    pthread_cond_signal(&worker->changed);
    pthread_mutex_unlock(&worker->lock);

    RLRunResult result;
    do {
        result = RLRunInMode(kRLDefaultMode, 10, true);
        /* Returns after each job, so that the thread can do something of its own in between. */
        if (result == kRLRunHandledSource) {
            pthread_mutex_lock(&worker->lock);
            ++worker->jobs_done;
            pthread_cond_signal(&worker->changed);
            pthread_mutex_unlock(&worker->lock);
        }
    } while (result != kRLRunStopped && result != kRLRunFinished);

    printf("worker: %s\n", result == kRLRunStopped ? "Stopped" : "Finished");
    RLRelease(source);
    return NULL;
}

/* RLStop is not remembered while the loop is between two runs. A function waits for the next run. */
static void stop(void *info) {
    (void)info;
    RLStop(RLGetCurrent());
}

/* The function may run just before the loop waits, which it does even if nothing is left: wake it. */
static void remove_source(void *info) {
    RLSourceInvalidate(((struct worker *)info)->source);
    RLWakeUp(RLGetCurrent());
}

static void run_a_worker(void (*end)(void *)) {
    struct worker worker = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_main, &worker) != 0) return;

    pthread_mutex_lock(&worker.lock);
    while (!worker.loop) pthread_cond_wait(&worker.changed, &worker.lock);
    RLSourceSignal(worker.source);
    RLWakeUp(worker.loop);
    while (worker.jobs_done == 0) pthread_cond_wait(&worker.changed, &worker.lock);
    pthread_mutex_unlock(&worker.lock);

    RLPerformFunction(worker.loop, kRLDefaultMode, end, &worker, NULL);
    RLWakeUp(worker.loop);
    pthread_join(thread, NULL);
    RLRelease(worker.loop);
}

int main(void) {
    run_a_worker(stop);
    run_a_worker(remove_source);
    return 0;
}
