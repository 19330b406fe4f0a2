/* SPDX-License-Identifier: MIT */
/* Time, threads, descriptors, the log and child processes for support.h. */
#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Time */

double monotonic_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/*
 * Gives the other threads the processor for a moment. It sleeps and does not yield: a thread that yields forgoes the rest of its
 * turn, and where other programs are busy it comes back milliseconds later.
 */
static void pause_briefly(void) {
    struct timespec moment = {0, 200000};
    nanosleep(&moment, NULL);
}

RLAbsoluteTime date_in(double seconds) { return RLAbsoluteTimeGetCurrent() + seconds; }

void take_time(double seconds) {
    double end = monotonic_now() + seconds;
    while (monotonic_now() < end) pause_briefly();
}

/* Threads */

struct Thread {
    pthread_t id;
    void (*function)(void *argument);
    void *argument;
    RLRunLoopRef loop;
    /* The loop's own thread waits for this one's end: the loop will not be seen waiting any more. */
    int is_late;
};

static void *thread_main(void *argument) {
    Thread *thread = argument;
    while (thread->loop && !RLIsWaiting(thread->loop) && !count_of(&thread->is_late)) pause_briefly();
    thread->function(thread->argument);
    return NULL;
}

static Thread *thread_start_when(RLRunLoopRef loop, void (*function)(void *), void *argument) {
    Thread *thread = calloc(1, sizeof *thread);
    ck_assert_ptr_nonnull(thread);
    thread->function = function;
    thread->argument = argument;
    thread->loop = loop;
    ck_assert_int_eq(pthread_create(&thread->id, NULL, thread_main, thread), 0);
    return thread;
}

Thread *thread_start(void (*function)(void *), void *argument) {
    return thread_start_when(NULL, function, argument);
}

Thread *when_waiting(RLRunLoopRef loop, void (*function)(void *), void *argument) {
    return thread_start_when(loop, function, argument);
}

void thread_join(Thread *thread) {
    /* On a busy machine a short run is over before the thread has looked. */
    if (thread->loop && thread->loop == RLGetCurrentIfMade()) __atomic_store_n(&thread->is_late, 1, __ATOMIC_SEQ_CST);
    ck_assert_int_eq(pthread_join(thread->id, NULL), 0);
    free(thread);
}

void thread_cancel_now(void) {
    pthread_cancel(pthread_self());
#ifdef WITH_ADDRESS_SANITIZER
    /* The compiler puts this before each call of which it knows that it does not return. */
    void __asan_handle_no_return(void);
    __asan_handle_no_return();
#endif
    pthread_testcancel();
}

void thread_may_lose_memory(void) {
#ifdef WITH_ADDRESS_SANITIZER
    void __lsan_disable(void);
    __lsan_disable();
#endif
}

void gate_open(Gate *gate) {
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

void gate_wait(Gate *gate) {
    pthread_mutex_lock(&gate->lock);
    while (!gate->open) pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

bool gate_is_open(Gate *gate) {
    pthread_mutex_lock(&gate->lock);
    bool open = gate->open;
    pthread_mutex_unlock(&gate->lock);
    return open;
}

void wait_until_waiting(RLRunLoopRef loop) {
    while (!RLIsWaiting(loop)) pause_briefly();
}

void wait_until_count(const int *counter, int value) {
    while (count_of(counter) < value) pause_briefly();
}

bool stays_waiting(RLRunLoopRef loop, double seconds) {
    double end = monotonic_now() + seconds;
    while (monotonic_now() < end) {
        if (!RLIsWaiting(loop)) return false;
        pause_briefly();
    }
    return true;
}

void call_stop(void *loop) { RLStop(loop); }

void call_wake_up(void *loop) { RLWakeUp(loop); }

void call_signal_and_wake_up(void *argument) {
    Probe *probe = argument;
    RLSourceSignal(probe->source);
    RLWakeUp(probe->loop);
}

static void loop_thread_main(void *argument) {
    LoopThread *self = argument;
    self->loop = RLGetCurrent();
    gate_open(&self->ready);
    self->body(self);
}

void loop_thread_start(LoopThread *self, void (*body)(LoopThread *), void *data) {
    Gate shut = GATE_INITIALIZER;
    self->ready = shut;
    self->body = body;
    self->data = data;
    self->thread = thread_start(loop_thread_main, self);
    gate_wait(&self->ready);
}

/* Descriptors */

void make_pipe(int ends[2]) { ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0); }

int make_eventfd(void) {
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    return fd;
}

void eventfd_signal(int fd) {
    uint64_t one = 1;
    ck_assert_int_eq(write(fd, &one, sizeof one), (int)sizeof one);
}

void write_byte(int fd) { ck_assert_int_eq(write(fd, "x", 1), 1); }

void read_byte(int fd) {
    char byte;
    ck_assert_int_eq(read(fd, &byte, 1), 1);
}

DescriptorSet descriptors_now(void) {
    DescriptorSet set;
    memset(&set, 0, sizeof set);
    DIR *directory = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(directory);
    struct dirent *entry;
    while ((entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.') continue;
        int fd = atoi(entry->d_name);
        ck_assert_int_lt(fd, (int)(sizeof set.open / sizeof set.open[0]));
        if (fd != dirfd(directory)) set.open[fd] = true;
    }
    closedir(directory);
    return set;
}

int count_descriptors(void) {
    DescriptorSet set = descriptors_now();
    int open = 0;
    for (size_t fd = 0; fd < sizeof set.open / sizeof set.open[0]; fd++) open += set.open[fd];
    return open;
}

/* The log */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_buffer[1 << 16];
static int log_lines;

static void log_line(const char *line, void *info) {
    (void)info;
    pthread_mutex_lock(&log_lock);
    strncat(log_buffer, line, sizeof log_buffer - strlen(log_buffer) - 2);
    strcat(log_buffer, "\n");
    log_lines++;
    pthread_mutex_unlock(&log_lock);
}

void log_capture(void) { RLSetLogHandler(log_line, NULL); }

const char *log_text(void) { return log_buffer; }

int log_count(void) {
    pthread_mutex_lock(&log_lock);
    int lines = log_lines;
    pthread_mutex_unlock(&log_lock);
    return lines;
}

/* Child processes */

ChildResult run_child(void (*function)(void *), void *argument) {
    ChildResult result;
    int errors[2];
    memset(&result, 0, sizeof result);
    make_pipe(errors);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        /* No crash reporter of a sanitizer or of the Swift runtime: the signal itself is the result. */
        static const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
        for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) signal(crashes[i], SIG_DFL);
        dup2(errors[1], STDERR_FILENO);
        function(argument);
        _exit(0);
    }
    close(errors[1]);
    size_t length = 0;
    ssize_t got;
    char rest[512];
    while ((got = read(errors[0], rest, sizeof rest)) > 0) {
        size_t room = sizeof result.output - 1 - length;
        size_t kept = (size_t)got < room ? (size_t)got : room;
        memcpy(result.output + length, rest, kept);
        length += kept;
    }
    close(errors[0]);
    ck_assert_int_eq(waitpid(child, &result.status, 0), child);
    return result;
}
