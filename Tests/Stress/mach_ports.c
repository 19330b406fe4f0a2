/* SPDX-License-Identifier: MIT */
/* Four threads send to one Mach-like port: every message that was queued is received once, those of
   each sender in order, whatever they wait for, however its source moves between loops and modes,
   and a port that dies lets all its senders go: S-PORT-5, S-PORT-11, S-PORT-13, S-PORT-14, S-WAKE-8. */
#include "stress.h"

#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { sender_count = 4 };

struct sender {
    RLMachPortRef port;
    pthread_t thread;
    unsigned index;
    unsigned long sent;
    atomic_ulong received;
    unsigned long last; /* guarded by receive_lock */
};

static struct sender senders[sender_count];
static unsigned long messages;
static atomic_ulong all_received;
static pthread_mutex_t receive_lock = PTHREAD_MUTEX_INITIALIZER; /* the source may be in two loops */

static void report(void) {
    for (unsigned i = 0; i < sender_count; i++)
        fprintf(stderr, "sender %u: received %lu of %lu\n", i, atomic_load(&senders[i].received), messages);
}

static void receive(RLMachPortRef port, const RLMachMessage *message, void *info) {
    struct sender *sender = &senders[message->msgid];
    unsigned long value;
    (void)port;
    MUST_BE(message->length, >=, sizeof value);
    memcpy(&value, message->bytes, sizeof value);
    for (size_t i = sizeof value; i < message->length; i++)
        MUST_BE(((const unsigned char *)message->bytes)[i], ==, (unsigned char)value);
    if (info) {
        /* One loop alone receives in order; two may overtake each other after they took a message. */
        MUST_BE(value, ==, sender->last + 1);
        sender->last = value;
    } else {
        pthread_mutex_lock(&receive_lock);
        sender->last += value;
        pthread_mutex_unlock(&receive_lock);
    }
    atomic_fetch_add(&sender->received, 1);
    atomic_fetch_add(&all_received, 1);
    stress_progress();
}

static void *send_messages(void *info) {
    struct sender *sender = info;
    unsigned char bytes[300];
    uint64_t state = 11 + sender->index;
    for (unsigned long value = 1; value <= messages;) {
        size_t length = sizeof value + stress_random(&state) % (stress_random(&state) % 8 == 0 ? 290 : 60);
        memset(bytes, (int)(unsigned char)value, length);
        memcpy(bytes, &value, sizeof value);
        double timeouts[] = {0, 0.001, 0.002, 1e9};
        int32_t code = RLMachPortSend(sender->port, (int32_t)sender->index, bytes, length, NULL, timeouts[stress_random(&state) % 4]);
        if (code == kRLMessagePortSuccess) {
            value++;
            /* Now and then the loop is to fall asleep. */
            if (stress_random(&state) % 256 == 0)
                while (atomic_load(&sender->received) < value - 1) sched_yield();
        } else {
            MUST_BE(code, ==, kRLMessagePortSendTimeout);
            sched_yield();
        }
    }
    return NULL;
}

static void start_senders(RLMachPortRef port, unsigned long count) {
    messages = count;
    atomic_store(&all_received, 0);
    for (unsigned i = 0; i < sender_count; i++) {
        senders[i] = (struct sender){.port = port, .index = i};
        stress_thread_start(&senders[i].thread, send_messages, &senders[i]);
    }
}

static void join_senders(void) {
    for (unsigned i = 0; i < sender_count; i++) stress_thread_join(senders[i].thread);
    while (atomic_load(&all_received) < sender_count * messages) sched_yield();
}

static RLMachPortRef make_port(bool in_order) {
    RLMachPortContext context = {.info = in_order ? &messages : NULL};
    return RLMachPortCreate(receive, &context, NULL);
}

static void to_one_loop(enum stress_sleep sleep, RLIndex limit, bool with_descriptor) {
    struct stress_loop loop;
    stress_watchdog_start(report);
    stress_loop_start(&loop, sleep);
    RLMachPortRef port = make_port(true);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    RLMachPortSetQueueLimit(port, limit);
    if (with_descriptor) MUST(RLMachPortGetPort(port) >= 0);
    RLAddSource(loop.loop, source, kRLDefaultMode);
    start_senders(port, stress_count(40000));
    join_senders();
    RLStop(loop.loop);
    stress_loop_join(&loop);
    stress_watchdog_stop();
    RLMachPortInvalidate(port);
    RLRelease(source);
    RLRelease(port);
}

START_TEST(a_queue_of_five_in_the_futex) { to_one_loop(SLEEP_ON_FUTEX, 5, false); }
END_TEST

START_TEST(a_queue_of_one_in_epoll_with_a_descriptor) { to_one_loop(SLEEP_IN_EPOLL, 1, true); }
END_TEST

START_TEST(a_long_queue) { to_one_loop(SLEEP_ON_FUTEX, 1000, false); }
END_TEST

/* The source is now in one loop, now in the other, in both, or in none. */
START_TEST(a_source_that_moves) {
    struct stress_loop loops[2];
    uint64_t state = 3;
    stress_watchdog_start(report);
    for (int i = 0; i < 2; i++) stress_loop_start(&loops[i], i ? SLEEP_IN_EPOLL : SLEEP_ON_FUTEX);
    RLMachPortRef port = make_port(false);
    RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
    start_senders(port, stress_count(20000));
    while (atomic_load(&all_received) < sender_count * messages) {
        RLRunLoopRef loop = loops[stress_random(&state) % 2].loop;
        RLMode mode = stress_random(&state) % 4 ? kRLDefaultMode : "other";
        if (stress_random(&state) % 2) {
            RLAddSource(loop, source, mode);
        } else {
            RLRemoveSource(loop, source, mode);
        }
        sched_yield();
    }
    join_senders();
    for (int i = 0; i < 2; i++) {
        RLStop(loops[i].loop);
        stress_loop_join(&loops[i]);
    }
    stress_watchdog_stop();
    for (unsigned i = 0; i < sender_count; i++) ck_assert_uint_eq(senders[i].last, messages * (messages + 1) / 2);
    RLMachPortInvalidate(port);
    RLRelease(source);
    RLRelease(port);
}
END_TEST

static void *send_until_death(void *info) {
    RLMachPortRef port = info;
    int32_t code;
    do code = RLMachPortSend(port, 0, NULL, 0, port, 1e9);
    while (code == kRLMessagePortSuccess);
    MUST_BE(code, ==, kRLMessagePortIsInvalid);
    stress_progress();
    return NULL;
}

static void drop(RLMachPortRef port, const RLMachMessage *message, void *info) {
    (void)port;
    (void)message;
    (void)info;
}

/* Every message has the port itself as reply port, so that the last reference is often in the queue. */
START_TEST(ports_that_die) {
    struct stress_loop loop;
    uint64_t state = 7;
    stress_watchdog_start(report);
    stress_loop_start(&loop, SLEEP_ON_FUTEX);
    for (unsigned long round = stress_count_at_least(4000, 50); round > 0; round--) {
        RLMachPortRef port = RLMachPortCreate(drop, NULL, NULL);
        RLSourceRef source = RLMachPortCreateRunLoopSource(port, 0);
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) stress_thread_start(&threads[i], send_until_death, port);
        if (stress_random(&state) % 2) RLAddSource(loop.loop, source, kRLDefaultMode);
        RLRelease(source);
        for (unsigned i = stress_random(&state) % 8; i > 0; i--) sched_yield();
        RLMachPortInvalidate(port);
        for (int i = 0; i < 2; i++) stress_thread_join(threads[i]);
        RLRelease(port);
    }
    RLStop(loop.loop);
    stress_loop_join(&loop);
    stress_watchdog_stop();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("mach_ports");
    TCase *tests = tcase_create("none_lost_none_twice_in_order");
    SRunner *runner = srunner_create(suite);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, a_queue_of_five_in_the_futex);
    tcase_add_test(tests, a_queue_of_one_in_epoll_with_a_descriptor);
    tcase_add_test(tests, a_long_queue);
    tcase_add_test(tests, a_source_that_moves);
    tcase_add_test(tests, ports_that_die);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
