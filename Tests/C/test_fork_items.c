/* SPDX-License-Identifier: MIT */
/*
 * What the child of fork may do with items of loops that do not exist there: every kind of item, in every state in which the other
 * thread can have left it, and every call. The probes are static, because what is left in a loop outlives the case that put it
 * there.
 */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { V0, PORT, INBOX, ONE_SHOT, REPEATING, OBSERVER, KINDS };
enum state { IDLE, READY, PARKED, COMMON, IN_TWO_LOOPS, IN_TWO_VANISHED, IN_BATCH, IN_CALLBACK, OUT_IN_CALLBACK, MOVED_IN_CALLBACK, FORMER, STATES };
enum call { ADD, ADD_COMMON, REMOVE, REMOVE_COMMON, REMOVE_OWN, INVALIDATE, MAKE_READY, RELEASE, DESCRIBE, CALLS };

static const char *const kind_names[] = {"v0", "port", "inbox", "one-shot", "repeating", "observer"};
static const char *const state_names[] = {"idle", "ready", "parked", "common", "in two loops", "in two vanished loops", "in a batch",
                                          "in its callback", "taken out in its callback", "moved here in its callback", "formerly in it"};
static const char *const call_names[] = {"add", "add to common", "remove", "remove from common", "remove from own", "invalidate",
                                         "make ready", "release", "describe"};

enum { ITEMS = 3 };
static Probe items[ITEMS];
static RLMachPortRef mach_ports[ITEMS];
static int write_ends[ITEMS];
static enum kind kind;
static enum state state;
static enum call call;
static RLRunLoopRef own, other, third;
static Gate inside, leave;
static bool in_child;

static bool is_source(void) { return kind <= INBOX; }

static bool is_in_callback(void) { return IN_CALLBACK <= state && state <= MOVED_IN_CALLBACK; }

static void add(RLRunLoopRef loop, Probe *probe, RLMode mode);
static void take_out(RLRunLoopRef loop, Probe *probe, RLMode mode);
static void block(Probe *self) {
    if (in_child || (state != IN_BATCH && !is_in_callback())) return;
    if (state > IN_CALLBACK) take_out(RLGetCurrent(), self, kRLDefaultMode);
    if (state == MOVED_IN_CALLBACK) add(own, self, kRLDefaultMode);
    gate_open(&inside);
    gate_wait(&leave);
}

static void received(RLMachPortRef port, const RLMachMessage *message, void *info) {
    Probe *probe = info;
    (void)port, (void)message;
    __atomic_add_fetch(&probe->calls, 1, __ATOMIC_SEQ_CST);
    if (probe->action) probe->action(probe);
}

static void make(int index) {
    Probe *probe = &items[index];
    *probe = (Probe){.action = block};
    int ends[2];
    switch (kind) {
    case V0: probe_source(probe, index); break;
    case PORT:
        make_pipe(ends);
        write_ends[index] = ends[1];
        probe_port(probe, ends[0]);
        break;
    case INBOX: {
        RLMachPortContext context = {0, probe, NULL, NULL, NULL};
        mach_ports[index] = RLMachPortCreate(received, &context, NULL);
        probe->source = RLMachPortCreateRunLoopSource(mach_ports[index], 0);
        break;
    }
    case ONE_SHOT: probe_timer(probe, FAR_FUTURE, 0); break;
    case REPEATING: probe_timer(probe, FAR_FUTURE, 1000); break;
    default: probe_observer(probe, kRLBeforeTimers, true, 0);
    }
}

static void add(RLRunLoopRef loop, Probe *probe, RLMode mode) {
    RLAddSource(loop, probe->source, mode);
    RLAddTimer(loop, probe->timer, mode);
    RLAddObserver(loop, probe->observer, mode);
}
static void take_out(RLRunLoopRef loop, Probe *probe, RLMode mode) {
    RLRemoveSource(loop, probe->source, mode);
    RLRemoveTimer(loop, probe->timer, mode);
    RLRemoveObserver(loop, probe->observer, mode);
}
static bool contains(RLRunLoopRef loop, Probe *probe, RLMode mode) {
    return RLContainsSource(loop, probe->source, mode) || RLContainsTimer(loop, probe->timer, mode) ||
           RLContainsObserver(loop, probe->observer, mode);
}
static void make_ready(Probe *probe) {
    int index = (int)(probe - items);
    switch (kind) {
    case V0: RLSourceSignal(probe->source); break;
    case PORT: write_byte(write_ends[index]); break;
    case INBOX: RLMachPortSend(mach_ports[index], 1, "m", 1, NULL, 0); break;
    case ONE_SHOT:
    case REPEATING: RLTimerSetNextFireDate(probe->timer, date_in(-1)); break;
    default: break;
    }
}
static void invalidate(Probe *probe) {
    RLSourceInvalidate(probe->source);
    RLTimerInvalidate(probe->timer);
    RLObserverInvalidate(probe->observer);
}
static void release(Probe *probe) {
    RLRelease(probe->source);
    RLRelease(probe->timer);
    RLRelease(probe->observer);
    probe->source = NULL;
    probe->timer = NULL;
    probe->observer = NULL;
}

/* On the other thread: puts the items where they are to be at the fork. */
static void put_into(RLRunLoopRef loop) {
    RLAddCommonMode(loop, "second");
    for (int i = 0; i < ITEMS; i++) {
        add(loop, &items[i], state == COMMON ? kRLCommonModes : kRLDefaultMode);
        if (state != IDLE && state != FORMER) make_ready(&items[i]);
        if (state == FORMER) take_out(loop, &items[i], kRLDefaultMode);
    }
    if (state == PARKED) {
        keep_alive(loop, "other");
        RLRunInMode("other", 0, false);
    }
}
static void stay(LoopThread *self) {
    put_into(self->loop);
    if (state == IN_BATCH || is_in_callback()) {
        /* The first one's callback does not return; the others' turns are still to come. */
        keep_alive(self->loop, kRLDefaultMode);
        RLRunInMode(kRLDefaultMode, 60, false);
    } else {
        gate_open(&inside);
    }
    gate_wait(&leave);
}
static void stay_too(LoopThread *self) {
    for (int i = 0; i < ITEMS; i++) add(self->loop, &items[i], kRLDefaultMode);
    gate_open(self->data);
    gate_wait(&leave);
}

/* In the child */

static void make_call(Probe *probe) {
    switch (call) {
    case ADD: add(own, probe, kRLDefaultMode); break;
    case ADD_COMMON: add(own, probe, kRLCommonModes); break;
    case REMOVE: take_out(other, probe, kRLDefaultMode); break;
    case REMOVE_COMMON: take_out(other, probe, kRLCommonModes); break;
    case REMOVE_OWN: take_out(own, probe, kRLDefaultMode); break;
    case INVALIDATE: invalidate(probe); break;
    case MAKE_READY: make_ready(probe); break;
    case RELEASE: release(probe); break;
    default:
        free(RLCopyDescription(probe->source));
        free(RLCopyDescription(probe->timer));
        free(RLCopyDescription(probe->observer));
    }
}

static void use_vanished(RLRunLoopRef loop) {
    RLIndex count = 0;
    static Probe late = {.name = NULL};
    if (!late.source) probe_source(&late, 0);
    ck_assert(!RLIsWaiting(loop));
    ck_assert_ptr_null(RLCopyCurrentMode(loop));
    free(RLCopyAllModes(loop, &count));
    ck_assert_int_eq(count, 1);
    free(RLCopyDescription(loop));
    ck_assert(RLGetNextTimerFireDate(loop, kRLDefaultMode) == 0);
    RLAddCommonMode(loop, "late");
    RLAddSource(loop, late.source, kRLDefaultMode);
    RLAddSource(loop, late.source, kRLCommonModes);
    ck_assert(!RLContainsSource(loop, late.source, kRLDefaultMode));
    probe_perform(&late, loop, kRLDefaultMode);
    RLWakeUp(loop);
    RLStop(loop);
    RLCancelPerformInOrder(loop, &late, NULL, NULL);
    RLRetain(loop);
    RLRelease(loop);
}

/* Puts it into the child's loop, if it can be put anywhere, and expects to be called for it. */
static void use(Probe *probe) {
    if (!probe->source && !probe->timer && !probe->observer) return;
    bool is_valid = RLSourceIsValid(probe->source) || RLTimerIsValid(probe->timer) || RLObserverIsValid(probe->observer);
    add(own, probe, kRLDefaultMode);
    ck_assert_int_eq(contains(own, probe, kRLDefaultMode), is_valid);
    ck_assert(!contains(other, probe, kRLDefaultMode) && !contains(other, probe, kRLCommonModes));
    if (is_valid) make_ready(probe);
    int calls = probe->calls;
    for (int i = 0; i < 20 && probe->calls == calls; i++) RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(probe->calls > calls, is_valid);
}

static void live_on(void *unused) {
    (void)unused;
    in_child = true;
    alarm(60);
    make_call(&items[0]);
    /* Another one of the same lists: first a Remove, which would touch its neighbours, then an Add. */
    take_out(other, &items[1], kRLDefaultMode);
    use(&items[1]);
    make_call(&items[2]);
    use(&items[0]);
    use_vanished(other);
    if (third) use_vanished(third);
    Probe fresh = {.name = NULL};
    RLSourceSignal(add_source(&fresh, kRLDefaultMode));
    while (fresh.calls == 0) RLRunInMode(kRLDefaultMode, 0, true);
    for (int i = 0; i < ITEMS; i++) {
        invalidate(&items[i]);
        ck_assert(!contains(own, &items[i], kRLDefaultMode) && !contains(own, &items[i], kRLCommonModes));
        release(&items[i]);
    }
    RLRunInMode(kRLDefaultMode, 0, false);
    RLSourceInvalidate(fresh.source);
}
/* The child of a child, which has a vanished loop of its own time and one of its parent's. */
static void live_on_in_a_grandchild(void *unused) {
    in_child = true;
    RLRunInMode(kRLDefaultMode, 0, false);
    ChildResult result = run_child(live_on, unused);
    ck_assert_msg(result.status == 0, "status %#x, wrote: %s", result.status, result.output);
}

static void try_all_calls(void) {
    /* A timer or an observer is in one loop at a time, and an observer is never ready. */
    if (!is_source() && (state == IN_TWO_LOOPS || state == IN_TWO_VANISHED)) return;
    LoopThread first = {0}, second = {0};
    Gate added = GATE_INITIALIZER;
    inside = leave = (Gate)GATE_INITIALIZER;
    own = RLGetCurrent();
    third = NULL;
    for (int i = 0; i < ITEMS; i++) make(i);
    if (state == IN_TWO_LOOPS)
        for (int i = 0; i < ITEMS; i++) add(own, &items[i], kRLDefaultMode);
    if (state == IN_TWO_VANISHED) {
        loop_thread_start(&second, stay_too, &added);
        third = second.loop;
        gate_wait(&added);
    }
    if (is_in_callback())
        for (int i = 1; i < ITEMS; i++) items[i].action = NULL;
    loop_thread_start(&first, stay, NULL);
    other = first.loop;
    gate_wait(&inside);
    for (call = 0; call < CALLS; call++) {
        for (int depth = 0; depth < 2; depth++) {
            ChildResult result = run_child(depth ? live_on_in_a_grandchild : live_on, NULL);
            ck_assert_msg(result.status == 0, "%s, %s, %s, depth %d: status %#x, wrote: %s", kind_names[kind], state_names[state],
                          call_names[call], depth, result.status, result.output);
        }
    }
    /* Where its thread is in a callback, the run ends after it. */
    RLStop(other);
    gate_open(&leave);
    thread_join(first.thread);
    if (third) thread_join(second.thread);
    for (int i = 0; i < ITEMS; i++) {
        invalidate(&items[i]);
        release(&items[i]);
        if (kind == PORT) close(write_ends[i]), close(items[i].fd);
        if (kind == INBOX) RLMachPortInvalidate(mach_ports[i]), RLRelease(mach_ports[i]);
    }
}
static void try_kind(enum kind which) {
    kind = which;
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (state = 0; state < STATES; state++) try_all_calls();
}

RL_TEST(version_0_sources, "S-FORK-3 S-FORK-1", "In the child every call works on version 0 sources of vanished loops, whatever state they were in") {
    try_kind(V0);
}
RL_TEST(port_sources, "S-FORK-3 S-FORK-1", "The same for version 1 sources") { try_kind(PORT); }
RL_TEST(inboxes, "S-FORK-3 S-FORK-1", "The same for the sources of Mach-like ports") { try_kind(INBOX); }
RL_TEST(one_shot_timers, "S-FORK-3 S-FORK-1", "The same for one-shot timers") { try_kind(ONE_SHOT); }
RL_TEST(repeating_timers, "S-FORK-3 S-FORK-1", "The same for repeating timers") { try_kind(REPEATING); }
RL_TEST(observers, "S-FORK-3 S-FORK-1", "The same for observers") { try_kind(OBSERVER); }

static void ignore_report(RLSourceRef source, const RLKernelEvent *event, void *info) { (void)source, (void)event, (void)info; }

/* Sources of files that cannot be made, as a program makes them that looks whether a file is there. */
static bool quits_making;
static void make_impossible_sources(void *kind) {
    RLDistributedLockRef lock = RLDistributedLockCreate("/missing/lock");
    while (!__atomic_load_n(&quits_making, __ATOMIC_SEQ_CST)) {
        RLKernelEvent event = {.ident = UINT16_MAX, .filter = kRLKernelFilterVnode, .fflags = kRLNoteWrite};
        if (*(int *)kind == 1) event.path = "/missing/file";
        if (*(int *)kind == 2) event = (RLKernelEvent){.ident = (uintptr_t)lock, .filter = kRLKernelFilterDistributedLock};
        RLRelease(RLKernelEventSourceCreate(&event, ignore_report, NULL));
    }
    RLRelease(lock);
}

RL_TEST(a_fork_beside_a_source_that_cannot_be_made, "S-KEV-9 S-FORK-1", "The child of a fork ends as it likes while another thread's creation of a source of a file fails") {
    for (int each = 0; each < 3; each++) {
        quits_making = false;
        Thread *thread = thread_start(make_impossible_sources, &each);
        for (int i = 0; i < 300; i++) {
            int status;
            pid_t child = fork();
            if (child == 0) _exit(0);
            ck_assert_int_eq(waitpid(child, &status, 0), child);
            ck_assert_int_eq(status, 0);
        }
        __atomic_store_n(&quits_making, true, __ATOMIC_SEQ_CST);
        thread_join(thread);
    }
}
