/* SPDX-License-Identifier: MIT */
/*
 * The context of a local port: released once, with the info that it was made with, and never before
 * the last function that gets that info has returned.
 */
#include "messageport_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An info that knows its own life. */
typedef struct Info {
    int uses, releases;
} Info;
static int wrong_releases, dead_uses;

static void use_info(Info *info) {
    if (!info || count_of(&info->releases)) __atomic_add_fetch(&dead_uses, 1, __ATOMIC_SEQ_CST);
    if (info) __atomic_add_fetch(&info->uses, 1, __ATOMIC_SEQ_CST);
}
static void release_info(const void *info) {
    if (!info) __atomic_add_fetch(&wrong_releases, 1, __ATOMIC_SEQ_CST);
    if (info) __atomic_add_fetch(&((Info *)info)->releases, 1, __ATOMIC_SEQ_CST);
}
static void expect_released_once(Info *info) {
    ck_assert_int_eq(count_of(&wrong_releases), 0);
    ck_assert_int_eq(count_of(&dead_uses), 0);
    ck_assert_int_eq(count_of(&info->releases), 1);
}

static RLMessagePortRef make_port(const char *name, RLMessagePortCallBack callout, Info *info, RLMode mode) {
    RLMessagePortContext context = {.info = info, .release = release_info};
    RLMessagePortRef port = RLMessagePortCreateLocal(name, callout, &context, NULL);
    ck_assert_ptr_nonnull(port);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    if (mode) RLAddSource(RLGetCurrent(), source, mode);
    RLRelease(source);
    return port;
}

static int releases_in_callback;
static RLDataRef invalidate_and_look(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)msgid, (void)data;
    use_info(info);
    RLMessagePortInvalidate(port);
    use_info(info);
    releases_in_callback = count_of(&((Info *)info)->releases);
    return NULL;
}
static void use_in_invalidation(RLMessagePortRef port, void *info) {
    (void)port;
    use_info(info);
}

RL_TEST(a_port_ends_in_its_own_callback, "S-MSG-34 S-MSG-41",
        "A port that its message callback invalidates releases its context after that callback, once and with its info") {
    static Info info;
    RLMessagePortRef port = make_port(port_name("own"), invalidate_and_look, &info, "m");
    RLMessagePortSetInvalidationCallBack(port, use_in_invalidation);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("own"));
    send_text(remote, 1, "x");
    RLRunInMode("m", 60, true);
    ck_assert_int_eq(releases_in_callback, 0);
    ck_assert_int_eq(info.uses, 3);
    expect_released_once(&info);
    RLRelease(remote);
    RLRelease(port);
    expect_released_once(&info);
}

typedef struct Bracket {
    int retains, releases;
} Bracket;
static Bracket brackets[8];
static int bracket_count;
static const void *retain_bracket(const void *info) {
    (void)info;
    Bracket *own = &brackets[bracket_count++];
    own->retains++;
    return own;
}
static void release_bracket(const void *info) { ((Bracket *)info)->releases++; }
static RLDataRef invalidate_bracketed(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)msgid, (void)data;
    RLMessagePortInvalidate(port);
    /* The context is released, the callback's own hold is not. */
    ck_assert_int_eq(brackets[0].releases, 1);
    ck_assert_int_eq(((Bracket *)info)->releases, 0);
    return NULL;
}

RL_TEST(a_bracket_outlives_the_context, "S-MSG-19 S-MSG-34 S-MSG-41",
        "With retain a callback that invalidates its port has its own hold on the info, and each hold is released once") {
    RLMessagePortContext context = {.retain = retain_bracket, .release = release_bracket};
    RLMessagePortRef port = RLMessagePortCreateLocal(port_name("bracket"), invalidate_bracketed, &context, NULL);
    RLSourceRef source = RLMessagePortCreateRunLoopSource(port, 0);
    RLAddSource(RLGetCurrent(), source, "m");
    RLRelease(source);
    RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("bracket"));
    send_text(remote, 1, "x");
    RLRunInMode("m", 60, true);
    RLRelease(remote);
    RLRelease(port);
    ck_assert_int_eq(bracket_count, 2);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(brackets[i].releases, 1);
}

/* A message callback and an invalidation that meet. */

static Gate serving, invalidating, over;
static RLDataRef serve_until_invalidation(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)port, (void)msgid, (void)data;
    gate_open(&serving);
    gate_wait(&invalidating);
    use_info(info);
    return NULL;
}
static void invalidate_until_served(RLMessagePortRef port, void *info) {
    (void)port;
    gate_open(&invalidating);
    gate_wait(&over);
    use_info(info);
}
static RLMessagePortRef met;
static Info met_info;
static void serve_met(LoopThread *self) {
    met = make_port(self->data, serve_until_invalidation, &met_info, kRLDefaultMode);
    gate_open(&self->ready);
    RLRunInMode(kRLDefaultMode, 1000, true);
    gate_open(&over);
}

RL_TEST(the_invalidation_callback_has_a_live_info, "S-MSG-34 S-MSG-41 S-THR-8",
        "A message callback that ends during the invalidation callback does not release the context under it") {
    static LoopThread thread;
    serving = invalidating = over = (Gate)GATE_INITIALIZER;
    const char *name = port_name("met");
    Gate *ready = &thread.ready;
    loop_thread_start(&thread, serve_met, (void *)name);
    gate_wait(ready);
    wait_until_waiting(thread.loop);
    RLMessagePortRef remote = RLMessagePortCreateRemote(name);
    send_text(remote, 1, "x");
    gate_wait(&serving);
    RLMessagePortSetInvalidationCallBack(met, invalidate_until_served);
    RLMessagePortInvalidate(met);
    thread_join(thread.thread);
    ck_assert_int_eq(met_info.uses, 2);
    expect_released_once(&met_info);
    RLRelease(met);
    RLRelease(remote);
}

static char *describe_slowly(const void *info) {
    gate_open(&serving);
    gate_wait(&over);
    use_info((Info *)info);
    return strdup("info");
}
static void copy_description(void *port) { free(RLCopyDescription(port)); }

RL_TEST(a_description_has_a_live_info, "S-MSG-34 S-MSG-41",
        "An invalidation during the description callback of another thread leaves the context to that callback") {
    static Info info;
    serving = over = (Gate)GATE_INITIALIZER;
    RLMessagePortContext context = {.info = &info, .release = release_info, .copyDescription = describe_slowly};
    RLMessagePortRef port = RLMessagePortCreateLocal(NULL, NULL, &context, NULL);
    Thread *describer = thread_start(copy_description, port);
    gate_wait(&serving);
    RLMessagePortInvalidate(port);
    ck_assert_int_eq(count_of(&info.releases), 0);
    gate_open(&over);
    thread_join(describer);
    expect_released_once(&info);
    RLRelease(port);
}

static RLMessagePortRef lost;
static Info lost_info;
static void end_lost_port(void *invalidates) {
    ck_assert(!RLMessagePortIsValid(lost));
    ck_assert_int_eq(lost_info.releases, 0);
    for (int i = 0; invalidates && i < 2; i++) {
        RLMessagePortInvalidate(lost);
        ck_assert_int_eq(lost_info.releases, 1);
    }
    RLRelease(lost);
    expect_released_once(&lost_info);
}

RL_TEST(a_lost_port_s_context_is_released, "S-MSG-53 S-MSG-41",
        "In the child of a fork the context of the parent's port is released by the first Invalidate, or with the last reference, once") {
    lost = make_port(port_name("lost"), NULL, &lost_info, NULL);
    RLMessagePortSetInvalidationCallBack(lost, use_in_invalidation);
    for (int i = 0; i < 2; i++) {
        ChildResult result = run_child(end_lost_port, i == 0 ? lost : NULL);
        ck_assert_msg(result.status == 0, "status %#x, wrote: %s", result.status, result.output);
    }
    RLRelease(lost);
    expect_released_once(&lost_info);
}

static void release_port(const void *info) {
    (void)info;
    RLRelease(lost);
}
static void invalidate_last(void *unused) {
    (void)unused;
    RLMessagePortInvalidate(lost);
    /* Memory that was given back twice is given out twice. */
    void *blocks[64];
    for (int i = 0; i < 64; i++) blocks[i] = malloc(544);
    for (int i = 0; i < 64; i++)
        for (int j = 0; j < i; j++) ck_assert_ptr_ne(blocks[i], blocks[j]);
}

RL_TEST(a_lost_port_goes_in_its_release, "S-MSG-53 S-MSG-34",
        "In the child of a fork the release of the context may drop the last reference to the port") {
    RLMessagePortContext context = {.info = &lost_info, .release = release_port};
    lost = RLMessagePortCreateLocal(port_name("last"), NULL, &context, NULL);
    for (int i = 0; i < 20; i++) {
        ChildResult result = run_child(invalidate_last, NULL);
        ck_assert_msg(result.status == 0, "status %#x, wrote: %s", result.status, result.output);
    }
}

/* The maker's retain, in which another thread makes a port of the same name. */
static const char *made_name;
static Info other_info, made_info;
static RLMessagePortRef other_port;
static void make_other(void *unused) {
    (void)unused;
    RLMessagePortContext context = {.info = &other_info, .release = release_info};
    bool should_free = true;
    other_port = RLMessagePortCreateLocal(made_name, NULL, &context, &should_free);
    ck_assert_ptr_nonnull(other_port);
    ck_assert(!should_free);
    RLMessagePortGetContext(other_port, &context);
    ck_assert_ptr_eq(context.info, &other_info);
}
static const void *make_other_in_retain(const void *info) {
    (void)info;
    thread_join(thread_start(make_other, NULL));
    return &made_info;
}

RL_TEST(a_port_is_found_with_its_retained_info, "S-MSG-41 S-MSG-2 S-MSG-6",
        "While one thread retains the info for a new port, another makes its own port of that name; the first gets that one, and what it "
        "retained is released") {
    Info given = {0};
    bool should_free = false;
    made_name = port_name("made");
    RLMessagePortContext context = {.info = &given, .retain = make_other_in_retain, .release = release_info};
    RLMessagePortRef port = RLMessagePortCreateLocal(made_name, NULL, &context, &should_free);
    ck_assert_ptr_eq(port, other_port);
    ck_assert(should_free);
    ck_assert_int_eq(given.releases, 0);
    expect_released_once(&made_info);
    ck_assert_int_eq(other_info.releases, 0);
    RLRelease(port);
    RLRelease(other_port);
    expect_released_once(&other_info);
}

RL_TEST(an_invalid_ports_context_has_no_info, "S-MSG-34 S-MSG-41", "GetContext gives no info of an invalid port") {
    static Info info;
    RLMessagePortRef port = make_port(port_name("get"), NULL, &info, NULL);
    RLMessagePortContext context;
    RLMessagePortGetContext(port, &context);
    ck_assert_ptr_eq(context.info, &info);
    RLMessagePortInvalidate(port);
    RLMessagePortGetContext(port, &context);
    ck_assert_ptr_null(context.info);
    expect_released_once(&info);
    RLRelease(port);
}

static RLDataRef use_and_reply(RLMessagePortRef port, int32_t msgid, RLDataRef data, void *info) {
    (void)data;
    use_info(info);
    if (msgid == 2) RLMessagePortInvalidate(port);
    sched_yield();
    use_info(info);
    return NULL;
}
static void invalidate_port(void *port) {
    sched_yield();
    RLMessagePortInvalidate(port);
}

RL_TEST(many_ports_end_while_they_serve, "S-MSG-34 S-MSG-41 S-THR-8",
        "Of many ports that end in their callbacks and from another thread while they serve, each releases its context once") {
    enum { PORTS = 1000 };
    Info *infos = calloc(PORTS, sizeof *infos);
    const char *name = port_name("many");
    for (int i = 0; i < PORTS; i++) {
        RLMessagePortRef port = make_port(name, use_and_reply, &infos[i], "m");
        RLMessagePortSetInvalidationCallBack(port, use_in_invalidation);
        RLMessagePortRef remote = RLMessagePortCreateRemote(name);
        ck_assert_ptr_nonnull(remote);
        send_text(remote, i % 3, "x");
        Thread *other = thread_start(invalidate_port, port);
        RLRunInMode("m", 0, true);
        thread_join(other);
        RLRelease(remote);
        RLRelease(port);
        expect_released_once(&infos[i]);
    }
    free(infos);
}

static void end_thread(RLMessagePortRef port, void *info) {
    if (!RLMessagePortIsRemote(port)) use_info(info);
    pthread_exit(NULL);
}
static void end_in_invalidation(void *port) {
    RLMessagePortInvalidate(port);
    ck_abort_msg("the callback has ended the thread");
}
static void end_in_release(void *port) {
    RLRelease(port);
    ck_abort_msg("the callback has ended the thread");
}

RL_TEST(an_invalidation_callback_ends_its_thread, "S-LOOP-19 S-MSG-34 S-MSG-41",
        "If an invalidation callback ends its thread, the invalidation goes on: the context is released, the source is invalid, nothing "
        "of the port stays open, and the port is freed") {
    Info *infos = calloc(4, sizeof *infos);
    RLRunInMode("m", 0, true);
    RLMessagePortRef local = make_port(port_name("asked"), use_and_reply, &infos[0], "m");
    int before = count_descriptors();
    for (int i = 1; i < 4; i++) {
        RLMessagePortRef ends = make_port(port_name("ends"), use_and_reply, &infos[i], "m");
        RLSourceRef source = RLMessagePortCreateRunLoopSource(ends, 0);
        RLMessagePortSetInvalidationCallBack(ends, end_thread);
        RLMessagePortRef remote = RLMessagePortCreateRemote(port_name("asked"));
        RLDataRef reply = NULL;
        ck_assert_int_eq(RLMessagePortSendRequest(remote, 0, "x", 1, 60, 60, "m", &reply), kRLMessagePortSuccess);
        RLRelease(reply);
        RLMessagePortSetInvalidationCallBack(remote, end_thread);
        const bool isLast = i == 3;
        thread_join(thread_start(isLast ? end_in_release : end_in_invalidation, ends));
        thread_join(thread_start(isLast ? end_in_release : end_in_invalidation, remote));
        expect_released_once(&infos[i]);
        ck_assert(!RLSourceIsValid(source));
        ck_assert(!RLContainsSource(RLGetCurrent(), source, "m"));
        RLRelease(source);
        if (isLast) break;
        ck_assert_int_eq(RLGetRetainCount(ends), 1);
        ck_assert_int_eq(RLGetRetainCount(remote), 1);
        RLRelease(ends);
        RLRelease(remote);
    }
    /* The end of the connections, and that of the thread that watched them. */
    while (count_descriptors() > before) RLRunInMode("m", 0.001, true);
    RLRelease(local);
    free(infos);
}
