/* SPDX-License-Identifier: MIT */
/* Descriptor objects: which types are reported, when, and how often. */
#define _GNU_SOURCE
#include "support_descriptor.h"
#include "system_calls.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

static const RLOptionFlags read_type = kRLFileDescriptorReadCallBack;
static const RLOptionFlags write_type = kRLFileDescriptorWriteCallBack;
static const RLOptionFlags both_types =
    kRLFileDescriptorReadCallBack | kRLFileDescriptorWriteCallBack;

RL_TEST(nothing_is_enabled_at_first, "S-FD-2 S-RUN-2",
        "A new object reports nothing though its descriptor is ready; its source is content of "
        "the mode") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pair(ends);
    add_descriptor(&d, ends[0], 0);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("");
}

RL_TEST(one_report_for_one_enable, "S-FD-3 S-FD-9",
        "Data that were there before are reported once for each Enable, read or not") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    add_descriptor(&d, ends[0], read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("d:r");
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("d:r");
}

RL_TEST(enabling_inside_the_callback_continues, "S-FD-4",
        "A callback that enables its type again is called again as long as the condition holds") {
    static Descriptor d = {.name = "d", .again = read_type, .reads = true};
    int ends[2];
    make_pipe(ends);
    ck_assert_int_eq(write(ends[1], "abc", 3), 3);
    add_descriptor(&d, ends[0], read_type);
    for (int i = 0; i < 3; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("d:r d:r d:r");
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:r");
}

RL_TEST(both_sides_in_one_call, "S-FD-5",
        "Read and write that are both ready and enabled come in one call; alone each comes "
        "alone") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pair(ends);
    add_descriptor(&d, ends[0], both_types);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:w");
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:r");
    RLFileDescriptorEnableCallBacks(d.file, both_types);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:rw");
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("");
}

RL_TEST(enabling_comes_before_the_source, "S-FD-6",
        "Types that are enabled before there is a source, or before it is in a loop, count") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pair(ends);
    descriptor_make(&d, ends[0], false);
    RLFileDescriptorEnableCallBacks(d.file, write_type);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(d.file, 0);
    write_byte(ends[1]);
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:rw");
    RLRelease(source);
}

static void disable_on_another_thread(void *file) {
    RLFileDescriptorDisableCallBacks(file, kRLFileDescriptorReadCallBack);
}
static void disable_in_observer(RLObserverRef o, RLActivity activity, void *file) {
    (void)o;
    (void)activity;
    thread_join(thread_start(disable_on_another_thread, file));
}

RL_TEST(disabling_takes_effect_at_once, "S-FD-7",
        "A type that is disabled between the end of the wait and the callback is not "
        "reported, and nothing counts as handled") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    add_descriptor(&d, ends[0], read_type);
    RLObserverContext context = {.info = d.file};
    RLObserverRef observer =
        RLObserverCreate(kRLAfterWaiting, true, 0, disable_in_observer, &context);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    expect_trace("");
    RLObserverInvalidate(observer);
    RLRelease(observer);
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:r");
}

RL_TEST(hang_up_is_readable_and_error_is_both, "S-FD-8 S-SOCK-51",
        "The end of a pipe is readable; a pipe without a reader, which is an error, is writable "
        "and readable") {
    static Descriptor in = {.name = "in"}, out = {.name = "out"};
    int ends[2], others[2];
    make_pipe(ends);
    make_pipe(others);
    add_descriptor(&in, ends[0], both_types);
    add_descriptor(&out, others[1], read_type);
    close(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("in:r");
    close(others[0]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("out:r");
    RLFileDescriptorEnableCallBacks(out.file, both_types);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("out:rw");
}

static int passes;
static void count_pass(RLObserverRef o, RLActivity activity, void *info) {
    (void)o;
    (void)activity;
    (void)info;
    passes++;
}

RL_TEST(hang_up_that_interests_nobody_makes_no_pass, "S-SOCK-51 S-PASS-16",
        "A hang-up with nothing enabled, or with writing alone, neither spins nor makes a pass, "
        "and a type enabled later on is still reported, from another thread too") {
    static Descriptor d = {.name = "d"}, full = {.name = "full"};
    int ends[2], stream[2];
    make_pipe(ends);
    add_descriptor(&d, ends[0], 0);
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    RLFileDescriptorDisableCallBacks(d.file, read_type);
    /* A socket that hangs up is writable; a pipe's end for reading never is. */
    make_pipe(stream);
    add_descriptor(&full, stream[0], write_type);
    close(stream[1]);
    close(ends[1]);
    RLObserverRef observer = RLObserverCreate(kRLBeforeWaiting, true, 0, count_pass, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    struct timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    expect_run(kRLDefaultMode, 0.3, true, TimedOut);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    ck_assert_int_eq(passes, 1);
    expect_trace("");
    double used = (double)(after.tv_sec - before.tv_sec) +
                  (double)(after.tv_nsec - before.tv_nsec) / 1e9;
    ck_assert_msg(used < 0.15, "the wait of 0.3 s took %f s of the processor", used);
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    RLFileDescriptorEnableCallBacks(full.file, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:r full:r");
}

static void enable_read(void *file) {
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
}

RL_TEST(enabling_from_another_thread_needs_no_wake_up, "S-FD-6 S-FD-9",
        "A loop that sleeps, with or without a kernel set, sees a type that another thread "
        "enables") {
    static Descriptor d = {.name = "d"}, file = {.name = "file"};
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    add_descriptor(&d, ends[0], 0);
    for (int i = 0; i < 3; i++) {
        Thread *thread = when_waiting(RLGetCurrent(), enable_read, d.file);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        thread_join(thread);
        expect_trace("d:r");
    }
    add_descriptor(&file, open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    Thread *thread = when_waiting(RLGetCurrent(), enable_read, file.file);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    thread_join(thread);
    expect_trace("file:r");
}

/* The library's own reads and writes of the descriptor would go through this. */
static int watched = -1, touched, calls;
static bool note_touch(long number, const long argument[6], long *result) {
    (void)result;
    calls++;
    if ((number == SYS_read || number == SYS_write || number == SYS_preadv2) && (int)argument[0] == watched) touched++;
    return false;
}

RL_TEST(the_library_reads_and_writes_nothing, "S-FD-10",
        "The count of an eventfd and the bytes of a pipe are untouched by a report") {
    static Descriptor d = {.name = "d"};
    int fd = make_eventfd();
    eventfd_signal(fd);
    eventfd_signal(fd);
    add_descriptor(&d, fd, both_types);
    watched = fd;
    hook_system_calls(note_touch);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:rw");
    hook_system_calls(NULL);
    ck_assert_int_eq(touched, 0);
    ck_assert_int_gt(calls, 0);
    uint64_t count = 0;
    ck_assert_int_eq(read(fd, &count, sizeof count), sizeof count);
    ck_assert_uint_eq(count, 2);
}

RL_TEST(every_kind_of_descriptor_is_watched, "S-FD-16",
        "epoll sets, timerfds, signalfds, inotify and pidfds are reported readable when they "
        "are") {
    static Descriptor epoll = {.name = "epoll"}, timer = {.name = "timer"};
    static Descriptor signals = {.name = "signals"}, notify = {.name = "notify"};
    static Descriptor process = {.name = "process"};
    int ends[2];
    make_pipe(ends);

    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    ck_assert_int_eq(epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event), 0);
    add_descriptor(&epoll, set, read_type);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("epoll:r");

    int clock = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    ck_assert_int_eq(timerfd_settime(clock, 0, &soon, NULL), 0);
    add_descriptor(&timer, clock, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("timer:r");

    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
    add_descriptor(&signals, signalfd(-1, &mask, SFD_CLOEXEC), read_type);
    ck_assert_int_eq(pthread_kill(pthread_self(), SIGUSR1), 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("signals:r");

    char folder[] = "/tmp/runloop-test-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    int watcher = inotify_init1(IN_CLOEXEC);
    ck_assert_int_ge(inotify_add_watch(watcher, folder, IN_DELETE_SELF), 0);
    add_descriptor(&notify, watcher, read_type);
    ck_assert_int_eq(rmdir(folder), 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("notify:r");

    pid_t child = fork();
    if (child == 0) _exit(0);
    ck_assert_int_gt(child, 0);
    int handle = (int)syscall(SYS_pidfd_open, child, 0);
    if (handle >= 0) { /* A kernel may refuse it. */
        add_descriptor(&process, handle, read_type);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("process:r");
    }
}

static int open_scratch_file(void) {
    char path[] = "/tmp/runloop-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(unlink(path), 0);
    return fd;
}

RL_TEST(regular_files_are_always_ready, "S-FD-17 S-SOCK-50",
        "A regular file, also an empty one, and /dev/null are ready for both whenever enabled; "
        "while nothing is enabled the loop sleeps") {
    static Descriptor file = {.name = "file"}, null = {.name = "null"};
    add_descriptor(&file, open_scratch_file(), both_types);
    add_descriptor(&null, open("/dev/null", O_RDWR | O_CLOEXEC), 0);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("file:rw");
    RLObserverRef observer = RLObserverCreate(kRLBeforeWaiting, true, 0, count_pass, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    ck_assert_int_eq(passes, 1);
    RLFileDescriptorEnableCallBacks(null.file, write_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("null:w");
    RLFileDescriptorEnableCallBacks(file.file, read_type);
    RLFileDescriptorDisableCallBacks(file.file, read_type);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("");
}

RL_TEST(always_ready_files_starve_nobody, "S-FD-17 S-PASS-13 S-PASS-14",
        "Two files that are always enabled, a pipe that stays readable and a timer are all "
        "served, the descriptors in turn") {
    static Descriptor a = {.name = "a"}, b = {.name = "b"}, pipe_end = {.name = "p"};
    static Probe timer = {.name = "t"};
    a.again = b.again = pipe_end.again = read_type;
    int ends[2];
    make_pipe(ends);
    write_byte(ends[1]);
    add_descriptor(&a, open_scratch_file(), read_type);
    add_descriptor(&b, open_scratch_file(), read_type);
    add_descriptor(&pipe_end, ends[0], read_type);
    add_timer(&timer, date_in(0.02), 0, kRLDefaultMode);
    do {
        expect_run(kRLDefaultMode, 60, true, HandledSource);
    } while (count_of(&timer.calls) == 0);
    for (int i = 0; i < 40; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_ge(a.calls, 8);
    ck_assert_int_ge(b.calls, 8);
    ck_assert_int_ge(pipe_end.calls, 8);
    ck_assert_int_le(abs(a.calls - b.calls), 1);
}

RL_TEST(always_ready_files_outlast_an_accept, "S-FD-17 S-SOCK-28",
        "A socket that cannot accept from /dev/null waits, and the descriptor object on its number is reported") {
    static Descriptor null = {.name = "null"};
    add_descriptor(&null, open("/dev/null", O_RDWR | O_CLOEXEC), 0);
    RLSocketRef s = RLSocketCreateWithNative(RLFileDescriptorGetNativeDescriptor(null.file), kRLSocketAcceptCallBack, NULL, NULL);
    RLSocketSetSocketFlags(s, 0);
    RLSourceRef source = RLSocketCreateRunLoopSource(s, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    RLFileDescriptorEnableCallBacks(null.file, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("null:r");
    RLSocketInvalidate(s);
    RLRelease(source);
    RLRelease(s);
}

RL_TEST(several_objects_on_one_descriptor, "S-SRC-44 S-PASS-8",
        "Three objects on one number, two for reading and one for writing, and a port source "
        "each get their own reports, one in a pass") {
    static Descriptor one = {.name = "1"}, two = {.name = "2"}, out = {.name = "out"};
    static Probe port = {.name = "port"};
    int ends[2];
    make_pair(ends);
    write_byte(ends[1]);
    add_descriptor(&one, ends[0], read_type);
    add_descriptor(&two, ends[0], read_type);
    add_descriptor(&out, ends[0], write_type);
    add_port(&port, ends[0], kRLDefaultMode);
    for (int i = 0; i < 4; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("1:r 2:r out:w port");
    /* The port source has no switch: it goes on. */
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("port");
    RLFileDescriptorEnableCallBacks(two.file, read_type);
    for (int i = 0; i < 3; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(trace_count("2:r"), 1);
}

RL_TEST(who_drains_first_spares_the_others, "S-SRC-44 S-FD-3",
        "Of two objects that wait for one byte the one that reads it is called, the other is "
        "not") {
    static Descriptor one = {.name = "1", .reads = true}, two = {.name = "2", .reads = true};
    int ends[2];
    make_pipe(ends);
    add_descriptor(&one, ends[0], read_type);
    add_descriptor(&two, ends[0], read_type);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.02, true, TimedOut);
    expect_trace("1:r");
}

RL_TEST(persistent_types_stay_enabled, "S-FD-19 S-FD-7",
        "A persistent type is reported in each pass in which it is ready, until it is disabled; the other type ends by its report") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pair(ends);
    add_descriptor(&d, ends[0], write_type);
    RLFileDescriptorEnablePersistentCallBacks(NULL, read_type);
    RLFileDescriptorEnablePersistentCallBacks(d.file, read_type | 4);
    write_byte(ends[1]);
    for (int i = 0; i < 3; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:rw d:r d:r");
    /* Enabling changes nothing, and neither does nothing to read. */
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    read_byte(ends[0]);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    write_byte(ends[1]);
    for (int i = 0; i < 2; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:r d:r");
    RLFileDescriptorDisableCallBacks(d.file, read_type);
    expect_run(kRLDefaultMode, 0.001, true, TimedOut);
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0.001, true, TimedOut);
    expect_trace("d:r");
}

RL_TEST(a_type_becomes_persistent, "S-FD-19 S-FD-6",
        "A type that is enabled for one report, before its source is in a loop, becomes persistent, and works with the other one") {
    static Descriptor d = {.name = "d", .reads = true};
    int ends[2];
    make_pair(ends);
    descriptor_make(&d, ends[0], false);
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    RLFileDescriptorEnablePersistentCallBacks(d.file, read_type);
    d.source = RLFileDescriptorCreateRunLoopSource(d.file, 0);
    RLAddSource(RLGetCurrent(), d.source, kRLDefaultMode);
    ck_assert_int_eq(write(ends[1], "abc", 3), 3);
    for (int i = 0; i < 3; i++) expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_trace("d:r d:r d:r");
}

static void run_nested(Descriptor *d) {
    d->action = NULL;
    expect_run(kRLDefaultMode, 0, true, HandledSource);
    trace("out");
}

RL_TEST(persistent_in_a_nested_run, "S-FD-19", "A nested run in the callback reports what is still ready") {
    static Descriptor d = {.name = "d", .action = run_nested};
    int ends[2];
    make_pipe(ends);
    descriptor_make(&d, ends[0], false);
    RLFileDescriptorEnablePersistentCallBacks(d.file, read_type);
    d.source = RLFileDescriptorCreateRunLoopSource(d.file, 0);
    RLAddSource(RLGetCurrent(), d.source, kRLDefaultMode);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:r d:r out");
    RLFileDescriptorInvalidate(d.file);
    RLFileDescriptorEnablePersistentCallBacks(d.file, read_type);
    expect_run(kRLDefaultMode, 0, true, Finished);
}
