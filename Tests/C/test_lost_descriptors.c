/* SPDX-License-Identifier: MIT */
/* The descriptors that the library makes for itself: their numbers, and what happens when the program closes one, or gives its number to another file. */
#define _GNU_SOURCE
#include "support_descriptor.h"

#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

static const RLOptionFlags read_type = kRLFileDescriptorReadCallBack;

RL_TEST(the_librarys_numbers_are_high, "S-FD-18",
        "What the library opens for itself has numbers from 64 up") {
    static Descriptor d = {.name = "d"};
    DescriptorSet before = descriptors_now();
    int ends[2];
    make_pipe(ends);
    add_descriptor(&d, ends[0], read_type);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    DescriptorSet after = descriptors_now();
    int made = 0;
    for (int fd = 0; fd < 1024; fd++) {
        if (!after.open[fd] || before.open[fd] || fd == ends[0] || fd == ends[1]) continue;
        ck_assert_int_ge(fd, 64);
        made++;
    }
    ck_assert_int_ge(made, 1);
}

RL_TEST(a_lost_set_is_made_anew, "S-FD-18",
        "The loop whose set was closed, or replaced by another file, goes on with one log "
        "line, no spin, and the other file untouched") {
    for (int replaced = 0; replaced < 2; replaced++) {
        Descriptor *d = calloc(1, sizeof *d);
        d->name = "d";
        d->reads = true;
        int ends[2], fds[8];
        make_pipe(ends);
        add_descriptor(d, ends[0], read_type);
        expect_run(kRLDefaultMode, 0, true, TimedOut);
        int count = library_descriptors("anon_inode:[eventpoll]", fds);
        count += library_descriptors("anon_inode:[eventfd]", fds + count);
        ck_assert_int_ge(count, 2);
        int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (!replaced) log_capture();
        for (int i = 0; i < count; i++) {
            close(fds[i]);
            if (replaced) ck_assert_int_eq(dup3(file, fds[i], O_CLOEXEC), fds[i]);
        }
        expect_quiet_run(0.05);
        ck_assert_int_eq(log_count(), 1);
        write_byte(ends[1]);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("d:r");
        Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
        expect_run(kRLDefaultMode, 60, true, Stopped);
        thread_join(thread);
        RLFileDescriptorInvalidate(d->file);
        RLRelease(d->file);
        for (int i = 0; replaced && i < count; i++) {
            ck_assert_int_ne(fcntl(fds[i], F_GETFD), -1);
            close(fds[i]);
        }
        free(d);
    }
}

static int told;
static Probe late = {.action = action_stop};
static void add_late(void *loop) { RLAddTimer(loop, late.timer, kRLDefaultMode); }
static void add_in_log(const char *line, void *info) {
    (void)line;
    (void)info;
    if (told++ == 0) add_late(RLGetCurrent());
}
static void run_in_log(const char *line, void *info) {
    (void)line;
    (void)info;
    if (told++ > 0) return;
    Thread *thread = when_waiting(RLGetCurrent(), add_late, RLGetCurrent());
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    thread_join(thread);
}

static void lose_the_set(Probe *self) {
    (void)self;
    int fds[8], count = library_descriptors("anon_inode:[eventpoll]", fds);
    ck_assert_int_ge(count, 1);
    for (int i = 0; i < count; i++) close(fds[i]);
}

static void expect_timer_of_log(void (*handler)(const char *line, void *info)) {
    static Probe port = {.name = "p"}, loser = {.action = lose_the_set};
    add_port(&port, make_eventfd(), kRLDefaultMode);
    add_timer(&loser, date_in(0.01), 0, kRLDefaultMode);
    /* Not before the run inside has ended, also on a slow machine: that one would be stopped. */
    probe_timer(&late, date_in(1), 0);
    RLSetLogHandler(handler, NULL);
    double start = monotonic_now();
    expect_run(kRLDefaultMode, 10, false, Stopped);
    ck_assert_double_lt(monotonic_now() - start, 9);
    ck_assert_int_eq(told, 1);
}

RL_TEST(a_log_handler_adds_a_timer_in_a_wait, "S-WAKE-13 S-FD-18", "A wait goes on with the timer that the log handler has added, which the wait called") {
    expect_timer_of_log(add_in_log);
}

RL_TEST(a_log_handler_runs_the_loop_in_a_wait, "S-WAKE-13 S-WAKE-9 S-FD-18",
        "A wait goes on with the timer that another thread adds while the log handler, which the wait called, runs the loop") {
    expect_timer_of_log(run_in_log);
}

static void lose_and_wake(void *loop) {
    int fds[8], count = library_descriptors("anon_inode:[eventfd]", fds);
    ck_assert_int_eq(count, 1);
    close(fds[0]);
    RLStop(loop);
}

static int spare_file;
static void lose_set_and_stop(void *loop) {
    int fds[8], count = library_descriptors("anon_inode:[eventpoll]", fds);
    ck_assert_int_eq(count, 1);
    if (spare_file >= 0) {
        ck_assert_int_eq(dup3(spare_file, fds[0], O_CLOEXEC), fds[0]);
    } else {
        close(fds[0]);
    }
    RLStop(loop);
}

RL_TEST(a_sleeper_in_a_lost_set, "S-FD-18 S-STOP-8",
        "A loop that sleeps in a set whose number was closed, or given to another file, is told by "
        "its wakers, and then has a new set") {
    static Descriptor d = {.name = "d", .reads = true, .again = read_type};
    int ends[2];
    make_pipe(ends);
    add_descriptor(&d, ends[0], read_type);
    log_capture();
    for (int i = 0; i < 4; i++) {
        spare_file = i % 2 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
        Thread *thread = when_waiting(RLGetCurrent(), lose_set_and_stop, RLGetCurrent());
        expect_run(kRLDefaultMode, 1e6, true, Stopped);
        thread_join(thread);
        write_byte(ends[1]);
        expect_run(kRLDefaultMode, 1e6, true, HandledSource);
        expect_trace("d:r");
    }
    ck_assert_int_eq(log_count(), 1);
}

/* What is registered in a set. */
static int entries_of(int set) {
    char path[64], line[256];
    int count = 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", set);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file)) count += strncmp(line, "tfd:", 4) == 0;
    fclose(file);
    return count;
}

RL_TEST(a_lost_set_replaced_by_a_set, "S-FD-18 S-STOP-8",
        "A loop that sleeps in a set whose number was given to a set of the client's is told by its wakers, and nothing is "
        "registered in the client's") {
    static Descriptor d = {.name = "d", .reads = true, .again = read_type};
    int ends[2], fds[8];
    make_pipe(ends);
    add_descriptor(&d, ends[0], read_type);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    spare_file = epoll_create1(EPOLL_CLOEXEC);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    Thread *thread = when_waiting(RLGetCurrent(), lose_set_and_stop, RLGetCurrent());
    expect_run(kRLDefaultMode, 1e6, true, Stopped);
    thread_join(thread);
    ck_assert_int_eq(entries_of(spare_file), 0);
    ck_assert_int_ne(fcntl(fds[0], F_GETFD), -1);
}

RL_TEST(enabled_in_a_set_that_was_replaced, "S-FD-18 S-FD-4",
        "A descriptor that is enabled again after a set of the client's has got the number of the loop's reports once that one has shown what it is") {
    static Descriptor d = {.name = "d", .reads = true, .again = read_type};
    int ends[2], fds[8], other = make_eventfd();
    make_pipe(ends);
    add_descriptor(&d, ends[0], read_type);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    RLFileDescriptorDisableCallBacks(d.file, read_type);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    spare_file = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data = {.u64 = 12345}};
    ck_assert_int_eq(epoll_ctl(spare_file, EPOLL_CTL_ADD, other, &event), 0);
    eventfd_signal(other);
    ck_assert_int_eq(dup3(spare_file, fds[0], O_CLOEXEC), fds[0]);
    RLFileDescriptorEnableCallBacks(d.file, read_type);
    for (int i = 0; i < 3; i++) {
        write_byte(ends[1]);
        expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    }
    expect_trace("d:r d:r d:r d:r");
    ck_assert_int_eq(entries_of(spare_file), 1);
    close(other);
}

static int sleeper_calls;
static void stop_sleeper(void *info) {
    __atomic_add_fetch(&sleeper_calls, 1, __ATOMIC_SEQ_CST);
    RLStop(info);
}
static void count_call(void *unused) {
    (void)unused;
    __atomic_add_fetch(&sleeper_calls, 1, __ATOMIC_SEQ_CST);
}
static void sleep_until_called(LoopThread *self) {
    int ends[2];
    make_pipe(ends);
    add_descriptor(self->data, ends[0], read_type);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
}

RL_TEST(the_number_of_a_lost_set_is_not_used_again, "S-FD-18 S-WAKE-1",
        "The next loop's set, or a message port's, does not get the number of a loop's set that was closed: the loop is woken and makes its set anew") {
    Descriptor descriptors[2] = {{.name = "a"}, {.name = "b"}};
    LoopThread threads[2];
    int fds[8], number;
    log_capture();
    loop_thread_start(&threads[0], sleep_until_called, &descriptors[0]);
    wait_until_waiting(threads[0].loop);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    number = fds[0];
    close(number);
    RLMessagePortRef port = RLMessagePortCreateLocal(NULL, NULL, NULL, NULL);
    loop_thread_start(&threads[1], sleep_until_called, &descriptors[1]);
    wait_until_waiting(threads[1].loop);
    RLPerformFunction(threads[0].loop, kRLDefaultMode, count_call, NULL, NULL);
    RLWakeUp(threads[0].loop);
    wait_until_count(&sleeper_calls, 1);
    /* The next wait finds that the set was lost. */
    while (library_descriptors("anon_inode:[eventpoll]", fds) < 3) sched_yield();
    wait_until_waiting(threads[0].loop);
    RLMessagePortInvalidate(port);
    RLRelease(port);
    for (int i = 0; i < 2; i++) {
        RLPerformFunction(threads[i].loop, kRLDefaultMode, stop_sleeper, threads[i].loop, NULL);
        RLWakeUp(threads[i].loop);
        thread_join(threads[i].thread);
        RLRelease(descriptors[i].file);
    }
    ck_assert_int_eq(sleeper_calls, 3);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 0);
}

/* A loop whose set's number was closed, in the callback in which that happens; another loop's set is made then. */
static int shared_ends[2];
static LoopThread with_number;
static Descriptor same = {.name = "same"};
static void watch_until_reported(LoopThread *self) {
    add_descriptor(self->data, shared_ends[0], read_type);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
}
static void lose_number_and_watch_the_same(void *loop) {
    static Descriptor other = {.name = "other"};
    int fds[8];
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    const int number = fds[0];
    close(number);
    loop_thread_start(&with_number, watch_until_reported, &other);
    wait_until_waiting(with_number.loop);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    ck_assert_int_ne(fds[0], number);
    add_descriptor(&same, shared_ends[0], kRLFileDescriptorWriteCallBack);
    RLStop(loop);
}

RL_TEST(what_is_watched_without_a_number, "S-FD-18 S-FD-8",
        "What a loop watches before it notices that its set's number was closed changes nothing for the loop that made a set since") {
    static Descriptor own = {.name = "own"};
    int ends[2];
    make_pipe(ends);
    make_pipe(shared_ends);
    add_descriptor(&own, ends[0], read_type);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    log_capture();
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, lose_number_and_watch_the_same, RLGetCurrent(), NULL);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    write_byte(shared_ends[1]);
    thread_join(with_number.thread);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 1e6, true, HandledSource);
    expect_trace("other:r own:r");
}

static int lost_set;
static void lose_set_of_thread(void *descriptor) {
    int ends[2], fds[8];
    make_pipe(ends);
    add_descriptor(descriptor, ends[0], read_type);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    lost_set = fds[0];
    ck_assert_int_eq(dup3(spare_file, lost_set, O_CLOEXEC), lost_set);
}

RL_TEST(a_lost_set_is_not_closed, "S-FD-18 S-LOOP-16",
        "The end of a loop whose set's number names a file or a set of the client's closes neither") {
    for (int i = 0; i < 2; i++) {
        spare_file = i ? epoll_create1(EPOLL_CLOEXEC) : open("/dev/null", O_RDONLY | O_CLOEXEC);
        Descriptor d = {.name = "d"};
        thread_join(thread_start(lose_set_of_thread, &d));
        RLRelease(d.file);
        ck_assert_int_ne(fcntl(lost_set, F_GETFD), -1);
        if (i) ck_assert_int_eq(entries_of(lost_set), 0);
        close(lost_set);
        close(spare_file);
    }
}

RL_TEST(a_lost_wake_up_descriptor, "S-FD-18 S-STOP-8",
        "A loop that sleeps is told by its wakers though the descriptor for that was closed") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pipe(ends);
    add_descriptor(&d, ends[0], read_type);
    log_capture();
    for (int i = 0; i < 3; i++) {
        Thread *thread = when_waiting(RLGetCurrent(), lose_and_wake, RLGetCurrent());
        expect_run(kRLDefaultMode, 60, true, Stopped);
        thread_join(thread);
    }
    ck_assert_int_eq(log_count(), 1);
    write_byte(ends[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:r");
}

static int foreign_counter;
static void replace_and_wake(void *loop) {
    int fds[8], count = library_descriptors("anon_inode:[eventfd]", fds);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(dup3(foreign_counter, fds[0], O_CLOEXEC), fds[0]);
    RLStop(loop);
    close(fds[0]);
}

RL_TEST(the_wake_up_descriptor_replaced_by_a_counter, "S-FD-18 S-STOP-8",
        "A loop that sleeps is told though an eventfd of the program's has the number of the library's, and nothing is written "
        "to that; it stays open") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    uint64_t value;
    make_pipe(ends);
    foreign_counter = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(foreign_counter, 0);
    ck_assert_int_lt(foreign_counter, 64);
    add_descriptor(&d, ends[0], read_type);
    Thread *thread = when_waiting(RLGetCurrent(), replace_and_wake, RLGetCurrent());
    expect_run(kRLDefaultMode, 60, true, Stopped);
    thread_join(thread);
    ck_assert_int_eq(read(foreign_counter, &value, sizeof value), -1);
    ck_assert_int_eq(errno, EAGAIN);
    close(foreign_counter);
}

static int socket_of_program;
static void lose_to_socket_and_wake(void *loop) {
    int fds[8], count = library_descriptors("anon_inode:[eventfd]", fds);
    ck_assert_int_eq(count, 1);
    ck_assert_int_eq(dup3(socket_of_program, fds[0], O_CLOEXEC), fds[0]);
    RLStop(loop);
}
static void wake_only(void *loop) { RLStop(loop); }

RL_TEST(the_wake_up_descriptor_lost_again_and_again, "S-FD-18 S-STOP-8",
        "A loop that sleeps is told though sockets of the program have the numbers of the wake-up descriptor and of the one that took its place") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pipe(ends);
    socket_of_program = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    add_descriptor(&d, ends[0], read_type);
    for (int i = 0; i < 6; i++) {
        Thread *thread = when_waiting(RLGetCurrent(), i % 2 ? wake_only : lose_to_socket_and_wake, RLGetCurrent());
        expect_run(kRLDefaultMode, 60, true, Stopped);
        thread_join(thread);
    }
    close(socket_of_program);
}

/* A number that another loop's set would get. */
static Descriptor of_another_loop = {.name = "another"};
static void wait_as_another_loop(LoopThread *thread) {
    loop_thread_start(thread, sleep_until_called, &of_another_loop);
    wait_until_waiting(thread->loop);
}
static void end_another_loop(LoopThread *thread) {
    RLPerformFunction(thread->loop, kRLDefaultMode, stop_sleeper, thread->loop, NULL);
    RLWakeUp(thread->loop);
    thread_join(thread->thread);
    RLRelease(of_another_loop.file);
}
static void call_and_wake(void *loop) {
    RLPerformFunction(loop, kRLDefaultMode, stop_sleeper, loop, NULL);
    RLWakeUp(loop);
}
static bool waits_in_poll;
static void lose_number_of_host(void *loop) {
    int fds[8];
    LoopThread another;
    while (!__atomic_load_n(&waits_in_poll, __ATOMIC_SEQ_CST)) sched_yield();
    library_descriptors("anon_inode:[eventpoll]", fds);
    close(fds[0]);
    wait_as_another_loop(&another);
    call_and_wake(loop);
    end_another_loop(&another);
}

RL_TEST(a_host_whose_number_was_closed, "S-FD-18 S-FRN-3",
        "A host that waits for the number, or prepares the wait anew, is told that it was closed and then of wake-ups, though another loop has made a set since") {
    for (int waits = 0; waits < 2; waits++) {
        LoopThread another;
        Thread *thread = NULL;
        int fds[8];
        RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
        RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0, NULL, NULL);
        RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
        while (RLForeignRunPrepare(run) == 0) RLForeignRunDispatch(run);
        struct pollfd host = {.fd = RLForeignRunGetDescriptor(run), .events = POLLIN};
        if (waits) {
            waits_in_poll = false;
            thread = thread_start(lose_number_of_host, RLGetCurrent());
            __atomic_store_n(&waits_in_poll, true, __ATOMIC_SEQ_CST);
            ck_assert_int_eq(poll(&host, 1, -1), 1);
        } else {
            ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
            close(host.fd);
            wait_as_another_loop(&another);
            RLForeignRunPrepare(run);
            thread = thread_start(call_and_wake, RLGetCurrent());
        }
        const int before = count_of(&sleeper_calls);
        RLRunResult result;
        do {
            RLForeignRunPrepare(run);
            host.fd = RLForeignRunGetDescriptor(run);
            ck_assert_int_eq(poll(&host, 1, -1), 1);
            result = RLForeignRunDispatch(run);
        } while (result == kRLRunGoesOn);
        ck_assert_int_eq(result, kRLRunStopped);
        ck_assert_int_ge(count_of(&sleeper_calls), before);
        if (!waits) end_another_loop(&another);
        thread_join(thread);
        RLForeignRunInvalidate(run);
        RLRelease(run);
        RLTimerInvalidate(timer);
        RLRelease(timer);
    }
}

RL_TEST(a_timer_of_the_programs_where_set_and_timer_were, "S-FD-18 S-FRN-10",
        "Where set and timer of a foreign run were closed, and a timer of the program's has that one's number, it is neither set nor closed") {
    struct itimerspec date = {.it_value = {100000, 0}}, left;
    for (int dispatches = 0; dispatches < 2; dispatches++) {
        int timers[8];
        RLForeignRunRef run = RLForeignRunCreate(kRLDefaultMode);
        ck_assert_int_eq(library_descriptors("anon_inode:[timerfd]", timers), 1);
        const int number = timers[0], mine = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
        ck_assert_int_eq(timerfd_settime(mine, 0, &date, NULL), 0);
        close(RLForeignRunGetDescriptor(run));
        ck_assert_int_eq(dup3(mine, number, O_CLOEXEC), number);
        if (dispatches) RLForeignRunDispatch(run);
        RLForeignRunInvalidate(run);
        RLRelease(run);
        ck_assert_int_eq(timerfd_gettime(number, &left), 0);
        ck_assert_int_gt(left.it_value.tv_sec, 10000);
        close(number);
        close(mine);
    }
}

RL_TEST(a_number_closed_after_the_wake_up_descriptor, "S-FD-15 S-FD-18",
        "A watched number that is closed while another names its file makes no loop spin whose set lacks the wake-up descriptor that replaced a lost one") {
    static Descriptor d = {.name = "d", .reads = true};
    LoopThread another;
    int ends[2], fds[8];
    make_pipe(ends);
    add_descriptor(&d, ends[0], read_type);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    wait_as_another_loop(&another);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventfd]", fds), 1);
    close(fds[0]);
    end_another_loop(&another);
    const int held = dup(ends[0]);
    close(ends[0]);
    write_byte(ends[1]);
    Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
    RLTimerRef timer = RLTimerCreate(RLAbsoluteTimeGetCurrent() + 1e6, 0, 0, 0, NULL, NULL);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1e6, true, Stopped);
    thread_join(thread);
    expect_trace("");
    RLTimerInvalidate(timer);
    RLRelease(timer);
    close(held);
}

static void lose_set_to_sets(void *loop) {
    int fds[8], mine = epoll_create1(EPOLL_CLOEXEC);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    ck_assert_int_eq(dup3(mine, fds[0], O_CLOEXEC), fds[0]);
    for (int i = 1; i <= 3; i++) {
        const int before = count_of(&sleeper_calls);
        RLPerformFunction(loop, kRLDefaultMode, count_call, NULL, NULL);
        RLWakeUp(loop);
        wait_until_count(&sleeper_calls, before + 1);
    }
    RLStop(loop);
}

RL_TEST(a_set_of_the_programs_in_which_a_loop_does_not_sleep, "S-FD-18 S-WAKE-1",
        "A loop whose set's number a silent set of the program's has got is told by each of its wakers") {
    static Descriptor d = {.name = "d", .reads = true};
    int ends[2];
    make_pipe(ends);
    add_descriptor(&d, ends[0], read_type);
    Thread *thread = when_waiting(RLGetCurrent(), lose_set_to_sets, RLGetCurrent());
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
    thread_join(thread);
}

RL_TEST(a_file_at_the_number_of_the_wake_up_descriptor, "S-FD-18 S-FD-4 S-WAKE-1", "A file of the program's that has got the wake-up descriptor's number is reported, and wakers reach the loop that watches it") {
    static Descriptor own = {.name = "own"}, taking = {.name = "taking", .reads = true, .again = read_type};
    int ends[2], others[2], fds[8];
    make_pipe(ends);
    make_pipe(others);
    add_descriptor(&own, others[0], read_type);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventfd]", fds), 1);
    ck_assert_int_eq(dup3(ends[0], fds[0], O_CLOEXEC), fds[0]);
    add_descriptor(&taking, fds[0], read_type);
    for (int i = 0; i < 3; i++) {
        Thread *thread = when_waiting(RLGetCurrent(), call_stop, RLGetCurrent());
        expect_run(kRLDefaultMode, 1e6, false, Stopped);
        thread_join(thread);
        write_byte(ends[1]);
        expect_run(kRLDefaultMode, 1e6, true, HandledSource);
        expect_trace("taking:r");
    }
}
