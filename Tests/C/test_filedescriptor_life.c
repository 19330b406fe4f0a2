/* SPDX-License-Identifier: MIT */
/* Descriptor objects: creation, sources, invalidation, and descriptors closed behind their back. */
#define _GNU_SOURCE
#include "support_descriptor.h"

#include <errno.h>
#include <sys/eventfd.h>
#include "system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const RLOptionFlags read_type = kRLFileDescriptorReadCallBack;
static const RLOptionFlags write_type = kRLFileDescriptorWriteCallBack;

static void never(RLFileDescriptorRef file, RLOptionFlags types, void *info) {
    (void)file;
    (void)types;
    (void)info;
    ck_abort_msg("reported");
}

static void *must_not_retain(void *info) {
    ck_abort_msg("retained");
    return info;
}

RL_TEST(creation_refuses_what_cannot_work, "S-FD-1",
        "No object without a callback or for a negative number, and then nothing is retained") {
    int fd = make_eventfd();
    RLFileDescriptorContext context = {.retain = must_not_retain};
    ck_assert_ptr_null(RLFileDescriptorCreate(fd, true, NULL, &context));
    ck_assert_ptr_null(RLFileDescriptorCreate(-1, true, never, &context));
    ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
    RLFileDescriptorRef file = RLFileDescriptorCreate(fd, false, never, NULL);
    ck_assert(RLFileDescriptorIsValid(file));
    ck_assert_int_eq(RLFileDescriptorGetNativeDescriptor(file), fd);
    ck_assert_uint_eq(RLGetTypeIDOf(file), RLFileDescriptorGetTypeID());
    ck_assert_uint_ne(RLFileDescriptorGetTypeID(), RLSourceGetTypeID());
    RLFileDescriptorContext got = {.info = &context};
    RLFileDescriptorGetContext(file, &got);
    ck_assert_ptr_null(got.info);
    char *text = RLCopyDescription(file);
    ck_assert_ptr_nonnull(strstr(text, "RLFileDescriptor"));
    free(text);
    RLRelease(file);
    ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
}

RL_TEST(null_objects, "S-ARG-1", "NULL is asked in vain and told in vain") {
    ck_assert_int_eq(RLFileDescriptorGetNativeDescriptor(NULL), -1);
    ck_assert(!RLFileDescriptorIsValid(NULL));
    ck_assert_ptr_null(RLFileDescriptorCreateRunLoopSource(NULL, 0));
    RLFileDescriptorEnableCallBacks(NULL, read_type);
    RLFileDescriptorDisableCallBacks(NULL, read_type);
    RLFileDescriptorInvalidate(NULL);
    RLFileDescriptorContext context = {.version = 7};
    RLFileDescriptorGetContext(NULL, &context);
    ck_assert_int_eq(context.version, 7);
    RLFileDescriptorGetContext(NULL, NULL);
}

/* The order of what Invalidate does, seen at the close and at the release. */

static RLFileDescriptorRef invalidated;
static RLSourceRef its_source;
static int closing = -1;

static bool note_close(long number, const long argument[6], long *result) {
    (void)result;
    if (number == SYS_close && (int)argument[0] == closing) {
        closing = -1;
        trace("close:%s%s%s", RLFileDescriptorIsValid(invalidated) ? "valid" : "invalid",
              RLSourceIsValid(its_source) ? "+source" : "",
              RLContainsSource(RLGetCurrent(), its_source, kRLDefaultMode) ? "+member" : "");
    }
    return false;
}

static void trace_release(void *info) {
    RLFileDescriptorContext context = {.info = info};
    RLFileDescriptorGetContext(invalidated, &context);
    ck_assert_ptr_null(context.info);
    ck_assert_ptr_eq((void *)context.release, (void *)trace_release);
    trace("release%s", RLSourceIsValid(its_source) ? "+source" : "");
}

RL_TEST(invalidate_goes_in_order, "S-FD-11 S-FD-12",
        "Invalid and out of the loop, then closed, then the source invalid, then the context "
        "released with its info NULL") {
    int ends[2];
    make_pair(ends);
    RLFileDescriptorContext context = {.info = &context, .release = trace_release};
    invalidated = RLFileDescriptorCreate(ends[0], true, never, &context);
    its_source = RLFileDescriptorCreateRunLoopSource(invalidated, 0);
    RLAddSource(RLGetCurrent(), its_source, kRLDefaultMode);
    closing = ends[0];
    hook_system_calls(note_close);
    RLFileDescriptorInvalidate(invalidated);
    expect_trace("close:invalid+source release");
    ck_assert(!RLFileDescriptorIsValid(invalidated));
    ck_assert_int_eq(RLFileDescriptorGetNativeDescriptor(invalidated), -1);
    ck_assert_ptr_null(RLFileDescriptorCreateRunLoopSource(invalidated, 0));
    ck_assert_int_eq(fcntl(ends[0], F_GETFD), -1);
    RLFileDescriptorInvalidate(invalidated);
    RLFileDescriptorEnableCallBacks(invalidated, write_type);
    expect_run(kRLDefaultMode, 1, true, Finished);
    RLRelease(its_source);
    RLRelease(invalidated);
    expect_trace("");
}

static void invalidate_it(Descriptor *self) {
    RLFileDescriptorInvalidate(self->file);
    ck_assert_int_eq(self->releases, 1);
    RLRelease(self->file);
}

RL_TEST(invalidate_inside_the_callback, "S-FD-11 S-THR-5",
        "An object that invalidates and releases itself in its callback is released inside the "
        "call and alive until the callback returns") {
    static Descriptor d = {.name = "d", .action = invalidate_it};
    int ends[2];
    make_pair(ends);
    add_descriptor(&d, ends[0], write_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:w");
    ck_assert_int_eq(d.retains, 1);
    expect_run(kRLDefaultMode, 1, true, Finished);
}

static void invalidate_elsewhere(void *argument) {
    Descriptor *descriptor = argument;
    RLFileDescriptorInvalidate(descriptor->file);
    ck_assert_int_eq(count_of(&descriptor->releases), 0);
}
static void let_it_be_invalidated(Descriptor *self) {
    thread_join(thread_start(invalidate_elsewhere, self));
    ck_assert_int_eq(count_of(&self->releases), 0);
}

RL_TEST(another_thread_invalidates_during_the_callback, "S-FD-11 S-THR-8 S-THR-6",
        "Invalidate does not wait for a callback on another thread; the context stays until that "
        "has returned") {
    static Descriptor d = {.name = "d", .action = let_it_be_invalidated};
    int ends[2];
    make_pair(ends);
    add_descriptor(&d, ends[0], write_type);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:w");
    ck_assert_int_eq(count_of(&d.releases), 1);
}

RL_TEST(who_holds_whom, "S-FD-13",
        "The source keeps its object alive; the object does not keep the source; the last "
        "release invalidates, which closes") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pair(ends);
    descriptor_make(&d, ends[0], true);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(d.file, 0);
    RLFileDescriptorEnableCallBacks(d.file, write_type);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLRelease(d.file);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:w");
    ck_assert_int_eq(d.releases, 0);
    RLRemoveSource(RLGetCurrent(), source, kRLDefaultMode);
    ck_assert_int_eq(d.releases, 1);
    ck_assert_int_eq(fcntl(ends[0], F_GETFD), -1);
}

RL_TEST(one_source_while_it_lives, "S-FD-14",
        "The same source each time, with the order of the first call; a new one after that was "
        "invalidated or has died, and invalidating it leaves the object valid") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pair(ends);
    descriptor_make(&d, ends[0], false);
    RLSourceRef first = RLFileDescriptorCreateRunLoopSource(d.file, 3);
    RLSourceRef again = RLFileDescriptorCreateRunLoopSource(d.file, 4);
    ck_assert_ptr_eq(first, again);
    ck_assert_int_eq(RLSourceGetOrder(first), 3);
    RLRelease(again);
    RLSourceInvalidate(first);
    ck_assert(RLFileDescriptorIsValid(d.file));
    RLSourceRef second = RLFileDescriptorCreateRunLoopSource(d.file, 5);
    ck_assert_ptr_ne(first, second);
    ck_assert_int_eq(RLSourceGetOrder(second), 5);
    RLRelease(first);
    RLRelease(second);
    RLSourceRef third = RLFileDescriptorCreateRunLoopSource(d.file, 6);
    ck_assert_int_eq(RLSourceGetOrder(third), 6);
    RLFileDescriptorEnableCallBacks(d.file, write_type);
    RLAddSource(RLGetCurrent(), third, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:w");
    RLRelease(third);
}

/* Closed, duplicated and reused numbers: the client's errors, which must not become events. */

static int passes;
static void count_pass(RLObserverRef o, RLActivity activity, void *info) {
    (void)o;
    (void)activity;
    (void)info;
    passes++;
}
static void expect_quiet(double seconds) {
    RLObserverRef observer = RLObserverCreate(kRLBeforeWaiting, true, 0, count_pass, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    passes = 0;
    expect_run(kRLDefaultMode, seconds, true, TimedOut);
    ck_assert_int_eq(passes, 1);
    expect_trace("");
    RLObserverInvalidate(observer);
    RLRelease(observer);
}

RL_TEST(closed_while_open_under_another_number, "S-FD-15",
        "A descriptor that was closed though a duplicate keeps its file open is not reported "
        "when the file becomes readable, and the loop does not spin") {
    static Descriptor d = {.name = "d"}, other = {.name = "other"};
    int ends[2], others[2];
    make_pipe(ends);
    make_pipe(others);
    add_descriptor(&d, ends[0], read_type);
    add_descriptor(&other, others[0], read_type);
    int duplicate = dup(ends[0]);
    ck_assert_int_ge(duplicate, 0);
    close(ends[0]);
    write_byte(ends[1]);
    expect_quiet(0.05);
    write_byte(others[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("other:r");
    RLFileDescriptorEnableCallBacks(d.file, read_type | write_type);
    expect_quiet(0.05);
}

static void reuse(int number, int fd) {
    ck_assert_int_eq(dup3(fd, number, O_CLOEXEC), number);
}

RL_TEST(a_number_that_names_another_file, "S-FD-15",
        "An object whose number was closed and used again gets no event of the new file, whether "
        "or not the old one is open elsewhere; an object made for the new file does") {
    for (int keeps_old = 0; keeps_old < 2; keeps_old++) {
        Descriptor *old = calloc(1, sizeof *old), *new = calloc(1, sizeof *new);
        old->name = "old";
        new->name = "new";
        int ends[2], others[2];
        make_pipe(ends);
        make_pipe(others);
        add_descriptor(old, ends[0], read_type);
        expect_run(kRLDefaultMode, 0, true, TimedOut);
        int duplicate = keeps_old ? dup(ends[0]) : -1;
        reuse(ends[0], others[0]);
        write_byte(others[1]);
        expect_quiet(0.03);
        RLFileDescriptorDisableCallBacks(old->file, read_type);
        RLFileDescriptorEnableCallBacks(old->file, read_type | write_type);
        expect_quiet(0.03);
        add_descriptor(new, ends[0], read_type);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("new:r");
        if (keeps_old) write_byte(ends[1]);
        expect_quiet(0.03);
        RLFileDescriptorEnableCallBacks(new->file, read_type);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("new:r");
        RLFileDescriptorInvalidate(old->file);
        RLFileDescriptorEnableCallBacks(new->file, read_type);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("new:r");
        RLFileDescriptorInvalidate(new->file);
        RLRelease(old->file);
        RLRelease(new->file);
        if (keeps_old) close(duplicate);
        free(old);
        free(new);
    }
}

RL_TEST(a_mode_in_which_it_is_added_again, "S-SRC-51 S-FD-15",
        "An object in two modes whose number names another file is added to one of them again: it hears that file there, also when the other "
        "mode finds its own gone") {
    static Descriptor object = {.name = "object"};
    const RLMode other = "other";
    int ends[2], others[2];
    make_pipe(ends);
    make_pipe(others);
    add_descriptor(&object, ends[0], read_type);
    RLAddSource(RLGetCurrent(), object.source, other);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    expect_run(other, 0, true, TimedOut);
    reuse(ends[0], others[0]);
    RLRemoveSource(RLGetCurrent(), object.source, kRLDefaultMode);
    RLAddSource(RLGetCurrent(), object.source, kRLDefaultMode);
    RLFileDescriptorEnableCallBacks(object.file, write_type);
    write_byte(others[1]);
    expect_run(other, 0, true, TimedOut);
    expect_trace("");
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("object:r");
}

RL_TEST(closed_and_bad_numbers, "S-FD-15 S-FD-1",
        "A closed regular file, and a number that was never open, are never reported; "
        "invalidating them is harmless") {
    static Descriptor file = {.name = "file"}, bad = {.name = "bad"};
    char path[] = "/tmp/runloop-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_eq(unlink(path), 0);
    add_descriptor(&file, fd, 0);
    close(fd);
    RLFileDescriptorEnableCallBacks(file.file, read_type);
    add_descriptor(&bad, 900, read_type | write_type);
    expect_quiet(0.03);
    RLFileDescriptorInvalidate(file.file);
    RLFileDescriptorInvalidate(bad.file);
    ck_assert_int_eq(bad.releases, 1);
    expect_run(kRLDefaultMode, 1, true, Finished);
}

RL_TEST(invalidated_before_the_close, "S-FD-11 S-FD-15",
        "After Invalidate the number is free: an object made for its next file is reported, and "
        "the kernel has nothing of the old one") {
    static Descriptor first = {.name = "1"}, second = {.name = "2"};
    int ends[2], others[2];
    make_pipe(ends);
    make_pipe(others);
    add_descriptor(&first, ends[0], read_type);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    int duplicate = dup(ends[0]);
    RLFileDescriptorInvalidate(first.file);
    reuse(ends[0], others[0]);
    add_descriptor(&second, ends[0], read_type);
    write_byte(ends[1]);
    expect_quiet(0.03);
    write_byte(others[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("2:r");
    close(duplicate);
}

/* Memory */

RL_TEST(what_an_object_takes, "S-FD-13", "The object is a block of at most 40 bytes, its source one of at most 104, as a source of the client's is") {
    RLFileDescriptorRef file = RLFileDescriptorCreate(make_eventfd(), true, never, NULL);
    RLSourceRef source = RLFileDescriptorCreateRunLoopSource(file, 0);
    RLSourceContext context = {.version = 0};
    RLSourceRef plain = RLSourceCreate(0, &context);
    ck_assert_uint_le(malloc_usable_size(file), 40);
    ck_assert_uint_le(malloc_usable_size(source), 104);
    ck_assert_uint_le(malloc_usable_size(plain), 104);
    RLRelease(plain);
    RLRelease(source);
    RLRelease(file);
}

/* Forks */

static Descriptor *forked;
static void run_in_child(void *argument) {
    (void)argument;
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    ck_assert_int_eq(forked->calls, 1);
    RLFileDescriptorInvalidate(forked->file);
}

RL_TEST(the_child_of_fork_has_its_own_sets, "S-FORK-1 S-FORK-2",
        "In the child of fork the object reports; what the child does is nothing to the parent, "
        "which reports as well") {
    static Descriptor d = {.name = "d"};
    int ends[2];
    make_pipe(ends);
    forked = &d;
    add_descriptor(&d, ends[0], read_type);
    expect_run(kRLDefaultMode, 0, true, TimedOut);
    write_byte(ends[1]);
    ChildResult child = run_child(run_in_child, NULL);
    ck_assert_msg(child.status == 0, "%s", child.output);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("d:r");
}

/* The library's own descriptors */

static bool is_library_descriptor(int fd, const char *kind) {
    char path[64], target[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0) return false;
    target[length] = 0;
    return strcmp(target, kind) == 0;
}

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

static int library_descriptors(const char *kind, int fds[8]) {
    int count = 0;
    for (int fd = 64; fd < 1024; fd++) {
        if (is_library_descriptor(fd, kind) && count < 8) fds[count++] = fd;
    }
    return count;
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
        expect_quiet(0.05);
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
    probe_timer(&late, date_in(0.2), 0);
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
    sleeper_calls++;
    RLStop(info);
}
static void sleep_until_called(LoopThread *self) {
    int ends[2];
    make_pipe(ends);
    add_descriptor(self->data, ends[0], read_type);
    expect_run(kRLDefaultMode, 1e6, false, Stopped);
}

RL_TEST(a_lost_set_whose_number_another_loop_gets, "S-FD-18 S-WAKE-1",
        "A loop that sleeps in a set whose number was closed is woken, and stays alone in its new set, though the next loop's set has got the number") {
    Descriptor descriptors[2] = {{.name = "a"}, {.name = "b"}};
    LoopThread threads[2];
    int fds[8], number;
    log_capture();
    loop_thread_start(&threads[0], sleep_until_called, &descriptors[0]);
    wait_until_waiting(threads[0].loop);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 1);
    number = fds[0];
    close(number);
    loop_thread_start(&threads[1], sleep_until_called, &descriptors[1]);
    wait_until_waiting(threads[1].loop);
    const int count = library_descriptors("anon_inode:[eventpoll]", fds);
    ck_assert(fds[0] == number || (count > 1 && fds[1] == number));
    for (int i = 0; i < 2; i++) {
        RLPerformFunction(threads[i].loop, kRLDefaultMode, stop_sleeper, threads[i].loop, NULL);
        RLWakeUp(threads[i].loop);
        thread_join(threads[i].thread);
        RLRelease(descriptors[i].file);
    }
    ck_assert_int_eq(sleeper_calls, 2);
    ck_assert_int_eq(log_count(), 1);
    ck_assert_int_eq(library_descriptors("anon_inode:[eventpoll]", fds), 0);
}

/* A loop whose set's number another loop's has got, in the callback in which that happens. */
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
    ck_assert_int_eq(fds[0], number);
    add_descriptor(&same, shared_ends[0], kRLFileDescriptorWriteCallBack);
    RLStop(loop);
}

RL_TEST(what_is_watched_without_a_number, "S-FD-18 S-FD-8",
        "What a loop watches before it notices that its set's number is another loop's changes nothing for that one") {
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
