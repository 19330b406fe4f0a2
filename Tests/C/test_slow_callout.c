/* SPDX-License-Identifier: MIT */
/* Section 42: callbacks that take long are told while they run. */
#define _GNU_SOURCE
#include "support.h"
#include "system_calls.h"

#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What the handler was told, and a semaphore that counts it. */
typedef struct Told {
    sem_t count;
    RLSlowCallout last;
    char *name, *symbol, *trace, *mode;
    const void *frames[64];
    double times[32];
    uint32_t counts[32];
    int calls, releases;
    pthread_t thread;
    /* Disregards what comes before a backtrace with a call in it, and after it. */
    bool wants_backtrace;
} Told;

static Told told;

static void handle(const RLSlowCallout *callout, void *info) {
    Told *into = info;
    if (into->wants_backtrace && (callout->frameCount < 2 || into->calls > 0)) return;
    into->last = *callout;
    free(into->name), free(into->symbol), free(into->trace), free(into->mode);
    into->name = callout->name ? strdup(callout->name) : NULL;
    into->symbol = strdup(callout->symbol);
    into->trace = strdup(callout->trace);
    into->mode = strdup(callout->mode);
    ck_assert_uint_le(callout->frameCount, 64);
    memcpy(into->frames, callout->frames, callout->frameCount * sizeof *callout->frames);
    into->times[into->calls % 32] = callout->time;
    into->counts[into->calls % 32] = callout->count;
    into->thread = pthread_self();
    __atomic_add_fetch(&into->calls, 1, __ATOMIC_SEQ_CST);
    sem_post(&into->count);
}

static void count_release(void *info) { __atomic_add_fetch(&((Told *)info)->releases, 1, __ATOMIC_SEQ_CST); }

static void watch(double seconds) {
    sem_init(&told.count, 0, 0);
    RLSetSlowCalloutHandler(RLGetCurrent(), seconds, handle, &told, count_release);
}
/* Where time passes by itself the handler may be called once more while the callback ends: the test reads what it was told after that. */
static void stop_watching(void) {
    RLSetSlowCalloutHandler(RLGetCurrent(), 0, NULL, NULL, NULL);
    wait_until_count(&told.releases, 1);
}

static RLClockRef clock_of_loop;
/* With it a callback is told as often as the test wants it to be. */
static void use_clock(void) {
    clock_of_loop = RLClockCreateManual();
    ck_assert(RLSetClock(RLGetCurrent(), clock_of_loop));
}
static void advance(double seconds) { RLClockAdvance(clock_of_loop, seconds); }

static void wait_until_told(void) {
    while (sem_wait(&told.count) != 0) {}
}

/* ---- what is told */

static const void *returns_to;
__attribute__((noinline)) static void block_here(void) {
    returns_to = __builtin_return_address(0);
    wait_until_told();
}
static void block(Probe *self) {
    (void)self;
    if (clock_of_loop) advance(1);
    block_here();
    __asm__ volatile("" ::: "memory");
}

static bool has_frame(const void *address) {
    for (uint32_t i = 0; i < told.last.frameCount; i++)
        if (told.frames[i] == address) return true;
    return false;
}

/* A sanitizer puts handlers off until the thread calls the system. */
static bool has_backtraces(void) {
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(WITH_THREAD_SANITIZER)
    return access("/proc/self/syscall", R_OK) == 0;
#else
    return false;
#endif
}

RL_TEST(a_blocked_callback_is_told_while_it_blocks, "S-SLOW-1 S-SLOW-7 S-SLOW-8 S-SLOW-10",
        "The handler gets loop, mode, item, name, function, thread, time and backtrace of a timer's callback that waits for it") {
    static Probe timer = {.action = block};
    told.wants_backtrace = has_backtraces();
    watch(0.001);
    RLTimerRef item = add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    RLSetName(item, "slow timer");
    expect_run(kRLDefaultMode, 10, false, Finished);
    stop_watching();
    ck_assert_int_ge(told.calls, 1);
    ck_assert_ptr_eq(told.last.loop, RLGetCurrent());
    ck_assert_str_eq(told.mode, kRLDefaultMode);
    ck_assert_int_eq(told.last.kind, kRLCalloutTimer);
    ck_assert_ptr_eq(told.last.item, item);
    ck_assert_str_eq(told.name, "slow timer");
    ck_assert_ptr_nonnull(told.last.function);
    ck_assert_int_ne(told.symbol[0], '\0');
    ck_assert_int_eq(told.last.thread, (int)syscall(SYS_gettid));
    ck_assert_double_ge(told.times[0], 0.001);
    ck_assert_double_le(told.last.since + told.last.time, RLAbsoluteTimeGetCurrent() + 1);
    ck_assert_uint_ge(told.counts[0], 1);
    ck_assert(!pthread_equal(told.thread, pthread_self()));
    if (told.wants_backtrace) {
        ck_assert(has_frame(returns_to));
        ck_assert_int_ne(told.trace[0], '\0');
    }
}

static void observe_slowly(RLObserverRef observer, RLActivity activity, void *info) {
    (void)observer, (void)activity, (void)info;
    advance(1);
    wait_until_told();
}
static void perform_slowly(void *info) {
    (void)info;
    advance(1);
    wait_until_told();
}

RL_TEST(all_kinds_of_callbacks_are_told, "S-SLOW-2 S-SLOW-7", "Sources of both versions, observers, functions and requests are told with their kinds and functions") {
    static Probe source = {.action = block}, port = {.action = block};
    use_clock();
    watch(1);
    RLSourceSignal(add_source(&source, kRLDefaultMode));
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(told.last.kind, kRLCalloutSource);
    ck_assert_ptr_eq(told.last.item, source.source);

    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq((int)write(ends[1], "x", 1), 1);
    RLSourceRef ported = add_port(&port, ends[0], kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(told.last.kind, kRLCalloutSource);
    ck_assert_ptr_eq(told.last.item, ported);
    RLSourceInvalidate(ported);

    RLObserverRef observer = RLObserverCreate(kRLEntry, false, 0, observe_slowly, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(told.last.kind, kRLCalloutObserver);
    ck_assert_ptr_eq(told.last.item, observer);
    ck_assert(told.last.function == (const void *)observe_slowly);
    RLRelease(observer);

    RLPerformFunction(RLGetCurrent(), kRLDefaultMode, perform_slowly, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(told.last.kind, kRLCalloutFunction);
    ck_assert_ptr_null(told.last.item);
    ck_assert_ptr_null(told.name);
    ck_assert(told.last.function == (const void *)perform_slowly);

    RLPerformOnLoop(RLGetCurrent(), kRLDefaultMode, perform_slowly, NULL, NULL, false);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(told.last.kind, kRLCalloutFunction);

    RLPerformAfterDelay(kRLDefaultMode, 0, NULL, perform_slowly, NULL, NULL);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(told.last.kind, kRLCalloutTimer);
    ck_assert(told.last.function == (const void *)perform_slowly);
}

__attribute__((noinline)) static void compute_here(void) {
    returns_to = __builtin_return_address(0);
    while (sem_trywait(&told.count) != 0) {}
}
static void compute(Probe *self) {
    (void)self;
    compute_here();
    __asm__ volatile("" ::: "memory");
}

RL_TEST(a_callback_that_computes_is_told, "S-SLOW-8 S-SLOW-12",
        "A callback that never waits in the kernel is told with its backtrace, and SIGURG has its default action afterwards") {
    static Probe timer = {.action = compute};
    told.wants_backtrace = has_backtraces();
    watch(0.001);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    stop_watching();
    ck_assert_int_ge(told.calls, 1);
    if (told.wants_backtrace) ck_assert(has_frame(returns_to));
    struct sigaction action;
    while (sigaction(SIGURG, NULL, &action) == 0 && action.sa_handler != SIG_DFL) sched_yield();
}

static volatile sig_atomic_t urgent;
static void count_urgent(int signal) { (void)signal, urgent++; }

RL_TEST(a_program_with_an_action_for_sigurg_gets_no_signal, "S-SLOW-12", "A callback that computes is told without a backtrace where SIGURG has a handler") {
    static Probe timer = {.action = compute};
    struct sigaction action = {.sa_handler = count_urgent}, found;
    ck_assert_int_eq(sigaction(SIGURG, &action, NULL), 0);
    watch(0.001);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    stop_watching();
    ck_assert_int_ge(told.calls, 1);
    ck_assert_int_eq(urgent, 0);
    ck_assert_int_eq(sigaction(SIGURG, NULL, &found), 0);
    ck_assert_ptr_eq(found.sa_handler, count_urgent);
}

static void compute_without_signals(Probe *self) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    advance(1);
    compute(self);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

RL_TEST(a_thread_that_blocks_sigurg_is_told, "S-SLOW-12", "A callback that computes with all signals blocked is told, and no signal is left for it") {
    static Probe timer = {.action = compute_without_signals};
    use_clock();
    watch(1);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    ck_assert_int_ge(told.calls, 1);
    sigset_t waiting;
    ck_assert_int_eq(sigpending(&waiting), 0);
    ck_assert_int_eq(sigismember(&waiting, SIGURG), 0);
}

RL_TEST(a_signal_that_waits_is_not_lost, "S-SLOW-12", "A SIGURG that the program waits for by sigwait is there after a callback that computed was told") {
    static Probe timer = {.action = compute_without_signals};
    sigset_t urg;
    sigemptyset(&urg), sigaddset(&urg, SIGURG);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &urg, NULL), 0);
    ck_assert_int_eq(pthread_kill(pthread_self(), SIGURG), 0);
    use_clock();
    watch(1);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    ck_assert_int_ge(told.calls, 1);
    ck_assert_int_eq(sigtimedwait(&urg, NULL, &(struct timespec){0, 0}), SIGURG);
}

/* Tells of a callback of a thread with a signal stack of that size, on which nothing is to be written. */
static void compute_with_signal_stack(size_t size) {
    static Probe timer = {.action = compute};
    enum { LENGTH = 65536, END = 32768 };
    uint8_t *memory = malloc(LENGTH);
    stack_t former;
    memset(memory, 0xa5, LENGTH);
    ck_assert_int_eq(sigaltstack(&(stack_t){.ss_sp = memory + END, .ss_size = size}, &former), 0);
    watch(0.001);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    stop_watching();
    ck_assert_int_eq(sigaltstack(&former, NULL), 0);
    ck_assert_int_ge(told.calls, 1);
    ck_assert_uint_eq(told.last.frameCount, 0);
    for (size_t i = 0; i < LENGTH; i++) ck_assert_uint_eq(memory[i], 0xa5);
    free(memory);
}

RL_TEST(the_least_signal_stack, "S-SLOW-12", "A thread whose signal stack has no room for a signal at all computes on") {
    /* The old value of MINSIGSTKSZ, which many kernels take on processors whose registers have no room there. */
    static char memory[2048];
    stack_t former;
    const bool is_taken = sigaltstack(&(stack_t){.ss_sp = memory, .ss_size = sizeof memory}, &former) == 0;
    if (is_taken) ck_assert_int_eq(sigaltstack(&former, NULL), 0);
    compute_with_signal_stack(is_taken ? sizeof memory : getauxval(AT_MINSIGSTKSZ));
}

RL_TEST(a_small_signal_stack, "S-SLOW-12", "A thread whose signal stack has room for a handler that does little is not asked, and nothing below it is overwritten") {
    compute_with_signal_stack(getauxval(AT_MINSIGSTKSZ) + 512);
}

static sem_t asked, goes_on;
/* The thread is never asked, and its answer waited for. */
static bool keep_question(long number, const long argument[6], long *result) {
    if (number != SYS_tgkill || argument[2] != SIGURG) return false;
    sem_post(&asked);
    while (sem_wait(&goes_on) != 0) {}
    *result = 0;
    return true;
}
static void expect_default_action(void *unused) {
    (void)unused;
    struct sigaction action;
    ck_assert_int_eq(sigaction(SIGURG, NULL, &action), 0);
    ck_assert(action.sa_handler == SIG_DFL);
}
static void fork_while_asked(Probe *self) {
    (void)self;
    struct sigaction action;
    while (sem_trywait(&asked) != 0) {}
    ck_assert_int_eq(sigaction(SIGURG, NULL, &action), 0);
    ck_assert(action.sa_handler != SIG_DFL);
    self->value = run_child(expect_default_action, NULL).status;
    hook_system_calls(NULL);
    sem_post(&goes_on);
}

RL_TEST(the_child_of_fork_is_not_asked, "S-SLOW-12", "fork while a thread is asked: in the child SIGURG has its default action") {
    if (!has_backtraces()) return;
    static Probe timer = {.action = fork_while_asked, .value = 1};
    sem_init(&asked, 0, 0), sem_init(&goes_on, 0, 0);
    hook_system_calls(keep_question);
    watch(0.001);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    ck_assert_int_eq((int)timer.value, 0);
}

/* While the watching thread is about to ask a thread, another one makes a source of the signal: until it has, or waits for the end of the question. */
static pthread_t maker;
static bool make_source_while_asked(long number, const long argument[6], long *result) {
    (void)result;
    if (number == SYS_futex && pthread_equal(pthread_self(), maker)) sem_post(&goes_on);
    if (number != SYS_tgkill || argument[2] != SIGURG) return false;
    sem_post(&asked);
    while (sem_wait(&goes_on) != 0) {}
    return false;
}
static RLSourceRef made_source;
static int reports;
static void count_report(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)event, (void)info;
    reports++;
}
static void *make_source(void *loop) {
    RLKernelEvent event = {.filter = kRLKernelFilterSignal, .ident = SIGURG};
    while (sem_wait(&asked) != 0) {}
    maker = pthread_self();
    made_source = RLKernelEventSourceCreate(&event, count_report, NULL);
    RLAddSource(loop, made_source, kRLDefaultMode);
    hook_system_calls(NULL);
    sem_post(&goes_on);
    return NULL;
}
static void compute_until_made(Probe *self) {
    (void)self;
    while (!__atomic_load_n(&made_source, __ATOMIC_ACQUIRE) || count_of(&told.calls) == 0) {}
}

RL_TEST(a_source_of_sigurg_is_made_while_a_thread_is_asked, "S-SLOW-12 S-KEV-2 S-KEV-3",
        "A source of SIGURG that is made while a thread is asked for its backtrace reports nothing of that, and gives back the action that the program had") {
    if (!has_backtraces()) return;
    static Probe timer = {.action = compute_until_made};
    pthread_t thread;
    sem_init(&asked, 0, 0), sem_init(&goes_on, 0, 0);
    hook_system_calls(make_source_while_asked);
    ck_assert_int_eq(pthread_create(&thread, NULL, make_source, RLGetCurrent()), 0);
    watch(0.001);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    stop_watching();
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(reports, 0);
    ck_assert_int_eq(raise(SIGURG), 0);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(reports, 1);
    RLSourceInvalidate(made_source);
    RLRelease(made_source);
    expect_default_action(NULL);
}

static int ends_of_wait[2];
static int thread_that_waits;
static void wait_in_poll(Probe *self) {
    struct pollfd entry = {.fd = ends_of_wait[0], .events = POLLIN};
    self->value = poll(&entry, 1, -1);
}
/* Whether a line of /proc/N/syscall names poll, or ppoll, by which the C library makes it on some processors. */
static bool is_poll(const char *line) {
    char *end;
    long number = strtol(line, &end, 10);
#ifdef SYS_poll
    if (end != line && number == SYS_poll) return true;
#endif
    return end != line && number == SYS_ppoll;
}
static void *end_the_wait(void *unused) {
    (void)unused;
    wait_until_told();
    ck_assert_int_eq((int)write(ends_of_wait[1], "x", 1), 1);
    return NULL;
}
/* Moves the loop's clock when the thread is blocked. That waits for the loop to serve what is due. */
static void *watch_the_wait(void *unused) {
    (void)unused;
    char path[64], line[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread_that_waits);
    while (!is_poll(line)) {
        FILE *file = fopen(path, "r");
        if (!file) break;
        if (!fgets(line, sizeof line, file)) line[0] = '\0';
        fclose(file);
    }
    advance(1);
    return NULL;
}

RL_TEST(no_system_call_ends_early, "S-SLOW-8", "A callback is told whose poll goes on until its descriptor is ready") {
    static Probe timer = {.action = wait_in_poll};
    use_clock();
    watch(1);
    ck_assert_int_eq(pipe(ends_of_wait), 0);
    thread_that_waits = (int)syscall(SYS_gettid);
    pthread_t watcher, other;
    ck_assert_int_eq(pthread_create(&watcher, NULL, watch_the_wait, NULL), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, end_the_wait, NULL), 0);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    ck_assert_int_eq(pthread_join(watcher, NULL), 0);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ck_assert_int_eq((int)timer.value, 1);
}

/* ---- when it is told, by a clock that the test moves */

static void take_long(Probe *self) {
    (void)self;
    advance(0.999);
    advance(0.002);
    wait_until_told();
    advance(0.9);
    advance(0.1);
    wait_until_told();
    advance(2);
    wait_until_told();
    advance(26);
    wait_until_told();
}

RL_TEST(it_is_told_again_at_doubled_times, "S-SLOW-3 S-SLOW-5", "A callback is told after the time, twice and four times that, and once for several of these") {
    static Probe timer = {.action = take_long};
    use_clock();
    watch(1);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    double expected[] = {1.001, 2.001, 4.001, 30.001};
    ck_assert_int_eq(told.calls, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert(fabs(told.times[i] - expected[i]) < 0.00001);
        ck_assert_uint_eq(told.counts[i], (uint32_t)i + 1);
    }
    RLRelease(clock_of_loop);
}

RL_TEST(an_hour_of_timers_is_not_slow, "S-SLOW-5", "A loop that follows its clock over an hour has no slow callback") {
    static Probe timer = {.name = "t"};
    use_clock();
    watch(1);
    add_timer(&timer, date_in(10), 10, kRLDefaultMode);
    advance(3600);
    ck_assert_int_eq(trace_count("t"), 360);
    ck_assert_int_eq(told.calls, 0);
    RLRelease(clock_of_loop);
}

static void inner(Probe *self) {
    (void)self;
    advance(5);
    wait_until_told();
}
static void run_inside(Probe *self) {
    static Probe function = {.action = inner};
    (void)self;
    advance(0.5);
    keep_alive(RLGetCurrent(), "inner");
    probe_perform(&function, RLGetCurrent(), "inner");
    RLRunInMode("inner", 0, false);
    advance(0.4);
    advance(0.2);
    wait_until_told();
}

RL_TEST(runs_inside_do_not_count, "S-SLOW-4", "A callback of a nested run is told; the outer one only when it has taken the time itself") {
    static Probe timer = {.action = run_inside};
    use_clock();
    watch(1);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    ck_assert_int_eq(told.calls, 2);
    ck_assert(fabs(told.times[0] - 5) < 0.00001);
    ck_assert(fabs(told.times[1] - 1.1) < 0.00001);
    ck_assert_int_eq(told.last.kind, kRLCalloutTimer);
    ck_assert_str_eq(told.mode, kRLDefaultMode);
    RLRelease(clock_of_loop);
}

/* ---- the handler's life */

static void end_watching(const RLSlowCallout *callout, void *info) {
    RLSetSlowCalloutHandler(callout->loop, 0, NULL, NULL, NULL);
    ck_assert_int_eq(((Told *)info)->releases, 0);
    handle(callout, info);
}
static void block_long(Probe *self) {
    (void)self;
    advance(1);
    wait_until_told();
    advance(10);
}

RL_TEST(the_handler_may_end_the_watching, "S-SLOW-6", "A handler that takes itself away is released once, when it has returned, and called no more") {
    static Probe timer = {.action = block_long};
    sem_init(&told.count, 0, 0);
    use_clock();
    RLSetSlowCalloutHandler(RLGetCurrent(), 1, end_watching, &told, count_release);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    wait_until_count(&told.releases, 1);
    ck_assert_int_eq(told.calls, 1);
    ck_assert_double_eq(RLGetSlowCalloutTime(RLGetCurrent()), 0);
}

static Told second;
static void set_another(const RLSlowCallout *callout, void *info) {
    RLSetSlowCalloutHandler(callout->loop, 1, handle, &told, count_release);
    __atomic_add_fetch(&((Told *)info)->calls, 1, __ATOMIC_SEQ_CST);
    sem_post(&second.count);
}
static void block_for_two(Probe *self) {
    (void)self;
    advance(1);
    while (sem_wait(&second.count) != 0) {}
    advance(1);
    wait_until_told();
}

RL_TEST(the_handler_may_set_another, "S-SLOW-6 S-SLOW-3", "A handler that sets another one is released; the callback is told to that one next") {
    static Probe timer = {.action = block_for_two};
    use_clock();
    sem_init(&told.count, 0, 0);
    sem_init(&second.count, 0, 0);
    RLSetSlowCalloutHandler(RLGetCurrent(), 1, set_another, &second, count_release);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    wait_until_count(&second.releases, 1);
    ck_assert_int_eq(second.calls, 1);
    ck_assert_int_eq(told.calls, 1);
    ck_assert_int_eq(told.releases, 0);
}

RL_TEST(arguments, "S-SLOW-1 S-SLOW-6", "Times beyond the limits count as these; what is no time ends the watching; release comes where the handler is not taken") {
    RLRunLoopRef rl = RLGetCurrent();
    RLSetSlowCalloutHandler(NULL, 1, handle, &told, count_release);
    ck_assert_int_eq(told.releases, 1);
    RLSetSlowCalloutHandler(rl, 1e-9, handle, &told, count_release);
    ck_assert_double_eq(RLGetSlowCalloutTime(rl), 0.001);
    RLSetSlowCalloutHandler(rl, 1e300, NULL, NULL, NULL);
    ck_assert_int_eq(told.releases, 2);
    ck_assert_double_eq(RLGetSlowCalloutTime(rl), 504911232.0);
    double none[] = {0, -1, NAN};
    for (int i = 0; i < 3; i++) {
        RLSetSlowCalloutHandler(rl, none[i], handle, &told, count_release);
        ck_assert_int_eq(told.releases, 3 + i);
        ck_assert_double_eq(RLGetSlowCalloutTime(rl), 0);
    }
    ck_assert_double_eq(RLGetSlowCalloutTime(NULL), 0);
}

/* ---- threads and processes */

static void end_thread(Probe *self) {
    (void)self;
    advance(1);
    wait_until_told();
    pthread_exit(NULL);
}
static void watch_and_end(void *unused) {
    (void)unused;
    static Probe timer = {.action = end_thread};
    use_clock();
    watch(1);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    RLRunInMode(kRLDefaultMode, 10, false);
}

RL_TEST(a_callback_may_end_its_thread, "S-SLOW-11 S-SLOW-6", "A told callback that ends its thread leaves nothing: the loop goes, and the handler with it") {
    thread_join(thread_start(watch_and_end, NULL));
    wait_until_count(&told.releases, 1);
    static Probe timer = {.action = block};
    RLRelease(clock_of_loop);
    use_clock();
    watch(1);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    ck_assert_ptr_eq(told.last.loop, RLGetCurrent());
}

static void handle_and_end(const RLSlowCallout *callout, void *info) {
    handle(callout, info);
    pthread_exit(NULL);
}
static void be_told_thrice(Probe *self) {
    (void)self;
    for (int i = 0; i < 3; i++) {
        advance(1 << i);
        wait_until_told();
    }
}

RL_TEST(a_handler_may_end_its_thread, "S-SLOW-6", "After a handler that ends its thread another one is told, also of the same callback, and the handler goes") {
    static Probe timer = {.action = be_told_thrice};
    use_clock();
    sem_init(&told.count, 0, 0);
    RLSetSlowCalloutHandler(RLGetCurrent(), 1, handle_and_end, &told, count_release);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Finished);
    ck_assert_int_eq(told.calls, 3);
    RLSetSlowCalloutHandler(RLGetCurrent(), 0, NULL, NULL, NULL);
    wait_until_count(&told.releases, 1);
}

static int rounds, last_round;
static size_t before;
static void be_told_often(Probe *self) {
    advance(1);
    wait_until_told();
    if (rounds == 100) before = mallinfo2().uordblks;
    if (rounds++ == last_round) RLTimerInvalidate(self->timer);
}

/* The sanitizers' allocators do not tell. */
#if !defined(WITH_ADDRESS_SANITIZER) && !defined(WITH_THREAD_SANITIZER)
static void expect_nothing_left(RLSlowCalloutHandler handler, void (*release)(void *)) {
    static Probe timer = {.name = "t", .action = be_told_often};
    mallopt(M_ARENA_MAX, 1);
    use_clock();
    sem_init(&told.count, 0, 0);
    RLSetSlowCalloutHandler(RLGetCurrent(), 1, handler, &told, release);
    add_timer(&timer, date_in(-1), 0.001, kRLDefaultMode);
    RLSetName(timer.timer, "refresh");
    expect_run(kRLDefaultMode, 100000, false, Finished);
    ck_assert_uint_lt(mallinfo2().uordblks, before + 20000);
}
RL_TEST(a_handler_that_ends_its_thread_leaves_nothing, "S-SLOW-6", "Handlers that end their threads leave no memory behind") {
    last_round = 400;
    expect_nothing_left(handle_and_end, count_release);
}
#endif

static void release_and_end(void *info) {
    count_release(info);
    pthread_exit(NULL);
}
#if !defined(WITH_ADDRESS_SANITIZER) && !defined(WITH_THREAD_SANITIZER)
static void handle_and_renew(const RLSlowCallout *callout, void *info) {
    RLSetSlowCalloutHandler((RLRunLoopRef)callout->loop, 1, handle_and_renew, info, release_and_end);
    handle(callout, info);
}
RL_TEST(a_release_that_ends_its_thread_leaves_nothing, "S-SLOW-6", "Releases of handlers that end their threads leave no memory behind") {
    last_round = 1500;
    expect_nothing_left(handle_and_renew, release_and_end);
    ck_assert_int_ge(count_of(&told.releases), 1000);
}
#endif
static void handle_and_go(const RLSlowCallout *callout, void *info) {
    handle(callout, info);
    RLSetSlowCalloutHandler((RLRunLoopRef)callout->loop, 1, handle, info, count_release);
}

RL_TEST(a_release_may_end_the_thread, "S-SLOW-6", "After a handler's release that ends the thread of the calls another thread calls the next handler") {
    static Probe first = {.action = block}, second = {.action = block};
    use_clock();
    sem_init(&told.count, 0, 0);
    RLSetSlowCalloutHandler(RLGetCurrent(), 1, handle_and_go, &told, release_and_end);
    add_timer(&first, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Finished);
    wait_until_count(&told.releases, 1);
    add_timer(&second, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 1000, false, Finished);
    ck_assert_int_eq(told.calls, 2);
}

static void in_child(void *unused) {
    (void)unused;
    static Probe timer = {.action = block};
    add_timer(&timer, date_in(-1), 0, "child");
    if (RLRunInMode("child", 10, false) != kRLRunFinished) _exit(1);
    if (told.last.thread != (int)syscall(SYS_gettid)) _exit(2);
}
static void fork_while_told(Probe *self) {
    block(self);
    ck_assert_int_eq(run_child(in_child, NULL).status, 0);
}

RL_TEST(the_child_of_fork_is_watched, "S-SLOW-11 S-FORK-1", "Parent and child of a fork in a callback that was told are told of their own callbacks") {
    static Probe timer = {.action = fork_while_told}, later = {.action = block};
    use_clock();
    watch(1);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    add_timer(&later, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    ck_assert_ptr_eq(told.last.item, later.timer);
}

static void run_empty(void *unused) {
    (void)unused;
    if (RLRunInMode("child", 10, false) != kRLRunFinished) _exit(1);
}
static void fork_in_handler(const RLSlowCallout *callout, void *info) {
    ck_assert_int_eq(run_child(run_empty, NULL).status, 0);
    handle(callout, info);
}
RL_TEST(the_handler_may_fork, "S-SLOW-6 S-SLOW-11", "A fork by the handler does not stop the watching") {
    static Probe timer = {.action = block};
    sem_init(&told.count, 0, 0);
    RLSetSlowCalloutHandler(RLGetCurrent(), 0.001, fork_in_handler, &told, count_release);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    stop_watching();
    ck_assert_int_ge(told.calls, 1);
}

/* ---- the line of the log, and the environment */

static char line[4096];
static sem_t lines;
static void keep_line(const char *text, void *info) {
    (void)info;
    snprintf(line, sizeof line, "%s", text);
    sem_post(&lines);
}
static void wait_for_line(Probe *self) {
    (void)self;
    while (sem_wait(&lines) != 0) {}
}

RL_TEST(without_a_handler_there_is_a_line, "S-SLOW-1 S-SLOW-7", "NULL for a handler logs one line with names") {
    static Probe timer = {.action = wait_for_line};
    sem_init(&lines, 0, 0);
    RLSetLogHandler(keep_line, NULL);
    RLSetName(RLGetCurrent(), "the \n loop");
    RLSetSlowCalloutHandler(RLGetCurrent(), 0.001, NULL, NULL, NULL);
    RLSetName(add_timer(&timer, date_in(-1), 0, kRLDefaultMode), "cleaner");
    expect_run(kRLDefaultMode, 10, false, Finished);
    RLSetSlowCalloutHandler(RLGetCurrent(), 0, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(strstr(line, "RunLoop: for 0.0"));
    ck_assert_ptr_nonnull(strstr(line, "\"the \\n loop\""));
    ck_assert_ptr_nonnull(strstr(line, "timer \"cleaner\""));
    ck_assert_ptr_nonnull(strstr(line, kRLDefaultMode));
}

RL_MAIN_TEST(the_environment_has_loops_watched, "S-SLOW-9", "RUNLOOP_SLOW watches each new loop") {
    static Probe timer = {.action = wait_for_line};
    setenv("RUNLOOP_SLOW", "0.001", 1);
    sem_init(&lines, 0, 0);
    RLSetLogHandler(keep_line, NULL);
    ck_assert_double_eq(RLGetSlowCalloutTime(RLGetCurrent()), 0.001);
    add_timer(&timer, date_in(-1), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 10, false, Finished);
    ck_assert_ptr_nonnull(strstr(line, "is in timer"));
}

static void refuse(const char *value) {
    setenv("RUNLOOP_SLOW", value, 1);
    sem_init(&lines, 0, 0);
    RLSetLogHandler(keep_line, NULL);
    ck_assert_double_eq(RLGetSlowCalloutTime(RLGetCurrent()), 0);
    ck_assert_int_eq(sem_trywait(&lines), 0);
    ck_assert_ptr_nonnull(strstr(line, "RUNLOOP_SLOW"));
    ck_assert_int_ne(sem_trywait(&lines), 0);
}
RL_MAIN_TEST(words_are_no_time, "S-SLOW-9", "A value that is no number is logged once and ignored") { refuse("fast"); }
RL_MAIN_TEST(nothing_is_no_time, "S-SLOW-9", "An empty value is no number") { refuse(""); }
RL_MAIN_TEST(negative_is_no_time, "S-SLOW-9", "A negative number is no time") { refuse("-1"); }
RL_MAIN_TEST(zero_is_no_time, "S-SLOW-9", "Zero is no time") { refuse("0.0"); }
RL_MAIN_TEST(trailing_words_are_no_time, "S-SLOW-9", "A number with something behind it is no number") { refuse("0.1s"); }

/* ---- a log handler that uses the loop whose making is logged */

static RLRunLoopRef loop_of_handler;
static int performed_of_handler;
static pid_t child_of_handler;
static void count_performed(void *unused) {
    (void)unused;
    performed_of_handler++;
}
static void post_to_own_loop(const char *logged, void *info) {
    (void)logged, (void)info;
    if (loop_of_handler) return;
    loop_of_handler = RLGetCurrent();
    RLPerformFunction(loop_of_handler, kRLDefaultMode, count_performed, NULL, NULL);
}
static void use_loop_of_handler(void *unused) {
    (void)unused;
    RLRunLoopRef own = RLGetCurrent();
    ck_assert_ptr_eq(own, loop_of_handler);
    RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(performed_of_handler, 1);
}
static void expect_one_loop(const char *variable, const char *value) {
    setenv(variable, value, 1);
    RLSetLogHandler(post_to_own_loop, NULL);
    thread_join(thread_start(use_loop_of_handler, NULL));
    ck_assert_int_eq(performed_of_handler, 1);
}
RL_MAIN_TEST(a_log_handler_uses_the_loop_that_is_made, "S-LOOP-1 S-LOOP-2 S-SLOW-9",
             "The handler of the line about RUNLOOP_SLOW that asks for its thread's loop gets the one that the thread has from then on") {
    expect_one_loop("RUNLOOP_SLOW", "fast");
}
RL_MAIN_TEST(a_log_handler_makes_the_first_loop, "S-LOOP-1 S-LOOP-2 S-TRC-10", "The same with the line about RUNLOOP_TRACE") {
    expect_one_loop("RUNLOOP_TRACE", "/no such directory/trace");
}

static void fork_in_log(const char *logged, void *info) {
    (void)logged, (void)info;
    if (child_of_handler != 0) return;
    child_of_handler = fork();
    if (child_of_handler == 0) {
        child_of_handler = -1;
        alarm(30);
    }
}
static void wait_for_request(void *unused) {
    (void)unused;
    RLPerformOnLoop(RLGetMain(), kRLDefaultMode, count_performed, NULL, NULL, true);
}
static void fork_in_first_loop(void *unused) {
    (void)unused;
    RLRunLoopRef own = RLGetCurrent();
    if (child_of_handler != -1) return;
    if (own != RLGetMain() || !RLThreadIsMain()) _exit(1);
    keep_alive(own, kRLDefaultMode);
    Thread *asker = thread_start(wait_for_request, NULL);
    while (performed_of_handler == 0) RLRunInMode(kRLDefaultMode, 0.01, true);
    thread_join(asker);
    _exit(0);
}
RL_MAIN_TEST(a_log_handler_forks_while_the_loop_is_made, "S-FORK-1 S-LOOP-3 S-SLOW-9", "The child's first loop is its main one, and serves it") {
    setenv("RUNLOOP_SLOW", "fast", 1);
    RLSetLogHandler(fork_in_log, NULL);
    thread_join(thread_start(fork_in_first_loop, NULL));
    int status = -1;
    ck_assert_int_eq(waitpid(child_of_handler, &status, 0), child_of_handler);
    ck_assert_int_eq(status, 0);
}

static RLRunLoopRef main_of_call;
static void ask_for_main(void *unused) {
    (void)unused;
    main_of_call = RLGetMain();
    if (child_of_handler != -1) return;
    _exit(main_of_call == RLGetMain() && main_of_call == RLGetCurrent() ? 0 : 1);
}
RL_MAIN_TEST(a_log_handler_forks_while_the_main_loop_is_made, "S-FORK-1 S-LOOP-3 S-SLOW-9", "In the child RLGetMain, which called the handler, returns the child's main loop") {
    setenv("RUNLOOP_SLOW", "fast", 1);
    RLSetLogHandler(fork_in_log, NULL);
    thread_join(thread_start(ask_for_main, NULL));
    ck_assert_ptr_eq(main_of_call, RLGetMain());
    int status = -1;
    ck_assert_int_eq(waitpid(child_of_handler, &status, 0), child_of_handler);
    ck_assert_int_eq(status, 0);
}
