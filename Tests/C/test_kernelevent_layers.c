/* SPDX-License-Identifier: MIT */
/*
 * Signal sources below and above handlers of the program's that call each other, leave by siglongjmp(3) and are installed again: each delivery is
 * reported, and comes to every handler.
 */
#define _GNU_SOURCE
#include "support.h"

#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int reports;
static void note(RLSourceRef source, const RLKernelEvent *event, void *info) {
    (void)source, (void)info;
    reports += (int)event->data;
}
static RLSourceRef make(void) {
    RLKernelEvent event = {SIGUSR1, kRLKernelFilterSignal, 0, 0, 0, NULL};
    RLSourceRef source = RLKernelEventSourceCreate(&event, note, NULL);
    ck_assert_ptr_nonnull(source);
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    return source;
}
static void end(RLSourceRef source) {
    RLSourceInvalidate(source);
    RLRelease(source);
}
static void take_reports(void) {
    while (RLRunInMode(kRLDefaultMode, 0, true) == kRLRunHandledSource) continue;
}

/* The lowest handler. */
static sigjmp_buf back;
static bool jumps;
static int called, blocked;
static void lowest(int number) {
    (void)number;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    blocked += sigismember(&mask, SIGUSR2);
    called++;
    if (jumps) siglongjmp(back, 1);
}
static void install(void (*handler)(int), int flags, int with_blocked) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (with_blocked) sigaddset(&action.sa_mask, with_blocked);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
}

/* Handlers that call what they found, each with memory of its own on the stack, of which it writes all, or nothing. */
enum { CHAIN = 6 };
static struct sigaction found[CHAIN];
static size_t room[CHAIN];
static int filled_with[CHAIN];
static bool passes_context;
static int uses;
static void use(volatile char *bytes) { uses += bytes[0] == 1; }
static void call_found(int place, int number, siginfo_t *info, void *context) {
    volatile char bytes[room[place]];
    if (filled_with[place] >= 0) memset((void *)bytes, filled_with[place], sizeof bytes);
    use(bytes);
    if (passes_context && found[place].sa_flags & SA_SIGINFO) found[place].sa_sigaction(number, info, context);
    else ((void (*)(int))found[place].sa_handler)(number);
    use(bytes);
}
#define CHAINING(place) \
    static void chaining_##place(int number, siginfo_t *info, void *context) { call_found(place, number, info, context); }
CHAINING(0) CHAINING(1) CHAINING(2) CHAINING(3) CHAINING(4) CHAINING(5)
static void (*const chain[CHAIN])(int, siginfo_t *, void *) = {chaining_0, chaining_1, chaining_2, chaining_3, chaining_4, chaining_5};
static void cover(int place, size_t size, int filling, int flags) {
    room[place] = size;
    filled_with[place] = filling;
    struct sigaction action = {.sa_flags = flags};
    action.sa_sigaction = chain[place];
    ck_assert_int_eq(sigaction(SIGUSR1, &action, &found[place]), 0);
}

static __attribute__((noinline)) void deliver_at(int depth) {
    volatile char pad[512];
    pad[0] = (char)depth;
    if (depth > 0) deliver_at(depth - 1);
    else if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
    use(pad);
}
static unsigned seed;
static unsigned any(unsigned below) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 9) % below;
}

/* Once in each delivery where the contexts are passed on, at least once where not. */
static void deliver_and_check(int depth) {
    const int before = called, reported = reports;
    deliver_at(depth);
    take_reports();
    ck_assert_msg(called > before && reports > reported, "seed %u: %d calls, %d reports", seed, called - before, reports - reported);
    if (passes_context) ck_assert_msg(called == before + 1 && reports == reported + 1, "seed %u: %d calls, %d reports", seed, called - before, reports - reported);
}
static void chains_of_handlers(bool with_context) {
    passes_context = with_context;
    for (int round = 0; round < 400; round++) {
        seed = (unsigned)round * 2654435761u + 1;
        install(lowest, 0, 0);
        RLSourceRef source = make();
        int covers = 0;
        for (int step = 0; step < 40; step++) {
            if (covers < CHAIN && any(8) == 0) {
                const size_t size = 16 + any(2) * any(20000);
                cover(covers, size, any(3) ? -1 : (int)any(256), with_context || covers % 2 ? SA_SIGINFO : 0);
                covers++;
            } else if (any(10) == 0) {
                end(source);
                source = make();
            } else {
                jumps = any(3) != 0;
                deliver_and_check(any(3) ? 2 : (int)any(40));
            }
        }
        end(source);
        signal(SIGUSR1, SIG_DFL);
        /* What was covered stays installed below; the next round begins with other memory. */
        jumps = false;
    }
}

RL_TEST(chains_that_pass_their_context_on, "S-KEV-2 S-KEV-3 S-KEV-15",
        "Each delivery is reported once, and comes to the lowest handler once, which may leave by siglongjmp, whatever lies on the stack") {
    chains_of_handlers(true);
}

RL_TEST(chains_without_a_context, "S-KEV-3 S-KEV-15", "Through handlers with one argument each delivery is reported at least, and comes to the lowest handler") {
    chains_of_handlers(false);
}

RL_TEST(a_chain_with_large_frames, "S-KEV-2 S-KEV-3", "However much memory a handler has on the stack, or lets the next one have, a delivery counts once") {
    passes_context = true;
    install(lowest, 0, 0);
    RLSourceRef source = make();
    cover(0, 600 << 10, -1, SA_SIGINFO);
    end(source);
    source = make();
    for (int i = 0; i < 10; i++) deliver_and_check(0);
    end(source);
}

static __attribute__((noinline)) void deliver_deeper(int levels) {
    volatile char pad[2000];
    pad[0] = 0;
    if (sigsetjmp(back, 1) == 0) raise(SIGUSR1);
    if (levels > 1) deliver_deeper(levels - 1);
    use(pad);
}

RL_TEST(jumps_at_ever_deeper_places, "S-KEV-3 S-KEV-15", "Forty prompts, each inside the one before, are each left by siglongjmp, through a handler with one argument: none is missed") {
    jumps = true;
    install(lowest, 0, 0);
    RLSourceRef source = make();
    passes_context = false;
    cover(0, 16, 0, 0);
    deliver_deeper(40);
    take_reports();
    ck_assert_int_eq(called, 40);
    ck_assert_int_eq(reports, 40);
    end(source);
}

/* Covers for a moment. */
static void (*covered)(int);
static int deferred;
static void pass_on_once(int number) {
    signal(SIGUSR1, covered);
    covered(number);
}
static void defer(int number) { deferred = number; }
static __attribute__((noinline)) void deliver_below_memory(void (*momentary)(int)) {
    volatile char pad[16 << 10];
    pad[0] = 0;
    if (sigsetjmp(back, 1) == 0) {
        covered = signal(SIGUSR1, momentary);
        raise(SIGUSR1);
        if (deferred) {
            signal(SIGUSR1, covered);
            deferred = 0;
            covered(SIGUSR1);
        }
    }
    use(pad);
}

RL_TEST(a_cover_for_a_moment, "S-KEV-3 S-KEV-15",
        "A handler that puts back what it covered and calls it, in the delivery or after it, misses nothing, though an earlier delivery was left by siglongjmp") {
    jumps = true;
    for (int after = 0; after < 2; after++) {
        install(lowest, 0, 0);
        RLSourceRef source = make();
        for (int i = 0; i < 10; i++) {
            deliver_and_check(0);
            const int before = called, reported = reports;
            deliver_below_memory(after ? defer : pass_on_once);
            take_reports();
            ck_assert_int_eq(called, before + 1);
            ck_assert_int_eq(reports, reported + 1);
        }
        end(source);
    }
}

static void nothing(int number) { (void)number; }

RL_TEST(restored_after_the_same_handler_with_other_flags, "S-KEV-3",
        "An action that was saved does what it did when it is restored, though its handler was installed with SA_RESETHAND or another mask meanwhile, below another source") {
    if (is_left_out_by_thread_sanitizer("it keeps the actions of signals itself, and calls handlers later than the kernel")) return;
    for (int kind = 0; kind < 2; kind++) {
        struct sigaction first, second;
        called = blocked = 0;
        install(lowest, 0, 0);
        RLSourceRef source = make();
        sigaction(SIGUSR1, &(struct sigaction){.sa_handler = nothing}, &first);
        end(source);
        struct sigaction other = {.sa_handler = lowest, .sa_flags = kind == 0 ? (int)SA_RESETHAND : 0};
        if (kind == 1) sigaddset(&other.sa_mask, SIGUSR2);
        sigaction(SIGUSR1, &other, &second);
        source = make();
        raise(SIGUSR1);
        sigaction(SIGUSR1, &second, NULL);
        end(source);
        sigaction(SIGUSR1, &first, NULL);
        ck_assert_int_eq(called, 1);
        ck_assert_int_eq(blocked, kind);
        for (int i = 0; i < 3; i++) raise(SIGUSR1);
        ck_assert_int_eq(called, 4);
        ck_assert_int_eq(blocked, kind);
    }
}

RL_TEST(actions_that_are_gone_keep_no_memory, "S-THR-9 S-KEV-3", "A source made over ever other actions of the program's leaves nothing behind") {
    size_t before = 0;
    for (int i = 0; i < 3000; i++) {
        if (i == 200) before = mallinfo2().uordblks;
        struct sigaction action = {.sa_handler = nothing};
        for (int bit = 0; bit < 12; bit++)
            if (i >> bit & 1) sigaddset(&action.sa_mask, SIGRTMIN + bit);
        sigaction(SIGUSR1, &action, NULL);
        end(make());
        struct sigaction now;
        sigaction(SIGUSR1, NULL, &now);
        ck_assert(now.sa_handler == nothing);
        ck_assert_int_eq(sigismember(&now.sa_mask, SIGRTMIN), i & 1);
    }
    ck_assert_uint_le(mallinfo2().uordblks, before + 20000);
}

/* As System V's. */
static int turn;
static void again(int number) {
    (void)number;
    called++;
    install(again, (int)SA_RESETHAND, 0);
}
static void make_and_end_in_turn(void *unused) {
    (void)unused;
    for (;;) {
        const int now = __atomic_load_n(&turn, __ATOMIC_SEQ_CST);
        if (now < 0) return;
        if (now == 0) continue;
        RLKernelEvent event = {SIGUSR1, kRLKernelFilterSignal, 0, 0, 0, NULL};
        RLSourceRef source = RLKernelEventSourceCreate(&event, note, NULL);
        RLSourceInvalidate(source);
        RLRelease(source);
        __atomic_store_n(&turn, 0, __ATOMIC_SEQ_CST);
    }
}

RL_TEST(a_handler_that_installs_itself_again, "S-KEV-3", "A handler with SA_RESETHAND that installs itself in each call is called and stays, though another thread makes and ends a source at that moment") {
    if (is_left_out_by_thread_sanitizer("it keeps the actions of signals itself, and calls handlers later than the kernel")) return;
    if (is_left_out_by_emulator("qemu copies a signal's action while it is replaced")) return;
    Thread *other = thread_start(make_and_end_in_turn, NULL);
    for (int i = 1; i <= 4000; i++) {
        install(again, (int)SA_RESETHAND, 0);
        __atomic_store_n(&turn, 1, __ATOMIC_SEQ_CST);
        for (volatile int pause = 0; pause < i % 300 * 4; pause++) continue;
        raise(SIGUSR1);
        while (__atomic_load_n(&turn, __ATOMIC_SEQ_CST) != 0) continue;
        ck_assert_int_ge(called, i);
        struct sigaction now;
        sigaction(SIGUSR1, NULL, &now);
        ck_assert(now.sa_handler == again);
    }
    __atomic_store_n(&turn, -1, __ATOMIC_SEQ_CST);
    thread_join(other);
}

RL_TEST(a_table_of_small_numbers, "S-KEV-3", "What a handler has on its stack is not changed by the library's, whatever it looks like") {
    RLSourceRef source = make();
    struct sigaction ours;
    sigaction(SIGUSR1, NULL, &ours);
    for (long first = 0; first < 20; first++) {
        for (long step = 0; step < 8; step++) {
            volatile long table[64];
            for (int i = 0; i < 64; i++) table[i] = first + step * i;
            ((void (*)(int))ours.sa_handler)(SIGUSR1);
            for (int i = 0; i < 64; i++) ck_assert_int_eq(table[i], first + step * i);
        }
    }
    end(source);
}

static void *given_context;
static void with_context(int number, siginfo_t *info, void *context) {
    if (info->si_signo == number) given_context = context;
}

RL_TEST(a_handler_restored_without_its_flags, "S-KEV-3", "A handler with three arguments that signal(3) has restored gets them from the library's as from the kernel") {
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = with_context;
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGUSR1, signal(SIGUSR1, SIG_IGN));
    RLSourceRef source = make();
    raise(SIGUSR1);
    ck_assert_ptr_nonnull(given_context);
    end(source);
}
