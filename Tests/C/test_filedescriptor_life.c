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
    expect_quiet_run(0.05);
    write_byte(others[1]);
    expect_run(kRLDefaultMode, 60, true, HandledSource);
    expect_trace("other:r");
    RLFileDescriptorEnableCallBacks(d.file, read_type | write_type);
    expect_quiet_run(0.05);
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
        expect_quiet_run(0.03);
        RLFileDescriptorDisableCallBacks(old->file, read_type);
        RLFileDescriptorEnableCallBacks(old->file, read_type | write_type);
        expect_quiet_run(0.03);
        add_descriptor(new, ends[0], read_type);
        expect_run(kRLDefaultMode, 60, true, HandledSource);
        expect_trace("new:r");
        if (keeps_old) write_byte(ends[1]);
        expect_quiet_run(0.03);
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
    expect_quiet_run(0.03);
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
    expect_quiet_run(0.03);
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
