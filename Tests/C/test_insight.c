/* SPDX-License-Identifier: MIT */
/* Names, lists of items, and descriptions of loops. */
#define _GNU_SOURCE
#include "support.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void expect_name(RLTypeRef object, const char *expected) {
    char *name = RLCopyName(object);
    if (expected == NULL) {
        ck_assert_ptr_null(name);
    } else {
        ck_assert_pstr_eq(name, expected);
    }
    free(name);
}

static int times_in(const char *text, const char *part) {
    int count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + strlen(part), part)) count++;
    return count;
}

static void expect_part(const char *text, const char *part) {
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in: %s", part, text);
}

static void expect_no_part(const char *text, const char *part) {
    ck_assert_msg(strstr(text, part) == NULL, "\"%s\" is in: %s", part, text);
}

static void expect_described(RLTypeRef object, const char *part) {
    char *text = RLCopyDescription(object);
    expect_part(text, part);
    free(text);
}

static void ignore_event(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
}

static void ignore_descriptor(RLFileDescriptorRef descriptor, RLOptionFlags types, void *info) {
    (void)descriptor, (void)types, (void)info;
}

static void expect_port_names(void *rl) {
    char *text = RLCopyDescription(rl);
    for (char name[] = "\"a\\n\""; name[1] <= 'd'; name[1]++) expect_part(text, name);
    free(text);
}

static void nothing(void *info) { (void)info; }

/* Names */

RL_TEST(a_name_is_a_copy_that_can_be_changed, "S-SEE-1",
        "An object of each kind takes a name, another one, and none") {
    static Probe source, port, timer, observer;
    RLTypeRef objects[] = {RLGetCurrent(), probe_source(&source, 0), probe_port(&port, -1), probe_timer(&timer, 0, 0),
                           probe_observer(&observer, 0, true, 0), RLDataCreate("x", 1)};
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        char name[] = "first \xC3\xA4";
        expect_name(objects[i], NULL);
        RLSetName(objects[i], name);
        name[0] = 'x';
        expect_name(objects[i], "first \xC3\xA4");
        RLSetName(objects[i], "second");
        expect_name(objects[i], "second");
        expect_described(objects[i], "{name = \"second\", ");
        RLSetName(objects[i], "");
        expect_name(objects[i], "");
        RLSetName(objects[i], NULL);
        expect_name(objects[i], NULL);
        RLSetName(objects[i], NULL);
        if (i > 0) RLRelease(objects[i]);
    }
    RLSetName(NULL, "nobody");
    expect_name(NULL, NULL);
}

RL_TEST(a_named_object_works_as_before, "S-SEE-1 S-ARG-3",
        "Type, hash and equality of an object are the same with a name, and calls take it") {
    static Probe probe = {.name = "performed"};
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    RLTypeID type = RLGetTypeIDOf(source);
    RLHashCode hash = RLHash(source);
    RLSetName(source, "a name");
    RLSetName(RLGetCurrent(), "a loop");
    ck_assert_uint_eq(RLGetTypeIDOf(source), type);
    ck_assert_uint_eq(RLHash(source), hash);
    ck_assert(RLEqual(source, source));
    RLSourceSignal(source);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_trace("performed");
}

RL_TEST(a_thread_has_its_own_name_without_another, "S-SEE-1", "RLCopyName gives what RLThreadSetName set, until RLSetName sets another") {
    RLThreadRef thread = RLThreadCreate(NULL, NULL, NULL);
    expect_name(thread, NULL);
    RLThreadSetName(thread, "worker");
    expect_name(thread, "worker");
    RLSetName(thread, "other");
    expect_name(thread, "other");
    ck_assert_str_eq(RLThreadGetName(thread), "worker");
    RLSetName(thread, NULL);
    expect_name(thread, "worker");
    RLRelease(thread);
}

RL_TEST(a_name_ends_with_its_object, "S-SEE-2", "What is made in the memory of a named object has no name") {
    static Probe probe;
    uintptr_t seen[64];
    int again = 0;
    for (int i = 0; i < 64; i++) {
        RLSourceRef source = probe_source(&probe, 0);
        seen[i] = (uintptr_t)source;
        for (int j = 0; j < i; j++) again += seen[j] == seen[i];
        expect_name(source, NULL);
        RLSetName(source, "named");
        RLRelease(source);
    }
#if !defined(WITH_ADDRESS_SANITIZER) /* Its allocator gives no memory out again soon. */
    ck_assert_int_gt(again, 0);
#endif
}

static void name_loop(void *loops) {
    RLRunLoopRef loop = RLGetCurrent();
    RLRunLoopRef *last = loops;
    if (loop == *last) {
        expect_name(loop, NULL);
        trace("again");
    }
    *last = loop;
    RLSetName(loop, "a loop");
}

RL_TEST(a_loop_in_the_memory_of_a_named_one_has_no_name, "S-SEE-2", "The loop of a new thread has no name of a former loop's") {
    RLRunLoopRef last = NULL;
    for (int i = 0; i < 4; i++) thread_join(thread_start(name_loop, &last));
    ck_assert_int_gt(trace_count("again"), 0);
}

static void *name_on_and_on(void *object) {
    char name[32];
    for (int i = 0; i < 20000; i++) {
        snprintf(name, sizeof name, "name %d", i);
        RLSetName(object, i % 3 ? name : NULL);
    }
    return NULL;
}

RL_TEST(threads_name_one_object, "S-SEE-2 S-THR-1", "A copy that another thread makes meanwhile is a whole name or none") {
    static Probe probe;
    RLSourceRef source = probe_source(&probe, 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, name_on_and_on, source);
    for (int i = 0; i < 20000; i++) {
        char *name = RLCopyName(source);
        ck_assert(name == NULL || strncmp(name, "name ", 5) == 0);
        free(name);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    RLRelease(source);
}

static void expect_name_in_child(void *object) {
    expect_name(object, "kept");
    RLSetName(object, "changed");
    expect_name(object, "changed");
    expect_described(RLGetCurrent(), "\"changed\"");
    RLRelease(object);
}

RL_TEST(the_child_has_the_names, "S-SEE-2 S-FORK-1", "The child of fork finds and changes names; the parent keeps its own") {
    static Probe probe;
    RLSourceRef source = add_source(&probe, kRLDefaultMode);
    RLRetain(source);
    RLSetName(source, "kept");
    ck_assert_int_eq(run_child(expect_name_in_child, source).status, 0);
    expect_name(source, "kept");
}

RL_TEST(names_are_printable_and_cut_in_descriptions, "S-SEE-3 S-ARG-9", "No control character of a name gets into a description, and no more than 200 bytes") {
    static Probe probe;
    char name[1000];
    memset(name, 'n', sizeof name - 1);
    memcpy(name, "\x1b[2J\n", 5);
    name[sizeof name - 1] = '\0';
    RLSourceRef source = add_source(&probe, "mode \a\x1b");
    RLSetName(source, name);
    char *text = RLCopyDescription(RLGetCurrent());
    for (const char *at = text; *at; at++) ck_assert((unsigned char)*at >= 0x20 || *at == '\n');
    ck_assert_int_lt(times_in(text, "n"), 400);
    expect_part(text, "{name = \"\\^[[2J\\n");
    free(text);
    expect_name(source, name);
}

/* Lists */

static void expect_items(RLMode mode, RLItemKinds kinds, int expected, ...) {
    RLIndex count = -1;
    RLTypeRef *items = RLCopyItems(RLGetCurrent(), mode, kinds, &count);
    ck_assert_ptr_nonnull(items);
    ck_assert_int_eq(count, expected);
    ck_assert_ptr_null(items[count]);
    va_list arguments;
    va_start(arguments, expected);
    for (int i = 0; i < expected; i++) {
        RLTypeRef item = va_arg(arguments, RLTypeRef);
        int found = 0;
        for (RLIndex j = 0; j < count; j++) found += items[j] == item;
        ck_assert_int_eq(found, 1);
    }
    va_end(arguments);
    for (RLIndex i = 0; i < count; i++) RLRelease(items[i]);
    free(items);
}

static void list_in_callback(Probe *self) {
    expect_items(kRLDefaultMode, kRLItemTimers, 1, self->timer);
    if (self->value == 1) RLTimerInvalidate(self->timer);
    self->value++;
}

RL_TEST(items_are_listed_once, "S-SEE-4", "Each item of a mode is listed once for its kind; common items for the pseudo-mode") {
    static Probe source, port, timer, observer, common, every;
    RLSourceRef one = add_source(&source, kRLDefaultMode);
    RLSourceRef two = add_port(&port, -1, "other");
    RLTimerRef three = add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
    RLObserverRef four = add_observer(&observer, kRLAllActivities, kRLDefaultMode);
    RLObserverRef none = add_observer(&every, 0, kRLDefaultMode);
    RLTimerRef five = add_timer(&common, FAR_FUTURE, 1, kRLCommonModes);
    expect_items(kRLDefaultMode, kRLItemAll, 5, one, three, four, none, five);
    expect_items(kRLDefaultMode, kRLItemSources, 1, one);
    expect_items(kRLDefaultMode, kRLItemTimers, 2, three, five);
    expect_items(kRLDefaultMode, kRLItemObservers, 2, four, none);
    expect_items("other", kRLItemAll, 1, two);
    expect_items(kRLCommonModes, kRLItemAll, 1, five);
    expect_items("missing", kRLItemAll, 0);
    expect_items(NULL, kRLItemAll, 0);
    expect_items(kRLDefaultMode, 0, 0);
    char **modes = RLCopyAllModes(RLGetCurrent(), NULL);
    for (int i = 0; modes[i]; i++) ck_assert_str_ne(modes[i], "missing");
    free(modes);
    RLIndex count = -1;
    ck_assert_ptr_null(RLCopyItems(NULL, kRLDefaultMode, kRLItemAll, &count));
    ck_assert_int_eq(count, 0);
}

RL_TEST(a_timer_that_is_called_is_listed, "S-SEE-4", "A timer whose callback is on the stack is an item of its mode until it leaves it") {
    static Probe probe = {.action = list_in_callback};
    RLTimerRef timer = add_timer(&probe, 0, 0.001, kRLDefaultMode);
    RLRetain(timer);
    expect_run(kRLDefaultMode, 100, false, Finished);
    ck_assert_int_eq(probe.calls, 2);
    expect_items(kRLDefaultMode, kRLItemTimers, 0);
    RLRelease(timer);
}

RL_TEST(many_timers_are_listed_once, "S-SEE-4", "Timers of all distances, of the past and added after one fired are each listed once") {
    enum { COUNT = 3000 };
    static Probe probe;
    RLRunLoopRef loop = RLGetCurrent();
    static RLTimerRef timers[COUNT];
    for (int i = 0; i < COUNT; i++) {
        double distance = i % 5 == 0 ? -1 : 50 * (double)(i % 7 + 1) * (i + 1);
        timers[i] = probe_timer(&probe, date_in(distance), 1000);
        RLAddTimer(loop, timers[i], kRLDefaultMode);
        if (i == COUNT / 2) expect_run(kRLDefaultMode, 0, false, TimedOut);
    }
    RLIndex count;
    RLTypeRef *items = RLCopyItems(loop, kRLDefaultMode, kRLItemTimers, &count);
    ck_assert_int_eq(count, COUNT);
    for (int i = 0; i < COUNT; i++) RLTimerInvalidate(timers[i]), RLRelease(timers[i]);
    for (RLIndex i = 0; i < count; i++) {
        ck_assert(!RLTimerIsValid((RLTimerRef)items[i]));
        for (RLIndex j = 0; j < i && i < 100; j++) ck_assert_ptr_ne(items[i], items[j]);
        RLRelease(items[i]);
    }
    free(items);
}

static void change_items(LoopThread *self) {
    static Probe probe;
    while (!gate_is_open(self->data)) {
        RLTimerRef timer = probe_timer(&probe, FAR_FUTURE, 0);
        RLSourceRef source = probe_source(&probe, 0);
        RLAddTimer(self->loop, timer, kRLDefaultMode);
        RLAddSource(self->loop, source, kRLDefaultMode);
        RLSetName(timer, "a timer");
        RLRunInMode(kRLDefaultMode, 0, false);
        RLRelease(timer);
        RLSourceInvalidate(source);
        RLRelease(source);
        RLTimerInvalidate(timer);
    }
}

RL_TEST(another_thread_lists_and_dumps, "S-SEE-4 S-SEE-5 S-SEE-10 S-THR-1", "Lists and descriptions of a loop whose thread adds, runs and removes are whole") {
    static LoopThread other;
    static Gate end = GATE_INITIALIZER;
    int file = open("/dev/null", O_WRONLY);
    loop_thread_start(&other, change_items, &end);
    for (int i = 0; i < 2000; i++) {
        RLIndex count;
        RLTypeRef *items = RLCopyItems(other.loop, kRLDefaultMode, kRLItemAll, &count);
        for (RLIndex j = 0; j < count; j++) RLRelease(items[j]);
        free(items);
        free(RLCopyDescription(other.loop));
        if (i % 100 == 0) ck_assert(RLDump(NULL, file));
    }
    gate_open(&end);
    thread_join(other.thread);
    close(file);
}

/* Descriptions of loops */

static char *describe(const void *info) {
    trace("described");
    return strdup(info);
}

static void expect_callback(Probe *self) {
    char *text = RLCopyDescription(self->loop);
    expect_part(text, "current mode = \"kCFRunLoopDefaultMode\"");
    expect_part(text, "\n    calls <RLTimer ");
    free(text);
    if (self->value++ == 0) {
        RLRunInMode("nested", 0, false);
    }
}

static void expect_nesting(Probe *self) {
    expect_described(self->loop, "current mode = \"nested\" nested in \"kCFRunLoopDefaultMode\"");
}

RL_TEST(a_description_tells_what_the_loop_does, "S-SEE-5",
        "The thread, the current modes and the callbacks on the stack are in the description") {
    static Probe timer = {.action = expect_callback}, source = {.action = expect_nesting};
    RLRunLoopRef loop = RLGetCurrent();
    char thread[64];
    pthread_setname_np(pthread_self(), "odd\x1bname");
    snprintf(thread, sizeof thread, "thread = %d \"odd\\^[name\", current mode = (none), waiting = No", (int)gettid());
    expect_described(loop, thread);
    add_timer(&timer, 0, 0, kRLDefaultMode);
    add_source(&source, "nested");
    RLSourceSignal(source.source);
    expect_run(kRLDefaultMode, 100, false, Finished);
    ck_assert_int_eq(timer.calls, 1);
    ck_assert_int_eq(source.calls, 1);
}

static void wait_for_stop(LoopThread *self) {
    keep_alive(self->loop, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 1000, false);
}

RL_TEST(a_description_tells_how_a_loop_waits, "S-SEE-5", "Another thread sees a loop that sleeps, and in what, and that its thread has ended") {
    static LoopThread other;
    loop_thread_start(&other, wait_for_stop, NULL);
    RLRetain(other.loop);
    wait_until_waiting(other.loop);
    char *text;
    for (;; free(text)) {
        text = RLCopyDescription(other.loop);
        if (strstr(text, "waiting = Yes, asleep in a futex")) break;
        ck_assert(strstr(text, "current mode = \"kCFRunLoopDefaultMode\"") != NULL);
    }
    free(text);
    RLStop(other.loop);
    thread_join(other.thread);
    expect_described(other.loop, "thread = 0 (ended), current mode = (none), waiting = No");
    RLRelease(other.loop);
}

void callback_with_a_symbol(RLTimerRef timer, void *info) {
    (void)timer, (void)info;
}

RL_TEST(an_item_tells_what_it_is, "S-SEE-6",
        "A line has the name, the callback, the descriptor and what that is, and how soon a timer is due") {
    static Probe port;
    int ends[2];
    char part[64];
    make_pipe(ends);
    add_port(&port, ends[0], kRLDefaultMode);
    RLSetName(port.source, "reader");
    RLTimerRef timer = RLTimerCreate(date_in(1000.5), 2, 0, 3, callback_with_a_symbol, NULL);
    RLTimerSetTolerance(timer, 0.25);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    char *text = RLCopyDescription(RLGetCurrent());
    expect_part(text, "{name = \"reader\", version = 1, order = 0, valid = Yes, signalled = No, callback = ");
    snprintf(part, sizeof part, ", descriptor = %d (pipe:[", ends[0]);
    expect_part(text, part);
    expect_part(text, " (in 1000.");
    expect_part(text, ", interval = 2.000000, tolerance = 0.250000, order = 3, valid = Yes, callback = ");
    /* By its symbol, or its place in the file. */
    ck_assert(strstr(text, "callback_with_a_symbol") != NULL || strstr(text, "c-insight+0x") != NULL);
    free(text);
    RLTimerInvalidate(timer);
    RLRelease(timer);
    timer = RLTimerCreate(date_in(10), 0, 0, 0, (RLTimerCallBack)(void *)RLGetVersion, NULL);
    expect_described(timer, ", callback = RLGetVersion,");
    RLTimerInvalidate(timer);
    expect_described(timer, ", callback = RLGetVersion,");
    RLRelease(timer);
}

static void describe_elsewhere(void *rl) {
    char *text = RLCopyDescription(rl);
    expect_part(text, ", callback = RLClockGetTime,");
    free(text);
}

RL_TEST(a_delayed_request_tells_its_function, "S-SEE-6 S-PERF-16", "The line of a delayed request has the function that was requested, on any thread; without the request it is gone") {
    RLPerformAfterDelay(kRLDefaultMode, 1000, NULL, (void (*)(void *))(void *)RLClockGetTime, NULL, NULL);
    describe_elsewhere((void *)RLGetCurrent());
    thread_join(thread_start(describe_elsewhere, (void *)RLGetCurrent()));
    RLCancelPerformAfterDelay(NULL, NULL, NULL, NULL);
    char *text = RLCopyDescription(RLGetCurrent());
    ck_assert_ptr_null(strstr(text, "RLClockGetTime"));
    free(text);
}

/* The sentence, and whether it agrees with RLIsModeEmpty. */
static void expect_reason(RLMode mode, const char *reason) {
    char *text = RLCopyDescription(RLGetCurrent());
    char label[64];
    snprintf(label, sizeof label, "\n    mode \"%s\"", mode);
    char *section = strstr(text, label);
    ck_assert_ptr_nonnull(section);
    char *end = strstr(section + 1, "\n    mode ");
    if (end) *end = '\0';
    expect_part(section, reason);
    bool is_empty = strstr(section, "nothing keeps this mode from being finished") != NULL;
    ck_assert_int_eq(is_empty, RLIsModeEmpty(mode));
    free(text);
}

static void look_inside(void *mode) {
    expect_reason(mode, "kept from being finished by 1 source\n");
    RLPerformFunction(RLGetCurrent(), mode, nothing, NULL, NULL);
    expect_reason(mode, "kept from being finished by 1 source, 1 queued function\n");
}

RL_TEST(a_source_has_its_port_s_name, "S-SEE-6", "A description shows the names of ports, sockets and descriptors at their sources, on any thread, until the source is invalid") {
    int ends[2], pair[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    RLMachPortRef mach = RLMachPortCreate(NULL, NULL, NULL);
    RLMessagePortRef message = RLMessagePortCreateLocal(NULL, NULL, NULL, NULL);
    RLSocketRef socket = RLSocketCreateWithNative(pair[0], kRLSocketNoCallBack, NULL, NULL);
    RLFileDescriptorRef descriptor = RLFileDescriptorCreate(ends[0], true, ignore_descriptor, NULL);
    RLTypeRef objects[] = {mach, message, socket, descriptor};
    RLSourceRef sources[] = {RLMachPortCreateRunLoopSource(mach, 0), RLMessagePortCreateRunLoopSource(message, 0),
                             RLSocketCreateRunLoopSource(socket, 0), RLFileDescriptorCreateRunLoopSource(descriptor, 0)};
    for (int i = 0; i < 4; i++) {
        char name[] = {(char)('a' + i), '\n', '\0'}, expected[] = "\"a\\n\"";
        expected[1] = name[0];
        RLAddSource(RLGetCurrent(), sources[i], kRLDefaultMode);
        RLSetName(objects[i], name);
        RLSetName(sources[i], "its source");
        expect_described(sources[i], expected);
        expect_described(sources[i], "its source");
        expect_described(RLGetCurrent(), expected);
    }
    thread_join(thread_start(expect_port_names, (void *)RLGetCurrent()));
    for (int i = 0; i < 4; i++) {
        RLSourceInvalidate(sources[i]);
        RLRelease(objects[i]);
        char *text = RLCopyDescription(sources[i]);
        expect_no_part(text, "\\n");
        free(text);
        RLRelease(sources[i]);
    }
}

RL_TEST(a_mode_tells_what_keeps_it_from_being_finished, "S-SEE-7",
        "Sources, timers, functions and requests are counted in the sentence, observers are not, and it agrees with RLIsModeEmpty") {
    static Probe source, timer, observer;
    RLRunLoopRef loop = RLGetCurrent();
    expect_reason(kRLDefaultMode, "nothing keeps this mode from being finished");
    add_observer(&observer, kRLExit, kRLDefaultMode);
    expect_reason(kRLDefaultMode, "nothing keeps this mode from being finished");
    add_source(&source, kRLDefaultMode);
    expect_reason(kRLDefaultMode, "kept from being finished by 1 source");
    add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
    expect_reason(kRLDefaultMode, "kept from being finished by 1 source, 1 timer");
    RLPerformFunction(loop, kRLDefaultMode, nothing, &source, NULL);
    RLPerformFunction(loop, kRLCommonModes, nothing, &source, NULL);
    RLPerformFunction(loop, "other", nothing, &source, NULL);
    RLPerformInOrder(loop, (RLMode[]){kRLDefaultMode}, 1, 0, NULL, nothing, NULL, NULL);
    expect_reason(kRLDefaultMode, "kept from being finished by 1 source, 1 timer, 3 queued functions");
    expect_reason("other", "kept from being finished by 1 queued function");
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    expect_reason(kRLDefaultMode, "kept from being finished by 1 source, 1 timer");
    expect_reason("other", "kept from being finished by 1 queued function");
    RLTimerInvalidate(timer.timer);
    /* In a round the functions of this one do not count, those that were queued in it do. */
    RLPerformFunction(loop, kRLDefaultMode, look_inside, (void *)kRLDefaultMode, NULL);
    RLPerformFunction(loop, kRLDefaultMode, nothing, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
}

RL_TEST(many_modes_are_counted, "S-SEE-8", "Of 1001 modes 32 are shown") {
    static Probe probe;
    for (int i = 0; i < 1000; i++) {
        char mode[16];
        snprintf(mode, sizeof mode, "mode %d", i);
        add_observer(&probe, kRLExit, mode);
    }
    char *text = RLCopyDescription(RLGetCurrent());
    ck_assert_int_eq(times_in(text, "\n    mode "), 32);
    expect_part(text, "\n    and 969 more modes");
    free(text);
}

RL_TEST(many_items_of_a_mode, "S-SEE-8", "A mode with 1000 items of a kind shows 32 of each") {
    enum { COUNT = 1000 };
    static Probe probes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        add_timer(&probes[i], FAR_FUTURE, 0, kRLDefaultMode);
        add_source(&probes[i], kRLDefaultMode);
        add_observer(&probes[i], kRLExit, kRLDefaultMode);
        RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, NULL);
    }
    char *text = RLCopyDescription(RLGetCurrent());
    ck_assert_int_eq(times_in(text, "<RLTimer "), 32);
    ck_assert_int_eq(times_in(text, "<RLSource "), 32);
    ck_assert_int_eq(times_in(text, "<RLObserver "), 32);
    ck_assert_int_eq(times_in(text, "\n        function "), 32);
    ck_assert_int_eq(times_in(text, "\n        and 968 more"), 4);
    expect_part(text, "kept from being finished by 1000 sources, 1000 timers, 1000 queued functions");
    free(text);
}

static void describe_other(void *loop) {
    char *text = RLCopyDescription(loop);
    expect_part(text, "<RLSource ");
    expect_no_part(text, "words of the client");
    expect_part(text, "functions were posted that it has not looked at");
    free(text);
}

RL_TEST(only_the_loop_s_thread_calls_the_client, "S-SEE-9",
        "copyDescription of an item is called for a description by the loop's own thread, and by no other") {
    RLSourceContext context = {.info = "words of the client", .copyDescription = describe};
    RLSourceRef source = RLSourceCreate(0, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    expect_described(RLGetCurrent(), "info = words of the client");
    expect_trace("described");
    RLPerformFunction(RLGetCurrent(), "other", nothing, NULL, NULL);
    thread_join(thread_start(describe_other, RLGetCurrent()));
    expect_trace("");
    RLRelease(source);
}

/* RLDump */

static char *read_all(int file) {
    size_t size = 0, room = 1 << 16;
    char *text = malloc(room + 1);
    for (ssize_t count; (count = read(file, text + size, room - size)) > 0;) {
        size += (size_t)count;
        if (size == room) text = realloc(text, (room *= 2) + 1);
    }
    text[size] = '\0';
    return text;
}

static char *dumped;
static void *read_dump(void *file) {
    dumped = read_all(*(int *)file);
    return NULL;
}

RL_TEST(a_dump_is_the_description_and_a_newline, "S-SEE-10", "RLDump writes what RLCopyDescription gives, also through a small pipe that does not block") {
    static Probe probes[200];
    int ends[2];
    make_pipe(ends);
    for (int i = 0; i < 200; i++) {
        Probe *probe = &probes[i];
        add_observer(probe, kRLAllActivities, kRLDefaultMode);
        add_source(probe, kRLDefaultMode);
        char *name = malloc(201);
        memset(name, 'n', 200);
        name[200] = '\0';
        RLSetName(probe->source, name);
        RLSetName(probe->observer, name);
        free(name);
    }
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    pthread_t reader;
    pthread_create(&reader, NULL, read_dump, &ends[0]);
    ck_assert(RLDump(RLGetCurrent(), ends[1]));
    ck_assert(fcntl(ends[1], F_GETFL) & O_NONBLOCK);
    close(ends[1]);
    pthread_join(reader, NULL);
    char *text = RLCopyDescription(RLGetCurrent());
    ck_assert_uint_gt(strlen(text), 8192);
    ck_assert_uint_eq(strlen(dumped), strlen(text) + 1);
    ck_assert_int_eq(strncmp(dumped, text, strlen(text)), 0);
    free(text);
}

RL_TEST(all_loops_are_dumped, "S-SEE-10", "Without a loop those of all living threads are written, and those of ended ones are not") {
    static LoopThread one, two, ended;
    static Gate end = GATE_INITIALIZER;
    int ends[2];
    loop_thread_start(&ended, change_items, &end);
    RLRetain(ended.loop);
    RLSetName(ended.loop, "loop of an ended thread");
    gate_open(&end);
    thread_join(ended.thread);
    loop_thread_start(&one, wait_for_stop, NULL);
    loop_thread_start(&two, wait_for_stop, NULL);
    RLSetName(one.loop, "loop one");
    RLSetName(two.loop, "loop two");
    wait_until_waiting(one.loop);
    wait_until_waiting(two.loop);
    make_pipe(ends);
    pthread_t reader;
    pthread_create(&reader, NULL, read_dump, &ends[0]);
    ck_assert(RLDump(NULL, ends[1]));
    close(ends[1]);
    pthread_join(reader, NULL);
    ck_assert_int_eq(times_in(dumped, "{name = \"loop one\""), 1);
    ck_assert_int_eq(times_in(dumped, "{name = \"loop two\""), 1);
    expect_no_part(dumped, "loop of an ended thread");
    RLStop(one.loop);
    RLStop(two.loop);
    thread_join(one.thread);
    thread_join(two.thread);
    RLRelease(ended.loop);
}

static void dump_to_nobody(void *unused) {
    (void)unused;
    int ends[2];
    struct rlimit none = {0, RLIM_INFINITY};
    if (pipe(ends) != 0) _exit(2);
    close(ends[0]);
    signal(SIGPIPE, SIG_DFL);
    if (RLDump(RLGetCurrent(), ends[1])) _exit(3);
    FILE *file = tmpfile();
    setrlimit(RLIMIT_FSIZE, &none);
    if (RLDump(RLGetCurrent(), fileno(file))) _exit(4);
    if (RLDump(RLGetCurrent(), -1)) _exit(5);
}

RL_TEST(no_dump_ends_the_program, "S-SEE-10", "A dump to a pipe without a reader, a file at the limit of sizes, or no file returns false") {
    ck_assert_int_eq(run_child(dump_to_nobody, NULL).status, 0);
}

static void dump_on_signal(RLSourceRef source, const RLKernelEvent *event, void *info) {
    ignore_event(source, event, info);
    ck_assert(RLDump(NULL, *(int *)info));
    RLStop(RLGetCurrent());
}

RL_TEST(a_signal_makes_a_dump, "S-SEE-10", "A kernel event source for SIGUSR1 dumps the loops of the process") {
    int ends[2];
    make_pipe(ends);
    RLKernelEvent event = {.ident = SIGUSR1, .filter = kRLKernelFilterSignal};
    RLKernelEventContext context = {.info = &ends[1]};
    RLSourceRef source = RLKernelEventSourceCreate(&event, dump_on_signal, &context);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    kill(getpid(), SIGUSR1);
    pthread_t reader;
    pthread_create(&reader, NULL, read_dump, &ends[0]);
    expect_run(kRLDefaultMode, 100, false, Stopped);
    close(ends[1]);
    pthread_join(reader, NULL);
    expect_part(dumped, "kept from being finished by 1 source");
    RLRelease(source);
}
