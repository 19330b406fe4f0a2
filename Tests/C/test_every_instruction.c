/* SPDX-License-Identifier: MIT */
/* Calls of which each instruction is met by another thread (stepping.h). */
#define _GNU_SOURCE
#include "stepping.h"
#include "support_share.h"

#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <runloop/share.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#if defined(__x86_64__) && !defined(WITH_THREAD_SANITIZER) && !defined(WITH_ADDRESS_SANITIZER)

/* Signal handlers against sigaction */

static int called;
static void plain(int number) {
    (void)number;
    called++;
}
static void with_info(int number, siginfo_t *info, void *context) {
    (void)context;
    if (info->si_signo == number) called++;
}
static void install(int kind) {
    struct sigaction action = {.sa_flags = 0};
    action.sa_handler = plain;
    if (kind == 1) {
        action.sa_flags = SA_SIGINFO;
        action.sa_sigaction = with_info;
    }
    if (kind == 2) action.sa_handler = SIG_IGN;
    ck_assert_int_eq(sigaction(SIGWINCH, &action, NULL), 0);
}

static void never_report(RLSourceRef source, const RLKernelEvent *event, void *info) { (void)source, (void)event, (void)info; }
static RLSourceRef make_source(void) {
    RLKernelEvent event = {SIGWINCH, kRLKernelFilterSignal, 0, 0, 0, NULL};
    RLSourceRef source = RLKernelEventSourceCreate(&event, never_report, NULL);
    ck_assert_ptr_nonnull(source);
    return source;
}

static RLSourceRef source;
static int next_kind;
static void (*handler)(int, siginfo_t *, void *);
static void end_and_make(void) {
    RLSourceInvalidate(source);
    RLRelease(source);
    install(next_kind);
    source = make_source();
}
/* A handler is called as a function, because the kernel steps no handlers. */
static void call_handler(void) {
    siginfo_t info = {.si_signo = SIGWINCH};
    handler(SIGWINCH, &info, NULL);
}

RL_TEST(an_action_changes_at_any_instruction_of_the_handler, "S-KEV-3 S-KEV-15",
        "At any instruction of the library's handler another thread may end the last source, install another action, and make a "
        "source: the handler calls a whole action") {
    static const int changes[][2] = {{0, 2}, {1, 0}};
    sem_init(&question, 0, 0);
    sem_init(&answer, 0, 0);
    other_call = end_and_make;
    Thread *other = thread_start(make_calls, NULL);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        bool reached = true;
        next_kind = changes[i][1];
        for (long instructions = 1; reached; instructions++) {
            install(changes[i][0]);
            source = make_source();
            struct sigaction now;
            ck_assert_int_eq(sigaction(SIGWINCH, NULL, &now), 0);
            handler = now.sa_sigaction;
            reached = interrupt(call_handler, instructions, ask_other);
            if (reached && !is_answered) sem_wait(&answer);
            RLSourceInvalidate(source);
            RLRelease(source);
        }
    }
    is_over = true;
    sem_post(&question);
    thread_join(other);
    ck_assert_int_gt(called, 0);
}

/* A function that is being posted when a round comes to it */

static RLRunLoopRef posted_to;
static sem_t stands, may_go_on, is_posted;
static bool is_performed, other_mode_first;
static long stop_at;
static void note_performed(void *unused) {
    (void)unused;
    is_performed = true;
}
static void stand(void) {
    sem_post(&stands);
    while (sem_wait(&may_go_on) != 0) {}
}
static void post_elsewhere(void) { RLPerformFunction(posted_to, "elsewhere", note_performed, NULL, NULL); }
static void post_in_steps(void *unused) {
    (void)unused;
    if (!interrupt(post_elsewhere, stop_at, stand)) sem_post(&stands);
    sem_post(&is_posted);
}
static void do_little(void *unused) { (void)unused; }
static void have_it_posted(void *unused) {
    (void)unused;
    sem_post(&may_go_on);
    sem_wait(&is_posted);
    if (other_mode_first) {
        RLPerformFunction(posted_to, "other", do_little, NULL, NULL);
        RLRunInMode("other", 0, false);
    }
    RLRunInMode("elsewhere", 0, false);
}

RL_TEST(a_round_meets_any_instruction_of_a_post, "S-BLK-15 S-WAKE-8",
        "A function that is being posted when a round passes it is performed by a nested run of its mode, also if one of another mode came first") {
    int others[2] = {0, 0};
    sem_init(&stands, 0, 0);
    sem_init(&may_go_on, 0, 0);
    sem_init(&is_posted, 0, 0);
    posted_to = RLGetCurrent();
    keep_alive(posted_to, kRLDefaultMode);
    for (int other = 0; other < 2; other++) {
        bool has_returned = false;
        other_mode_first = other;
        for (stop_at = 1; !has_returned; stop_at++) {
            is_performed = false;
            Thread *poster = thread_start(post_in_steps, NULL);
            sem_wait(&stands);
            has_returned = sem_trywait(&is_posted) == 0;
            if (has_returned) sem_post(&is_posted);
            RLPerformFunction(posted_to, kRLDefaultMode, have_it_posted, NULL, NULL);
            RLRunInMode(kRLDefaultMode, 0, false);
            others[other] += !is_performed;
            RLRunInMode("elsewhere", 0, false);
            ck_assert(is_performed);
            thread_join(poster);
            if (has_returned) sem_trywait(&may_go_on);
        }
    }
    /* Those that were whole before the round, which nested runs do not see. A few instructions more or less change that number. */
    ck_assert_int_gt(others[0], 0);
    ck_assert_int_lt(others[1], others[0] + 6);
}

static size_t most_memory;
static void have_many_performed(void *unused) {
    (void)unused;
    sem_post(&may_go_on);
    sem_wait(&is_posted);
}
static void run_many(int count) {
    for (int i = 0; i < count; i++) {
        RLPerformFunction(posted_to, "other", do_little, NULL, NULL);
        RLRunInMode("other", 0, false);
    }
}
/* In one function, so that the rounds are nested ones, and away from the room that the round around them keeps. */
static void have_one_posted_late(void *unused) {
    (void)unused;
    run_many(300);
    size_t before = mallinfo2().uordblks;
    Thread *poster = thread_start(post_in_steps, NULL);
    sem_wait(&stands);
    RLPerformFunction(posted_to, "other", have_many_performed, NULL, NULL);
    RLRunInMode("other", 0, false);
    run_many(4000);
    size_t now = mallinfo2().uordblks;
    if (now > before && now - before > most_memory) most_memory = now - before;
    thread_join(poster);
    while (sem_trywait(&may_go_on) == 0 || sem_trywait(&is_posted) == 0) {}
}

RL_TEST(a_late_function_keeps_no_room, "S-BLK-3 S-THR-9", "A function for a mode that does not run, which was being posted when a round passed it, keeps no memory of those that come after it") {
    const int last = 40;
    sem_init(&stands, 0, 0);
    sem_init(&may_go_on, 0, 0);
    sem_init(&is_posted, 0, 0);
    posted_to = RLGetCurrent();
    keep_alive(posted_to, kRLDefaultMode);
    /* The first call finds the functions of the library. */
    post_elsewhere();
    begin_steps(LONG_MAX, stand);
    post_elsewhere();
    end_steps();
    long count = LONG_MAX - steps_left;
    for (stop_at = count - last; stop_at < count; stop_at++) {
        RLPerformFunction(posted_to, kRLDefaultMode, have_one_posted_late, NULL, NULL);
        RLRunInMode(kRLDefaultMode, 0, false);
        RLRunInMode("elsewhere", 0, false);
    }
    ck_assert_uint_lt(most_memory, 65536);
}

/* A lock that is waited for in two loops */

static RLLock contended;
static sem_t wanted, gotten;
static RLRunLoopRef waiting_loop;
static bool is_last;
static void lock_in_mode(LoopThread *self) {
    (void)self;
    while (sem_wait(&wanted) == 0 && !is_last) {
        if (RLLockInMode(&contended, NULL, 1e6)) RLLockUnlock(&contended);
        sem_post(&gotten);
    }
}
static void want_and_unlock(void) {
    sem_post(&wanted);
    wait_until_waiting(waiting_loop);
    RLLockUnlock(&contended);
}
static bool has_lock;
static void try_in_mode(void) { has_lock = RLLockInMode(&contended, NULL, 0); }

/* Every third instruction, from the given one of three on: all before each are stepped too, so one case for all takes long. */
static void give_back_at_every_third(long first) {
    LoopThread second;
    sem_init(&question, 0, 0);
    sem_init(&answer, 0, 0);
    sem_init(&wanted, 0, 0);
    sem_init(&gotten, 0, 0);
    is_over = false;
    other_call = want_and_unlock;
    Thread *other = thread_start(make_calls, NULL);
    loop_thread_start(&second, lock_in_mode, NULL);
    waiting_loop = second.loop;
    RLLockLock(&contended);
    try_in_mode();
    interrupt(try_in_mode, LONG_MAX, ask_other);
    RLLockUnlock(&contended);
    /* After the pass that an attempt makes, for all that comes before is a matter of the lock alone. */
    bool reached = true;
    const long count = LONG_MAX - steps_left;
    for (long instructions = (count < 1200 ? 1 : count - 1200) + first; reached; instructions += 3) {
        RLLockLock(&contended);
        reached = interrupt(try_in_mode, instructions, ask_other);
        if (!reached) break;
        if (!is_answered) sem_wait(&answer);
        if (has_lock) RLLockUnlock(&contended);
        struct timespec limit;
        clock_gettime(CLOCK_REALTIME, &limit);
        limit.tv_sec += 20;
        ck_assert_int_eq(sem_timedwait(&gotten, &limit), 0);
    }
    is_over = is_last = true;
    sem_post(&question);
    sem_post(&wanted);
    thread_join(other);
    thread_join(second.thread);
}

RL_TEST(a_lock_comes_free_at_any_instruction, "S-SYNC-23 S-SYNC-25",
        "At any instruction of the end of an attempt in one loop the lock may be given back: who waits for it in another loop gets it") {
    give_back_at_every_third(0);
}
RL_TEST(a_lock_comes_free_at_the_next_instruction, "S-SYNC-23 S-SYNC-25", "The same at the instructions after those") {
    give_back_at_every_third(1);
}
RL_TEST(a_lock_comes_free_at_the_one_after_that, "S-SYNC-23 S-SYNC-25", "The same at the ones that are left") {
    give_back_at_every_third(2);
}

/* A loop that does not sleep, because posts come fast */

static LoopThread polling;
static pid_t polling_thread;
static Gate polling_begins = GATE_INITIALIZER;
static int wants_hold, is_held, posts_are_over, posts_made;
static void nothing(void *unused) { (void)unused; }
static void run_for_posts(LoopThread *self) {
    polling_thread = gettid();
    RLSourceContext context = {.info = NULL};
    RLSourceRef keeper = RLSourceCreate(0, &context);
    RLAddSource(self->loop, keeper, kRLDefaultMode);
    RLRelease(keeper);
    gate_open(&polling_begins);
    RLRun();
}
static void post_one(void) {
    RLPerformFunction(polling.loop, kRLDefaultMode, nothing, NULL, NULL);
    RLWakeUp(polling.loop);
}
static void post_fast(void *unused) {
    (void)unused;
    while (!count_of(&posts_are_over)) {
        __atomic_store_n(&is_held, count_of(&wants_hold), __ATOMIC_SEQ_CST);
        if (count_of(&is_held)) {
            sched_yield();
            continue;
        }
        post_one();
        __atomic_add_fetch(&posts_made, 1, __ATOMIC_SEQ_CST);
    }
}
/* Returns once the kernel says that the loop's thread sleeps. */
static void stop_posts_and_wait_for_sleep(void) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)polling_thread);
    __atomic_store_n(&wants_hold, 1, __ATOMIC_SEQ_CST);
    while (!count_of(&is_held)) sched_yield();
    for (bool sleeps = false; !sleeps; sched_yield()) {
        const int file = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t length = read(file, line, sizeof line - 1);
        close(file);
        line[length < 0 ? 0 : length] = 0;
        const char *state = strrchr(line, ')');
        sleeps = state && state[1] && state[2] == 'S';
    }
}

RL_TEST(a_post_is_held_up_at_any_instruction, "S-WAKE-1",
        "At any instruction of a post its thread may stop: a loop that polls because posts come fast goes to sleep, and is woken by the end of the post") {
    loop_thread_start(&polling, run_for_posts, NULL);
    gate_wait(&polling_begins);
    Thread *other = thread_start(post_fast, NULL);
    bool reached = true;
    for (long instructions = 1; reached; instructions++) {
        wait_until_count(&posts_made, count_of(&posts_made) + 1000);
        reached = interrupt(post_one, instructions, stop_posts_and_wait_for_sleep);
        __atomic_store_n(&wants_hold, 0, __ATOMIC_SEQ_CST);
        while (count_of(&is_held)) sched_yield();
    }
    __atomic_store_n(&posts_are_over, 1, __ATOMIC_SEQ_CST);
    thread_join(other);
    RLStop(polling.loop);
    thread_join(polling.thread);
}

/* Loops that look for what was lost, and find a request */

static void end_run(RLObserverRef observer, RLActivity activity, void *unused) {
    (void)observer, (void)activity, (void)unused;
    RLStop(RLGetCurrent());
}
static void prepare_look(void) {
    RLObserverRef observer = RLObserverCreate(kRLBeforeWaiting, true, 0, end_run, NULL);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
    RLRelease(observer);
    keep_alive(RLGetCurrent(), kRLDefaultMode);
}
/* A run that looks and does not sleep. */
static void look(void) { RLRunInMode(kRLDefaultMode, 1e6, false); }
static void look_elsewhere(void) {
    prepare_look();
    look();
}
static void expect_no_line(const char *line, void *unused) {
    (void)line, (void)unused;
    _exit(1);
}
static void ignore_step(void) {}
/* In the child of a fork, which has a request to show its loops that the first look finds. */
static void look_in_two_threads(long instructions) {
    RLSetLogHandler(expect_no_line, NULL);
    other_call = look_elsewhere;
    thread_start(make_calls, NULL);
    interrupt(look, instructions, ask_other);
    _exit(0);
}

RL_TEST(two_loops_find_a_request, "S-OUT-7 S-FD-18",
        "At any instruction of a loop's look another loop may find the request to share with which a forked child begins: neither reports a lost descriptor") {
    share_alone();
    ck_assert(RLSetShared(true));
    prepare_look();
    look();
    begin_steps(LONG_MAX, ignore_step);
    look();
    end_steps();
    const long count = LONG_MAX - steps_left;
    /* In the first half the run begins. */
    for (long instructions = count / 2; instructions <= count; instructions++) {
        const pid_t child = fork();
        if (child == 0) look_in_two_threads(instructions);
        int status;
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
    RLSetShared(false);
}

#endif
