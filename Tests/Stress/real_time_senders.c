/* SPDX-License-Identifier: MIT */
/* Two threads on one processor wait for room in the queue of a Mach-like port, one of them with a real-time priority, which the kernel
   wakes first although it went to sleep last: the other one is woken all the same: S-PORT-13. */
#include "stress.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static RLMachPortRef port;
static struct stress_loop receiver;
static unsigned long count;
static atomic_ulong ordinary_sent, real_time_sent;
static atomic_bool over, may_be_real_time;

static void report(void) {
    fprintf(stderr, "the ordinary thread has sent %lu of %lu, the other one %lu\n", atomic_load(&ordinary_sent), count,
            atomic_load(&real_time_sent));
}

static void receive(RLMachPortRef received, const RLMachMessage *message, void *info) { (void)received, (void)message, (void)info; }

static void send(atomic_ulong *sent) {
    MUST_BE(RLMachPortSend(port, 1, "a", 1, NULL, STRESS_FOREVER), ==, kRLMessagePortSuccess);
    atomic_fetch_add(sent, 1);
}

static void *send_at_ordinary_priority(void *info) {
    for (unsigned long i = 0; i < count; i++) {
        send(&ordinary_sent);
        stress_progress();
    }
    atomic_store(&over, true);
    return info;
}

static void *send_at_real_time_priority(void *info) {
    struct sched_param priority = {.sched_priority = 1};
    uint64_t random = 1;
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) != 0) return info;
    atomic_store(&may_be_real_time, true);
    while (!atomic_load(&over)) {
        struct timespec pause = {0, 20000 + stress_random(&random) % 100000};
        nanosleep(&pause, NULL);
        /* The second waits for room that the first has taken. */
        for (int i = 0; i < 2; i++) send(&real_time_sent);
    }
    return info;
}

START_TEST(a_sender_is_woken_beside_one_with_a_real_time_priority) {
    pthread_t ordinary, real_time;
    count = stress_count(200000);
    stress_pin_to_one_core();
    port = RLMachPortCreate(receive, NULL, NULL);
    RLMachPortSetQueueLimit(port, 1);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    stress_loop_start(&receiver, SLEEP_IN_EPOLL);
    RLAddSource(receiver.loop, source, kRLDefaultMode);
    stress_watchdog_start(report);
    stress_thread_start(&ordinary, send_at_ordinary_priority, NULL);
    stress_thread_start(&real_time, send_at_real_time_priority, NULL);
    stress_thread_join(ordinary);
    stress_thread_join(real_time);
    stress_watchdog_stop();
    /* Without the right to such a priority there was only one sender. */
    if (!atomic_load(&may_be_real_time)) fprintf(stderr, "no thread may have a real-time priority here\n");
    RLStop(receiver.loop);
    stress_loop_join(&receiver);
    RLMachPortInvalidate(port);
    RLRelease(source);
    RLRelease(port);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("real_time_senders");
    TCase *tests = tcase_create("one_queue");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, a_sender_is_woken_beside_one_with_a_real_time_priority);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
