/* SPDX-License-Identifier: MIT */
/* The trace: what is recorded, where, and what becomes of the file. */
#define _GNU_SOURCE
#include "support.h"
#include "trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A folder for this case, which its process removes at the end. */
static char folder[64], path[128];

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) fprintf(stderr, "%s is left\n", folder);
}

static const char *trace_path(void) {
    snprintf(folder, sizeof folder, "/tmp/rl-trace.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/t", folder);
    return path;
}

static TraceFile stop_and_read(void) {
    RLTraceStop();
    TraceFile file = trace_file_read(path);
    ck_assert_int_gt(file.header.end_time, file.header.start_time);
    return file;
}

static bool exists(const char *name) {
    struct stat status;
    return stat(name, &status) == 0;
}

static int entries_in_folder(void) {
    char command[128], text[16] = "";
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *output = popen(command, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, output));
    pclose(output);
    return atoi(text);
}

static void nothing(void *info) { (void)info; }

/* Starting and stopping */

RL_TEST(a_trace_is_started_and_stopped, "S-TRC-1", "A trace is on from its start to its stop, and there is one at a time") {
    ck_assert(!RLIsTracing());
    ck_assert(!RLTraceStart(NULL, 0));
    RLTraceStop();
    ck_assert(RLTraceStart(trace_path(), 0));
    ck_assert(RLIsTracing());
    log_capture();
    ck_assert(!RLTraceStart(path, 0));
    ck_assert_int_eq(log_count(), 1);
    TraceFile file = stop_and_read();
    ck_assert(!RLIsTracing());
    ck_assert_uint_eq(file.header.process, (uint32_t)getpid());
    ck_assert_uint_eq(file.header.ring_count, 16);
    trace_file_free(&file);
    remove_folder();
}

RL_TEST(nothing_is_recorded_before_and_after, "S-TRC-1", "What is done before the start and after the stop is in no trace") {
    RLRunLoopRef loop = RLGetCurrent();
    RLPerformFunction(loop, kRLDefaultMode, nothing, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    for (int i = 0; i < 3; i++) {
        ck_assert(RLTraceStart(i == 0 ? trace_path() : path, i + 1));
        TraceFile file = stop_and_read();
        ck_assert_ptr_null(trace_ring_of(&file, loop));
        ck_assert_uint_eq(file.header.ring_count, (uint32_t)i + 1);
        trace_file_free(&file);
        RLPerformFunction(loop, kRLDefaultMode, nothing, NULL, NULL);
        expect_run(kRLDefaultMode, 0, false, TimedOut);
    }
    /* The mapping of the former trace of that size is used again. */
    ck_assert(RLTraceStart(path, 3));
    RLPerformFunction(loop, kRLDefaultMode, nothing, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    TraceFile file = stop_and_read();
    ck_assert_int_eq(trace_count_records(&file, loop, CALL_BEGIN, FUNCTION, NULL), 1);
    trace_file_free(&file);
    remove_folder();
}

/* What is recorded */

/* The first wait lasts until another thread sees it, and the second ends the run. */
static Thread *sleep_ender;
static void sleep_once(Probe *self) {
    if (self->calls > 1) RLStop(RLGetCurrent());
    else sleep_ender = when_waiting(RLGetCurrent(), call_wake_up, RLGetCurrent());
}

RL_TEST(a_loop_records_what_it_does, "S-TRC-3", "Runs, passes, sleeps and callbacks are recorded in their order, each callback with its function") {
    static Probe source, timer, observer = {.action = sleep_once}, port;
    RLRunLoopRef loop = RLGetCurrent();
    int fd = make_eventfd();
    RLSourceRef s = add_source(&source, kRLDefaultMode), p = add_port(&port, fd, kRLDefaultMode);
    eventfd_signal(fd);
    ck_assert(RLTraceStart(trace_path(), 0));
    RLTimerRef t = add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    RLObserverRef o = add_observer(&observer, kRLBeforeWaiting, kRLDefaultMode);
    RLRetain(t);
    RLSourceSignal(s);
    RLPerformFunction(loop, kRLDefaultMode, nothing, &source, NULL);
    RLPerformOnLoop(loop, kRLDefaultMode, nothing, &timer, NULL, false);
    expect_run(kRLDefaultMode, 1000, false, Stopped);
    thread_join(sleep_ender);
    TraceFile file = stop_and_read();

    ck_assert_int_eq(trace_count_records(&file, loop, RUN_BEGIN, -1, NULL), 1);
    ck_assert_int_eq(trace_count_records(&file, loop, RUN_END, -1, NULL), 1);
    ck_assert_int_ge(trace_count_records(&file, loop, PASS, -1, NULL), 3);
    ck_assert_int_ge(trace_count_records(&file, loop, SLEEP_BEGIN, -1, NULL), 1);
    ck_assert_int_eq(trace_count_records(&file, loop, SLEEP_BEGIN, -1, NULL), trace_count_records(&file, loop, SLEEP_END, -1, NULL));
    const struct { int kind; const void *item; } called[] = {
        {SOURCE, s}, {PORT_SOURCE, p}, {TIMER, t}, {FUNCTION, &source}, {FUNCTION, &timer}};
    for (size_t i = 0; i < sizeof called / sizeof *called; i++) {
        ck_assert_int_ge(trace_count_records(&file, loop, CALL_BEGIN, called[i].kind, called[i].item), 1);
        ck_assert_int_eq(trace_count_records(&file, loop, CALL_BEGIN, called[i].kind, called[i].item),
                         trace_count_records(&file, loop, CALL_END, called[i].kind, called[i].item));
    }
    ck_assert_int_ge(trace_count_records(&file, loop, CALL_BEGIN, OBSERVER, o), 1);

    const RingHeader *ring = trace_ring_of(&file, loop);
    ck_assert_uint_eq(ring->thread, (uint32_t)gettid());
    uint64_t before = file.header.start_stamp;
    int depth = 0, late = 0;
    for (uint64_t i = 0; i < ring->head; i++) {
        const RingRecord *record = trace_record(&file, ring, i);
        ck_assert_uint_ge(record->stamp, before);
        before = record->stamp;
        if (record->kind == CALL_BEGIN || record->kind == RUN_BEGIN) depth++;
        if (record->kind == CALL_END || record->kind == RUN_END) depth--;
        ck_assert_int_ge(depth, 0);
        if (record->kind == CALL_BEGIN && record->detail == FUNCTION) ck_assert_uint_eq(record->info, (uint64_t)(uintptr_t)nothing);
        if (record->kind == CALL_BEGIN && record->detail == TIMER) late = (int)record->extra;
    }
    ck_assert_int_eq(depth, 0);
    /* A past date means now; the run came somewhat later. */
    ck_assert_int_ge(late, 0);
    ck_assert_uint_ge(file.header.end_stamp, before);
    trace_file_free(&file);
    RLRelease(t);
    remove_folder();
}

static void run_inside(Probe *self) {
    (void)self;
    expect_run("inner", 0, false, TimedOut);
}

RL_TEST(nested_runs_are_inside_their_callbacks, "S-TRC-3", "A run in a callback is recorded between that callback's records") {
    static Probe outer = {.action = run_inside}, inner;
    add_source(&outer, kRLDefaultMode);
    add_source(&inner, "inner");
    RLSourceSignal(outer.source);
    RLSourceSignal(inner.source);
    ck_assert(RLTraceStart(trace_path(), 0));
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    TraceFile file = stop_and_read();
    const RingHeader *ring = trace_ring_of(&file, RLGetCurrent());
    static const int expected[] = {RUN_BEGIN, CALL_BEGIN, RUN_BEGIN, CALL_BEGIN, CALL_END, RUN_END, CALL_END, RUN_END};
    size_t at = 0;
    for (uint64_t i = 0; i < ring->head; i++) {
        int kind = trace_record(&file, ring, i)->kind;
        if (kind == PASS) continue;
        ck_assert_uint_lt(at, sizeof expected / sizeof *expected);
        ck_assert_int_eq(kind, expected[at++]);
    }
    ck_assert_uint_eq(at, sizeof expected / sizeof *expected);
    ck_assert(trace_has_name(&file, MODE_NAME, NULL, "inner"));
    trace_file_free(&file);
    remove_folder();
}

static pid_t waker;

static void call_everything(void *probe) {
    Probe *self = probe;
    waker = gettid();
    RLPerformFunction(self->loop, kRLDefaultMode, nothing, self, NULL);
    RLSourceSignal(self->source);
    RLWakeUp(self->loop);
    RLStop(self->loop);
}

#if !defined(WITH_THREAD_SANITIZER)
static bool is_of_this_program(uint64_t address) {
    extern char __executable_start, etext;
    return address >= (uint64_t)(uintptr_t)&__executable_start && address < (uint64_t)(uintptr_t)&etext;
}
#endif

RL_TEST(what_others_do_is_recorded_with_its_caller, "S-TRC-4",
        "Functions, signals, wake-ups and stops of another thread are recorded with that thread and where it called") {
    static Probe source;
    add_source(&source, kRLDefaultMode);
    ck_assert(RLTraceStart(trace_path(), 0));
    Thread *thread = when_waiting(RLGetCurrent(), call_everything, &source);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    thread_join(thread);
    TraceFile file = stop_and_read();
    const struct { int kind; const void *item; } told[] = {
        {POST, &source}, {SIGNALLED, source.source}, {WOKEN, NULL}, {STOPPED, NULL}};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        const SharedRecord *record = trace_find_shared(&file, told[i].kind, told[i].item);
        ck_assert_msg(record != NULL, "no record of kind %d", told[i].kind);
        ck_assert_uint_eq(record->thread, (uint32_t)waker);
        ck_assert_uint_eq(record->loop, (uint64_t)(uintptr_t)RLGetCurrent());
#if !defined(WITH_THREAD_SANITIZER)
        /* With it the exports are not inlined into their C functions, and the caller is the library. */
        ck_assert(is_of_this_program(record->caller));
#endif
    }
    ck_assert_uint_eq(trace_find_shared(&file, POST, &source)->info, (uint64_t)(uintptr_t)nothing);
    trace_file_free(&file);
    remove_folder();
}

static RLSourceRef handled_source;
static void signal_in_handler(int number) {
    (void)number;
    RLSourceSignal(handled_source);
}

RL_TEST(a_signal_handler_records, "S-TRC-4 S-WAKE-12", "What a signal handler does is recorded, and errno stays as it was") {
    static Probe source;
    handled_source = add_source(&source, kRLDefaultMode);
    signal(SIGUSR1, signal_in_handler);
    ck_assert(RLTraceStart(trace_path(), 0));
    errno = 77;
    raise(SIGUSR1);
    ck_assert_int_eq(errno, 77);
    TraceFile file = stop_and_read();
    ck_assert_ptr_nonnull(trace_find_shared(&file, SIGNALLED, handled_source));
    trace_file_free(&file);
    remove_folder();
}

RL_TEST(the_last_records_stay, "S-TRC-2", "A full ring has the newest records, and none is torn") {
    static Probe source;
    add_source(&source, kRLDefaultMode);
    ck_assert(RLTraceStart(trace_path(), 1));
    for (int i = 0; i < 20000; i++) {
        RLSourceSignal(source.source);
        RLRunInMode(kRLDefaultMode, 0, true);
    }
    TraceFile file = stop_and_read();
    const RingHeader *ring = trace_ring_of(&file, RLGetCurrent());
    ck_assert_uint_gt(ring->head, file.header.ring_records);
    ck_assert_uint_gt(ring->clock_stamp, file.header.start_stamp);
    ck_assert_int_gt(ring->clock_time, file.header.start_time);
    uint64_t before = 0;
    for (uint64_t i = ring->head - file.header.ring_records; i < ring->head; i++) {
        ck_assert_uint_ge(trace_record(&file, ring, i)->stamp, before);
        before = trace_record(&file, ring, i)->stamp;
        ck_assert_int_ne(trace_record(&file, ring, i)->kind, 0);
    }
    trace_file_free(&file);
    remove_folder();
}

static RLRunLoopRef last_loop;
static void run_once(void *unused) {
    (void)unused;
    last_loop = RLGetCurrent();
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
}

RL_TEST(loops_without_a_ring_are_counted, "S-TRC-2", "A loop for which there is no ring is counted once; one that comes after another's end has its ring") {
    ck_assert(RLTraceStart(trace_path(), 1));
    for (int i = 0; i < 3; i++) thread_join(thread_start(run_once, NULL));
    run_once(NULL);
    RLRunLoopRef own = RLGetCurrent();
    thread_join(thread_start(run_once, NULL));
    TraceFile file = stop_and_read();
    ck_assert_ptr_nonnull(trace_ring_of(&file, own));
    ck_assert_uint_eq(trace_ring(&file, 0)->thread, (uint32_t)gettid());
    ck_assert_uint_eq(file.header.lost_loops, 1);
    trace_file_free(&file);
    remove_folder();
}

RL_TEST(names_are_in_the_file, "S-TRC-5", "Names that objects had or get, modes, threads and files of the program are in the trace") {
    static Probe source, timer;
    RLSourceRef s = add_source(&source, "before");
    RLTimerRef t = add_timer(&timer, FAR_FUTURE, 0, kRLDefaultMode);
    RLSetName(s, "first");
    pthread_setname_np(pthread_self(), "painter");
    ck_assert(RLTraceStart(trace_path(), 0));
    RLSetName(t, "second");
    expect_run("before", 0, false, TimedOut);
    RLAddCommonMode(RLGetCurrent(), "after");
    TraceFile file = stop_and_read();
    ck_assert(trace_has_name(&file, OBJECT_NAME, s, "first"));
    ck_assert(trace_has_name(&file, OBJECT_NAME, t, "second"));
    ck_assert(trace_has_name(&file, MODE_NAME, NULL, "before"));
    ck_assert(trace_has_name(&file, MODE_NAME, NULL, "after"));
    ck_assert(trace_has_name(&file, THREAD_NAME, RLGetCurrent(), "painter"));
    char program[4096] = "";
    ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof program - 1), 0);
    ck_assert(trace_has_name(&file, FILE_NAME, NULL, program));
    trace_file_free(&file);
    remove_folder();
}

static RLDataRef answer(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)info;
    RLStop(RLGetCurrent());
    return RLRetain(data);
}

RL_TEST(a_message_has_one_number_on_both_sides, "S-TRC-8", "A message is recorded where it is sent and where it is received, with the same flow") {
    char name[64];
    snprintf(name, sizeof name, "rl-trace-%d", (int)getpid());
    RLMessagePortContext context = {0};
    RLMessagePortRef local = RLMessagePortCreateLocal(name, answer, &context, NULL);
    ck_assert_ptr_nonnull(local);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(local, 0);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLRelease(source);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    ck_assert(RLTraceStart(trace_path(), 0));
    ck_assert_int_eq(RLMessagePortSendRequest(remote, 7, "abc", 3, 1, 0, NULL, NULL), kRLMessagePortSuccess);
    expect_run(kRLDefaultMode, 60, false, Stopped);
    TraceFile file = stop_and_read();
    const SharedRecord *sent = trace_find_shared(&file, MESSAGE_SENT, remote), *came = trace_find_shared(&file, MESSAGE_RECEIVED, local);
    ck_assert_ptr_nonnull(sent);
    ck_assert_ptr_nonnull(came);
    ck_assert_uint_eq(sent->info, came->info);
    ck_assert_uint_eq(sent->extra, (uint64_t)7 << 32 | 3);
    ck_assert_uint_le(sent->stamp, came->stamp);
    ck_assert(trace_has_name(&file, PORT_NAME, local, name));
    trace_file_free(&file);
    RLMessagePortInvalidate(local);
    RLRelease(local);
    RLRelease(remote);
    remove_folder();
}

/* The file */

static void be_killed(void *unused) {
    (void)unused;
    ck_assert(RLTraceStart(path, 0));
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    raise(SIGKILL);
}

RL_TEST(a_killed_process_leaves_its_trace, "S-TRC-6", "The trace of a process that was killed has everything up to then") {
    trace_path();
    RLGetCurrent();
    ChildResult result = run_child(be_killed, NULL);
    ck_assert(WIFSIGNALED(result.status));
    TraceFile file = trace_file_read(path);
    ck_assert_int_eq(file.header.end_time, 0);
    ck_assert_int_eq(trace_count_records(&file, RLGetCurrent(), CALL_END, FUNCTION, NULL), 1);
    ck_assert_int_eq(trace_count_records(&file, RLGetCurrent(), RUN_END, -1, NULL), 1);
    trace_file_free(&file);
    /* Its file may be replaced. */
    ck_assert(RLTraceStart(path, 0));
    RLTraceStop();
    ck_assert_int_eq(entries_in_folder(), 1);
    remove_folder();
}

RL_TEST(the_owner_alone_reads_a_trace, "S-TRC-6", "The file is for its owner, and there is nothing else in its folder") {
    ck_assert(RLTraceStart(trace_path(), 0));
    struct stat status;
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    ck_assert_int_eq(entries_in_folder(), 1);
    /* All of it has room. */
    ck_assert_int_ge(status.st_blocks * 512, status.st_size);
    RLTraceStop();
    remove_folder();
}

static void start_without_room(void *unused) {
    (void)unused;
    struct rlimit limit = {1 << 20, 1 << 20};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    log_capture();
    ck_assert(!RLTraceStart(path, 0));
    ck_assert(!RLIsTracing());
    ck_assert_int_eq(log_count(), 1);
}

RL_TEST(without_room_there_is_no_trace, "S-TRC-7", "A file that would be too long ends the start with one line, no signal and no file") {
    trace_path();
    ChildResult result = run_child(start_without_room, NULL);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, "%x %s", result.status, result.output);
    ck_assert_int_eq(entries_in_folder(), 0);
    remove_folder();
}

RL_TEST(a_full_disk_ends_the_start, "S-TRC-7", "On a file system without room the start fails, and all goes on") {
    trace_path();
    if (mount("none", folder, "tmpfs", 0, "size=4m") != 0) return remove_folder();
    log_capture();
    bool started = RLTraceStart(path, 16);
    int entries = entries_in_folder(), lines = log_count();
    bool small = RLTraceStart(path, 1);
    umount2(folder, MNT_DETACH);
    ck_assert(!started);
    ck_assert_int_eq(lines, 1);
    ck_assert_int_eq(entries, 0);
    ck_assert(small);
    run_once(NULL);
    RLTraceStop();
    remove_folder();
}

static void write_text(const char *text) {
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static void expect_refused(const char *given) {
    int before = log_count();
    ck_assert(!RLTraceStart(given, 0));
    ck_assert_int_eq(log_count(), before + 1);
}

RL_TEST(other_files_are_left_alone, "S-TRC-6", "What is no trace is not replaced; an empty file and a former trace are") {
    log_capture();
    trace_path();
    write_text("a thesis of some length, which is longer than the header of a trace is: .................................."
               "..............................................................................................");
    expect_refused(path);
    write_text("short");
    expect_refused(path);
    char text[16] = "";
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, file));
    fclose(file);
    ck_assert_str_eq(text, "short");
    ck_assert_int_eq(entries_in_folder(), 1);
    expect_refused("/nowhere/at/all");
    expect_refused(folder);
    expect_refused("");
    unlink(path);
    ck_assert_int_eq(symlink("/etc/passwd", path), 0);
    expect_refused(path);
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    expect_refused(path);
    unlink(path);
    char *longest = calloc(1, 6000);
    memset(longest, '%', 5999);
    expect_refused(longest);
    free(longest);
    write_text("");
    for (int i = 0; i < 2; i++) {
        ck_assert(RLTraceStart(path, 0));
        TraceFile found = stop_and_read();
        trace_file_free(&found);
    }
    ck_assert_int_eq(entries_in_folder(), 1);
    remove_folder();
}

static void start_beside(void *other) {
    ck_assert(RLTraceStart(path, 0));
    snprintf(other, 160, "%s.%d", path, (int)getpid());
    ck_assert(exists(other));
    RLTraceStop();
    TraceFile file = trace_file_read(other);
    ck_assert_uint_eq(file.header.process, (uint32_t)getpid());
    trace_file_free(&file);
    snprintf(other, 160, "%s-%%p", path);
    ck_assert(RLTraceStart(other, 0));
    snprintf(other, 160, "%s-%d", path, (int)getpid());
    ck_assert(exists(other));
}

RL_TEST(two_processes_have_two_files, "S-TRC-6 S-TRC-9",
        "A process does not replace the trace of a living one, and writes its number where the path has %p") {
    static char other[160];
    ck_assert(RLTraceStart(trace_path(), 0));
    ChildResult result = run_child(start_beside, other);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, "%s", result.output);
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, NULL);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    TraceFile file = stop_and_read();
    ck_assert_uint_eq(file.header.process, (uint32_t)getpid());
    ck_assert_int_eq(trace_count_records(&file, RLGetCurrent(), CALL_BEGIN, FUNCTION, NULL), 1);
    trace_file_free(&file);
    remove_folder();
}

/* What is done before the library gives a file its name, once. */
static void (*before_rename)(void);
int rename(const char *from, const char *to) {
    void (*action)(void) = before_rename;
    before_rename = NULL;
    if (action) action();
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}
static pid_t rival;
static void start_rival(void) {
    int ends[2];
    char started = 0;
    make_pipe(ends);
    rival = fork();
    if (rival == 0) {
        started = RLTraceStart(path, 1);
        if (write(ends[1], &started, 1) == 1) pause();
        _exit(0);
    }
    ck_assert_int_eq(read(ends[0], &started, 1), 1);
    ck_assert(started);
    close(ends[0]);
    close(ends[1]);
}

RL_TEST(two_that_replace_a_trace_at_once, "S-TRC-6", "Of two processes that both find a former trace the second does not lose its file, nor take the first one's name") {
    char other[160];
    ck_assert(RLTraceStart(trace_path(), 0));
    RLTraceStop();
    before_rename = start_rival;
    ck_assert(RLTraceStart(path, 0));
    TraceFile file = stop_and_read();
    ck_assert_uint_eq(file.header.process, (uint32_t)getpid());
    trace_file_free(&file);
    snprintf(other, sizeof other, "%s.%d", path, (int)rival);
    ck_assert(exists(other));
    kill(rival, SIGKILL);
    waitpid(rival, NULL, 0);
    remove_folder();
}

/* What the library takes for the process's number; 0: the kernel's. */
static pid_t own_number;
pid_t getpid(void) { return own_number ? own_number : (pid_t)syscall(SYS_getpid); }

RL_TEST(processes_of_one_number, "S-TRC-6", "Living processes that have one number, in different pid namespaces, do not replace each other's traces; once one is killed, its trace is replaced") {
    pid_t rivals[2];
    char others[2][160];
    trace_path();
    own_number = getpid();
    for (int i = 0; i < 2; i++) start_rival(), rivals[i] = rival;
    snprintf(others[0], sizeof others[0], "%s.%d", path, (int)own_number);
    snprintf(others[1], sizeof others[1], "%s.%d.2", path, (int)own_number);
    ck_assert(exists(path) && exists(others[0]) && !exists(others[1]));
    ck_assert(RLTraceStart(path, 0));
    ck_assert(exists(others[1]));
    RLTraceStop();
    kill(rivals[0], SIGKILL);
    waitpid(rivals[0], NULL, 0);
    ck_assert(RLTraceStart(path, 0));
    TraceFile file = stop_and_read();
    trace_file_free(&file);
    ck_assert_int_eq(entries_in_folder(), 3);
    kill(rivals[1], SIGKILL);
    waitpid(rivals[1], NULL, 0);
    remove_folder();
}

/* As where the killed process was the first of its pid namespace: one with its number always lives. */
static void start_as_first_and_be_killed(void *unused) {
    (void)unused;
    own_number = 1;
    if (RLTraceStart(path, 1)) raise(SIGKILL);
}

RL_TEST(a_number_keeps_no_trace, "S-TRC-6", "A killed process's trace is replaced, though another process has its number") {
    trace_path();
    ck_assert(WIFSIGNALED(run_child(start_as_first_and_be_killed, NULL).status));
    TraceFile file = trace_file_read(path);
    ck_assert_uint_eq(file.header.process, 1);
    trace_file_free(&file);
    ck_assert(RLTraceStart(path, 0));
    file = stop_and_read();
    ck_assert_uint_eq(file.header.process, (uint32_t)getpid());
    trace_file_free(&file);
    ck_assert_int_eq(entries_in_folder(), 1);
    remove_folder();
}

static void start_without_descriptors(int end) {
    char started = RLTraceStart(path, 1);
    for (int number = 3; number < 1024; number++)
        if (number != end) close(number);
    if (write(end, &started, 1) == 1) pause();
}

RL_TEST(a_trace_without_its_descriptor_is_kept, "S-TRC-6", "The trace of a living process that has closed all descriptors is not replaced") {
    int ends[2];
    char started = 0, other[160];
    trace_path();
    make_pipe(ends);
    pid_t writer = fork();
    if (writer == 0) start_without_descriptors(ends[1]), _exit(0);
    ck_assert_int_eq(read(ends[0], &started, 1), 1);
    ck_assert(started);
    ck_assert(RLTraceStart(path, 0));
    RLTraceStop();
    snprintf(other, sizeof other, "%s.%d", path, (int)getpid());
    ck_assert(exists(other));
    close(ends[0]), close(ends[1]);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    remove_folder();
}

/* fork */

static pid_t forked_in_log = -1;
static void fork_in_log(const char *logged, void *info) {
    (void)logged, (void)info;
    if (forked_in_log == -1) forked_in_log = fork();
}
static void exit_in_log(const char *logged, void *info) {
    (void)logged, (void)info;
    pthread_exit(NULL);
}
static void start_the_trace(void *unused) {
    (void)unused;
    RLTraceStart(path, 0);
}

RL_TEST(the_line_about_another_process, "S-TRC-6 S-TRC-9 S-FORK-4 S-LOOP-19",
        "The log handler that is told of the living process whose trace the file is may fork, and may end its thread: the trace is on") {
    int ends[2];
    char started;
    trace_path();
    make_pipe(ends);
    pid_t writer = fork();
    if (writer == 0) start_without_descriptors(ends[1]), _exit(0);
    ck_assert_int_eq(read(ends[0], &started, 1), 1);
    RLSetLogHandler(fork_in_log, NULL);
    bool isOn = RLTraceStart(path, 0);
    if (forked_in_log == 0) {
        RLRunInMode(kRLDefaultMode, 0, false);
        _exit(RLIsTracing());
    }
    ck_assert(isOn && RLIsTracing());
    int status = -1;
    ck_assert_int_eq(waitpid(forked_in_log, &status, 0), forked_in_log);
    ck_assert_int_eq(status, 0);
    RLTraceStop();
    RLSetLogHandler(exit_in_log, NULL);
    thread_join(thread_start(start_the_trace, NULL));
    RLSetLogHandler(NULL, NULL);
    ck_assert(RLIsTracing());
    RLTraceStop();
    close(ends[0]), close(ends[1]);
    kill(writer, SIGKILL);
    waitpid(writer, NULL, 0);
    remove_folder();
}

static void work_in_child(void *unused) {
    (void)unused;
    ck_assert(!RLIsTracing());
    for (int i = 0; i < 100; i++) {
        RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, &waker, NULL);
        RLWakeUp(RLGetCurrent());
        RLRunInMode(kRLDefaultMode, 0, false);
    }
    RLTraceStop();
}

RL_TEST(a_child_is_not_traced, "S-TRC-9", "The child of fork records nothing, and the parent's trace goes on") {
    ck_assert(RLTraceStart(trace_path(), 0));
    run_once(NULL);
    ChildResult result = run_child(work_in_child, NULL);
    ck_assert_msg(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0, "%s", result.output);
    ck_assert(RLIsTracing());
    run_once(NULL);
    TraceFile file = stop_and_read();
    ck_assert_int_eq(trace_count_records(&file, RLGetCurrent(), CALL_BEGIN, FUNCTION, NULL), 2);
    ck_assert_ptr_null(trace_find_shared(&file, POST, &waker));
    trace_file_free(&file);
    remove_folder();
}

/* The environment */

RL_MAIN_TEST(the_environment_starts_a_trace, "S-TRC-10", "RUNLOOP_TRACE names the file, RUNLOOP_TRACE_LOOPS the number of rings") {
    setenv("RUNLOOP_TRACE", trace_path(), 1);
    setenv("RUNLOOP_TRACE_LOOPS", "3", 1);
    ck_assert(!RLIsTracing());
    run_once(NULL);
    ck_assert(RLIsTracing());
    TraceFile file = stop_and_read();
    ck_assert_uint_eq(file.header.ring_count, 3);
    ck_assert_int_eq(trace_count_records(&file, RLGetCurrent(), CALL_BEGIN, FUNCTION, NULL), 1);
    trace_file_free(&file);
    run_once(NULL);
    ck_assert(!RLIsTracing());
    remove_folder();
}

RL_MAIN_TEST(bad_variables_are_told_once, "S-TRC-10", "A number that is none is told once, and 16 loops are traced; a file that cannot be made is told once") {
    log_capture();
    setenv("RUNLOOP_TRACE", trace_path(), 1);
    setenv("RUNLOOP_TRACE_LOOPS", "many", 1);
    run_once(NULL);
    thread_join(thread_start(run_once, NULL));
    ck_assert_int_eq(log_count(), 1);
    TraceFile file = stop_and_read();
    ck_assert_uint_eq(file.header.ring_count, 16);
    trace_file_free(&file);
    remove_folder();
}

static void end_at_line(const char *line, void *info) {
    (void)line, (void)info;
    pthread_exit(NULL);
}
RL_MAIN_TEST(the_trace_is_on_before_the_log_tells, "S-TRC-10 S-LOOP-19", "A log handler that ends its thread in the line about RUNLOOP_TRACE_LOOPS costs no trace") {
    setenv("RUNLOOP_TRACE", trace_path(), 1);
    setenv("RUNLOOP_TRACE_LOOPS", "many", 1);
    RLSetLogHandler(end_at_line, NULL);
    thread_join(thread_start(run_once, NULL));
    ck_assert(RLIsTracing());
    TraceFile file = stop_and_read();
    trace_file_free(&file);
    remove_folder();
}

RL_MAIN_TEST(an_impossible_file_is_told_once, "S-TRC-10", "RUNLOOP_TRACE with a file that cannot be made is one line; the program goes on") {
    log_capture();
    setenv("RUNLOOP_TRACE", "/nowhere/at/all", 1);
    run_once(NULL);
    thread_join(thread_start(run_once, NULL));
    ck_assert_int_eq(log_count(), 1);
    ck_assert(!RLIsTracing());
}

RL_MAIN_TEST(an_empty_variable_is_told_once, "S-TRC-10", "An empty RUNLOOP_TRACE is one line") {
    log_capture();
    setenv("RUNLOOP_TRACE", "", 1);
    run_once(NULL);
    run_once(NULL);
    ck_assert_int_eq(log_count(), 1);
    ck_assert(!RLIsTracing());
}

/* Two callers */

static int ended;

/* The log's own room is not for so many lines. */
static void forget_line(const char *line, void *info) { (void)line, (void)info; }

static void work_once(void *unused) {
    (void)unused;
    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
}

static void work(void *unused) {
    (void)unused;
    while (!count_of(&ended)) {
        work_once(NULL);
        RLWakeUp(RLGetCurrent());
        RLSetName(RLGetCurrent(), "worker");
    }
}

static void start_and_stop(void *unused) {
    (void)unused;
    while (!count_of(&ended)) {
        RLTraceStart(path, 2);
        RLTraceStop();
    }
}

static void come_and_go(void *unused) {
    (void)unused;
    while (!count_of(&ended)) thread_join(thread_start(work_once, NULL));
}

/* A loop whose thread a handler holds up while the trace is stopped and another one is started. */

static int runs_of_busy, held_up, goes_on;
static pthread_t busy_thread;

static void hold_up(int number) {
    (void)number;
    __atomic_store_n(&held_up, 1, __ATOMIC_SEQ_CST);
    while (!count_of(&goes_on)) sched_yield();
}

static void run_all_the_time(void *unused) {
    static Probe observer;
    (void)unused;
    busy_thread = pthread_self();
    add_observer(&observer, kRLAllActivities, kRLDefaultMode);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    while (!count_of(&ended)) {
        RLRunInMode(kRLDefaultMode, 0, false);
        __atomic_add_fetch(&runs_of_busy, 1, __ATOMIC_SEQ_CST);
    }
}

static void wait_for_runs(int more) {
    int before = count_of(&runs_of_busy);
    while (count_of(&runs_of_busy) < before + more) sched_yield();
}

RL_TEST(a_loop_that_is_late_for_a_trace, "S-TRC-3 S-TRC-1",
        "A loop that is held up while it records, until another trace has begun, writes nothing into what that trace has of another loop") {
    char other[160];
    snprintf(other, sizeof other, "%s-other", trace_path());
    struct sigaction action = {.sa_handler = hold_up};
    sigaction(SIGUSR1, &action, NULL);
    Thread *busy = thread_start(run_all_the_time, NULL);
    wait_for_runs(1);
    for (int i = 0; i < 40; i++) {
        ck_assert(RLTraceStart(path, 2));
        wait_for_runs(50 + i);
        __atomic_store_n(&held_up, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&goes_on, 0, __ATOMIC_SEQ_CST);
        pthread_kill(busy_thread, SIGUSR1);
        while (!count_of(&held_up)) sched_yield();
        RLTraceStop();
        ck_assert(RLTraceStart(other, 2));
        run_once(NULL);
        __atomic_store_n(&goes_on, 1, __ATOMIC_SEQ_CST);
        wait_for_runs(50);
        RLTraceStop();
        TraceFile file = trace_file_read(other);
        ck_assert_uint_lt(trace_ring_of(&file, RLGetCurrent())->head, 50);
        trace_file_free(&file);
    }
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    thread_join(busy);
    unlink(other);
    remove_folder();
}

RL_TEST(starts_and_stops_may_come_at_any_time, "S-TRC-1 S-TRC-9",
        "Two threads that start and stop, loops that work, come and go, and forks do each other no harm") {
    trace_path();
    RLGetCurrent();
    RLSetLogHandler(forget_line, NULL);
    Thread *threads[] = {thread_start(work, NULL), thread_start(work, NULL), thread_start(start_and_stop, NULL),
                         thread_start(start_and_stop, NULL), thread_start(come_and_go, NULL)};
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            for (int j = 0; j < 10; j++) {
                RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, NULL);
                RLRunInMode(kRLDefaultMode, 0, false);
            }
            char own[160];
            snprintf(own, sizeof own, "%s-%d", path, (int)getpid());
            bool good = RLTraceStart(own, 1);
            RLPerformFunction(RLGetCurrent(), kRLDefaultMode, nothing, NULL, NULL);
            RLRunInMode(kRLDefaultMode, 0, false);
            RLTraceStop();
            _exit(good ? 0 : 1);
        }
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
        TraceFile file;
        char own[160];
        snprintf(own, sizeof own, "%s-%d", path, (int)child);
        file = trace_file_read(own);
        ck_assert_int_eq(trace_count_records(&file, RLGetCurrent(), CALL_BEGIN, FUNCTION, NULL), 1);
        trace_file_free(&file);
        unlink(own);
    }
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) thread_join(threads[i]);
    RLTraceStop();
    TraceFile file = trace_file_read(path);
    trace_file_free(&file);
    remove_folder();
}
