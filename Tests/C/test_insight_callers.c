/* SPDX-License-Identifier: MIT */
/* Section 36 where several callers meet: forks, signals, and threads that end items while they are described. */
#define _GNU_SOURCE
#include "support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- names */

static void expect_name_of_loop(void *loop) {
    char *name = RLCopyName(loop);
    if (!name || strcmp(name, "kept") != 0) _exit(1);
    free(name);
    char *text = RLCopyDescription(loop);
    if (!strstr(text, "kept")) _exit(2);
    free(text);
    RLSetName(loop, NULL);
    if (RLCopyName(loop)) _exit(3);
    RLTypeRef *items = RLCopyItems(loop, kRLDefaultMode, kRLItemAll, NULL);
    if (!items || items[0]) _exit(4);
    free(items);
    int null = open("/dev/null", O_WRONLY);
    if (!RLDump(loop, null) || !RLDump(NULL, null)) _exit(5);
}

static void name_and_wait(LoopThread *self) {
    (void)self;
    RLSetName(RLGetCurrent(), "kept");
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
}

RL_TEST(the_child_has_the_names_of_other_loops, "S-SEE-2 S-FORK-1", "The child of fork finds the name of a loop whose thread it has not") {
    LoopThread other;
    loop_thread_start(&other, name_and_wait, NULL);
    wait_until_waiting(other.loop);
    ck_assert_int_eq(run_child(expect_name_of_loop, other.loop).status, 0);
    RLStop(other.loop);
    thread_join(other.thread);
}

/* ---- signals */

static int signals;
static void count_signal(int number) {
    (void)number;
    __atomic_add_fetch(&signals, 1, __ATOMIC_SEQ_CST);
}
typedef struct Reader {
    pthread_t writer;
    int end;
    size_t count;
} Reader;
static void interrupt_and_read(void *argument) {
    Reader *reader = argument;
    char bytes[4096];
    ssize_t count;
    /* Until the signal comes while the writer waits for room. */
    for (int i = 1; i <= 20; i++) {
        pthread_kill(reader->writer, SIGUSR1);
        wait_until_count(&signals, i);
        take_time(0.001);
    }
    while ((count = read(reader->end, bytes, sizeof bytes)) > 0) reader->count += (size_t)count;
}

RL_TEST(a_signal_cuts_no_dump, "S-SEE-10", "A signal that interrupts the wait for room in a pipe does not end the dump") {
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    static char block[4096];
    while (write(ends[1], block, sizeof block) > 0) {}
    Reader reader = {pthread_self(), ends[0], 0};
    Thread *thread = thread_start(interrupt_and_read, &reader);
    const bool is_whole = RLDump(RLGetCurrent(), ends[1]);
    close(ends[1]);
    thread_join(thread);
    ck_assert(is_whole);
    close(ends[0]);
}

/* ---- an item ends while it is described */

static Gate describes, has_ended;
static bool stops_at_symbol;
int dladdr(const void *address, Dl_info *found) {
    (void)address;
    memset(found, 0, sizeof *found);
    if (__atomic_exchange_n(&stops_at_symbol, false, __ATOMIC_SEQ_CST)) {
        gate_open(&describes);
        gate_wait(&has_ended);
    }
    return 0;
}

static bool is_released;
static int late_descriptions;
static void note_release(const void *info) {
    (void)info;
    __atomic_store_n(&is_released, true, __ATOMIC_SEQ_CST);
}
static char *describe_info(const void *info) {
    (void)info;
    if (__atomic_load_n(&is_released, __ATOMIC_SEQ_CST)) late_descriptions++;
    return strdup("words");
}
static void end_timer(void *timer) {
    gate_wait(&describes);
    RLTimerInvalidate(timer);
    gate_open(&has_ended);
}
static void nothing(RLTimerRef timer, void *info) { (void)timer, (void)info; }

RL_TEST(an_info_is_described_while_it_lasts, "S-SEE-9 S-TMR-44", "A timer that another thread invalidates during a dump has its info released after that was described") {
    static int info;
    RLTimerContext context = {0, &info, NULL, note_release, describe_info};
    describes = has_ended = (Gate)GATE_INITIALIZER;
    RLTimerRef timer = RLTimerCreate(date_in(1000), 0, 0, 0, nothing, &context);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    Thread *thread = thread_start(end_timer, timer);
    stops_at_symbol = true;
    free(RLCopyDescription(RLGetCurrent()));
    thread_join(thread);
    ck_assert(is_released);
    ck_assert_int_eq(late_descriptions, 0);
    RLRelease(timer);
}
