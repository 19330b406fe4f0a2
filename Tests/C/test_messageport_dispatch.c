/* SPDX-License-Identifier: MIT */
/*
 * Message ports that a dispatch queue serves. Every case loads libdispatch itself, from the path it was compiled with:
 * see test_main_queue.c. The services are static, because a queue's threads outlive the case.
 */
#define _GNU_SOURCE
#include "messageport_support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void *(*queue_create)(const char *label, void *attribute);
static void (*release)(void *object);
static void (*sync_on)(void *queue, void *context, void (*work)(void *context));

static void *make_queue(void) {
    void *library = dlopen(RL_LIBDISPATCH, RTLD_NOW | RTLD_GLOBAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    *(void **)&queue_create = dlsym(library, "dispatch_queue_create");
    *(void **)&release = dlsym(library, "dispatch_release");
    *(void **)&sync_on = dlsym(library, "dispatch_sync_f");
    ck_assert(queue_create && release && sync_on);
    return queue_create("messages", NULL);
}

static void nothing(void *context) { (void)context; }

RL_MAIN_TEST(a_queue_serves_the_messages, "S-MSG-12 S-MSG-16 S-MSG-30",
             "With a dispatch queue set the callback runs there, one message after the other in their order, and requests get "
             "their replies") {
    static Service service = {.word = "q", .echoes = true};
    void *queue = make_queue();
    RLMessagePortRef port = service_port(&service, port_name("queue"));
    RLMessagePortSetDispatchQueue(port, queue);
    release(queue); /* the library keeps it */
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("queue"));
    ck_assert_int_eq(send_text(remote, 1, "a"), kRLMessagePortSuccess);
    ck_assert_int_eq(send_text(remote, 2, "b"), kRLMessagePortSuccess);
    ck_assert_str_eq(ask_text(remote, 3, "answer", kRLDefaultMode), "answer");
    expect_trace("q1 q2 q3");
    ck_assert(!pthread_equal(service.thread, pthread_self()));
    RLRelease(remote);
    RLMessagePortInvalidate(port);
    RLRelease(port);
}

RL_MAIN_TEST(what_a_queue_cannot_serve_is_refused, "S-MSG-12 S-MSG-11",
             "A remote or invalid port, and one with a source, are refused with a log line each; a port with a queue gives no "
             "source, and NULL is no port") {
    static Service service = {.word = "s"}, other = {.word = "o"};
    void *queue = make_queue();
    RLMessagePortRef port = add_service(&service, port_name("refused"), kRLDefaultMode);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("refused"));
    log_capture();
    RLMessagePortSetDispatchQueue(NULL, queue);
    ck_assert_int_eq(log_count(), 0);
    RLMessagePortSetDispatchQueue(port, queue);
    ck_assert_int_eq(log_count(), 1);
    RLMessagePortSetDispatchQueue(remote, queue);
    ck_assert_int_eq(log_count(), 2);
    /* What was refused is served as before, on this thread. */
    ck_assert_int_eq(send_text(remote, 1, "x"), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("s1");
    RLMessagePortInvalidate(port);
    RLMessagePortSetDispatchQueue(port, queue);
    ck_assert_int_eq(log_count(), 3);
    RLRelease(remote);
    RLRelease(port);

    port = service_port(&other, port_name("queued"));
    RLMessagePortSetDispatchQueue(port, queue);
    ck_assert_ptr_null(RLMessagePortCreateRunLoopSource(port, 0));
    ck_assert_int_eq(log_count(), 3);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    release(queue);
}

RL_MAIN_TEST(another_queue_or_none_takes_over, "S-MSG-12 S-MSG-11 S-MSG-13",
             "Another queue takes the place of the one before; detached, a port keeps its messages for a source") {
    static Service service = {.word = "m", .echoes = true};
    void *first = make_queue(), *second = make_queue();
    RLMessagePortRef port = service_port(&service, port_name("moved"));
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("moved"));
    RLMessagePortSetDispatchQueue(port, first);
    RLMessagePortSetDispatchQueue(port, second);
    ck_assert_str_eq(ask_text(remote, 1, "one", kRLDefaultMode), "one");
    RLMessagePortSetDispatchQueue(port, NULL);
    /* A callback that was about to run has run when the queues have done what was queued before. */
    sync_on(first, NULL, nothing);
    sync_on(second, NULL, nothing);
    ck_assert_int_eq(send_text(remote, 2, "two"), kRLMessagePortSuccess);
    sync_on(second, NULL, nothing);
    expect_trace("m1");
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    ck_assert_ptr_nonnull(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("m2");
    ck_assert(pthread_equal(service.thread, pthread_self()));
    RLRelease(source);
    RLRelease(remote);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    release(first);
    release(second);
}

static void take_and_end(Service *self, RLMessagePortRef port) {
    int taken = -1;
    *(RLIndex *)self->data = RLMessagePortTakeDescriptors(port, &taken, 1);
    close(taken);
    RLMessagePortInvalidate(port);
}

RL_MAIN_TEST(a_port_may_end_on_its_queue, "S-MSG-12 S-MSG-34 S-MSG-38 S-MSG-29",
             "A callback on a queue takes descriptors and may invalidate its port: the context is released once, the requester "
             "learns of the end, and no descriptor is left open") {
    static Service service = {.action = take_and_end};
    static RLIndex taken;
    void *queue = make_queue();
    service.data = &taken;
    RLMessagePortContext context = service_context(&service, true);
    int before = 0;
    for (int turn = 1; turn <= 3; turn++) {
        RLMessagePortRef port = RLMessagePortCreateLocal(port_name("ends"), serve_message, &context, NULL);
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("ends"));
        ck_assert(port && remote);
        RLMessagePortSetDispatchQueue(port, queue);
        int descriptor = make_eventfd();
        ck_assert_int_eq(RLMessagePortSendRequestWithDescriptors(remote, 1, NULL, 0, &descriptor, 1, 60, 60,
                                                                 kRLDefaultMode, NULL),
                         kRLMessagePortBecameInvalidError);
        close(descriptor);
        /* The callback is over, and what follows it. */
        sync_on(queue, NULL, nothing);
        ck_assert_int_eq(taken, 1);
        ck_assert(!RLMessagePortIsValid(port));
        RLRelease(remote);
        RLRelease(port);
        /* Once for the port, and once around the callback. */
        ck_assert_int_eq(service.retains, 2 * turn);
        ck_assert_int_eq(service.releases, 2 * turn);
        /* The first turn made what stays. The number of its source may be open for a moment yet, but not more than that one. */
        if (turn == 1) before = count_descriptors();
    }
    while (count_descriptors() > before) sched_yield();
    ck_assert_int_eq(service.calls, 3);
    release(queue);
}

static bool is_null(int number) {
    struct stat file, null;
    return fstat(number, &file) == 0 && stat("/dev/null", &null) == 0 && file.st_rdev == null.st_rdev;
}
static int first_new(const DescriptorSet *before) {
    const DescriptorSet now = descriptors_now();
    for (int number = 64; number < 1024; number++)
        if (now.open[number] && !before->open[number]) return number;
    return -1;
}
static int witness_number;
static void leave_in_child(void *info) {
    RLMessagePortInvalidate(info);
    /* The numbers of the parent's libdispatch are its own, below 64. */
    for (int number = 64; number < 100; number++)
        if (number != witness_number && !is_null(number)) _exit(number);
}

RL_MAIN_TEST(a_queue_s_lost_number_stays_the_program_s, "S-MSG-52 S-MSG-12",
             "If the program has used the number by which a queue is told for a file of its own, neither the port's leaving the queue nor a fork closes that file") {
    static Service service = {.word = "l"}, other = {.word = "o"};
    void *queue = make_queue();
    RLMessagePortRef port = service_port(&service, port_name("lostqueue"));
    RLMessagePortSetDispatchQueue(port, queue);
    /* The other port's number is closed behind that of the first. */
    RLMessagePortRef witness = service_port(&other, port_name("witness"));
    const DescriptorSet before = descriptors_now();
    RLMessagePortSetDispatchQueue(witness, queue);
    const int number = first_new(&before);
    ck_assert_int_ge(number, 64);
    witness_number = number;
    const int file = open("/dev/null", O_RDWR);
    for (int each = 64; each < 1024; each++)
        if (before.open[each] || (each < 100 && each != number)) dup2(file, each);
    ck_assert_int_eq(run_child(leave_in_child, (void *)port).status, 0);
    RLMessagePortSetDispatchQueue(port, NULL);
    RLMessagePortInvalidate(port);
    RLMessagePortSetDispatchQueue(witness, NULL);
    while (fcntl(number, F_GETFD) == 0) sched_yield();
    for (int each = 64; each < 100; each++) ck_assert_msg(each == number || is_null(each), "%d", each);
    RLRelease(port);
    RLRelease(witness);
    release(queue);
}

static RLMessagePortRef cancelled_port, cancelled_remote;
static void *cancelled_queues[2];
static void *serve_by_queues(void *unused) {
    (void)unused;
    pthread_cancel(pthread_self());
    for (int i = 0; i < 100; i++) RLMessagePortSetDispatchQueue(cancelled_port, cancelled_queues[i % 2]);
    RLMessagePortSetDispatchQueue(cancelled_port, NULL);
    RLMessagePortSetDispatchQueue(cancelled_port, cancelled_queues[0]);
    intptr_t code = RLMessagePortSendRequest(cancelled_remote, 1, "x", 1, 60, 60, kRLDefaultMode, NULL);
    RLMessagePortInvalidate(cancelled_port);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    return (void *)(code + 1);
}

RL_MAIN_TEST(a_cancelled_thread_sets_queues, "S-LOOP-20 S-MSG-12",
             "Setting a queue is no cancellation point, although libdispatch has some, and the queue serves a cancelled thread's request") {
    static Service service = {.word = "c"};
    for (int i = 0; i < 2; i++) cancelled_queues[i] = make_queue();
    cancelled_port = service_port(&service, port_name("cancelled"));
    cancelled_remote = RLMessagePortCreateRemote(port_name("cancelled"));
    pthread_t thread;
    void *result = NULL;
    ck_assert_int_eq(pthread_create(&thread, NULL, serve_by_queues, NULL), 0);
    pthread_join(thread, &result);
    ck_assert_ptr_eq(result, (void *)1);
    expect_trace("c1");
    RLRelease(cancelled_remote);
    RLRelease(cancelled_port);
    for (int i = 0; i < 2; i++) release(cancelled_queues[i]);
}

static void use_in_child(void *info) {
    RLMessagePortRef port = info;
    if (RLMessagePortIsValid(port)) _exit(1);
    RLMessagePortSetDispatchQueue(port, NULL);
    RLMessagePortInvalidate(port);
    RLRelease(port);
}

RL_MAIN_TEST(a_child_does_not_have_the_queue, "S-MSG-12 S-FORK-2",
             "In the child of fork the port is invalid and can be let go of; the parent's queue goes on serving") {
    static Service service = {.word = "p", .echoes = true};
    void *queue = make_queue();
    RLMessagePortRef port = service_port(&service, port_name("forked"));
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("forked"));
    RLMessagePortSetDispatchQueue(port, queue);
    ck_assert_str_eq(ask_text(remote, 1, "before", kRLDefaultMode), "before");
    ck_assert_int_eq(run_child(use_in_child, (void *)port).status, 0);
    ck_assert_str_eq(ask_text(remote, 2, "after", kRLDefaultMode), "after");
    expect_trace("p1 p2");
    RLRelease(remote);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    release(queue);
}

RL_MAIN_TEST(without_libdispatch_a_queue_is_refused, "S-MSG-12",
             "In a process without libdispatch a queue is refused with a log line, and the port stays as it is") {
    static Service service = {.word = "w"};
    /* The core as full Swift brings libdispatch with its runtime. */
    if (dlsym(RTLD_DEFAULT, "dispatch_source_create")) return;
    RLMessagePortRef port = service_port(&service, port_name("without"));
    log_capture();
    RLMessagePortSetDispatchQueue(port, &service);
    ck_assert_int_eq(log_count(), 1);
    ck_assert(strstr(log_text(), "libdispatch") != NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    ck_assert_ptr_nonnull(source);
    RLRelease(source);
    RLRelease(port);
}
