/* SPDX-License-Identifier: MIT */
/*
 * When a context is released whose object another thread makes invalid while its callback or its copyDescription runs, and in
 * the child of fork, where that thread, with what it was calling, does not exist. Every kind of object whose Invalidate releases its context.
 */
#define _GNU_SOURCE
#include "messageport_support.h"
#include "support_share.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { ONE_SHOT, REPEATING, OBSERVER, FILE_DESCRIPTOR, SOCKET, MACH_PORT, MESSAGE_PORT, KINDS };
static const char *const kind_names[] = {"one-shot", "repeating", "observer", "descriptor", "socket", "Mach-like port", "message port"};

/* What the callback does on the other thread before it stays there. */
enum deed { NOTHING, INVALIDATES };

static enum kind kind;
static enum deed deed;
static bool with_retain, without_description;
static RLTimerRef timer;
static RLObserverRef observer;
static RLFileDescriptorRef file;
static RLSocketRef sock;
static RLMachPortRef port;
static RLMessagePortRef message_port, remote;
static RLSourceRef source;
static int ends[2], calls, held;
static Gate inside, leave;
static void (*inner)(void), (*on_describe)(void);

/* Where the next retain stays; it has not counted yet. */
static bool stays_in_retain;
static const void *retain(const void *info) {
    if (__atomic_exchange_n(&stays_in_retain, false, __ATOMIC_SEQ_CST)) {
        gate_open(&inside);
        gate_wait(&leave);
    }
    __atomic_add_fetch(&held, 1, __ATOMIC_SEQ_CST);
    return info;
}
static void release(const void *info) {
    (void)info;
    __atomic_sub_fetch(&held, 1, __ATOMIC_SEQ_CST);
}
static char *describe(const void *info) {
    (void)info;
    if (on_describe) on_describe();
    return strdup("described");
}
static char *describe_variable(void *info) { return describe(info); }
static void *retain_variable(void *info) { return (void *)retain(info); }
static void release_variable(void *info) { release(info); }

static void invalidate(void) {
    RLTimerInvalidate(timer);
    RLObserverInvalidate(observer);
    RLFileDescriptorInvalidate(file);
    RLSocketInvalidate(sock);
    RLMachPortInvalidate(port);
    RLMessagePortInvalidate(message_port);
}

static void called(void) {
    calls++;
    if (inner) return inner();
    if (deed == INVALIDATES) invalidate();
    gate_open(&inside);
    gate_wait(&leave);
}
static void timer_fired(RLTimerRef fired, void *info) {
    (void)fired, (void)info;
    called();
}
static void observed(RLObserverRef notified, RLActivity activity, void *info) {
    (void)notified, (void)activity, (void)info;
    called();
}
static void file_ready(RLFileDescriptorRef ready, RLOptionFlags types, void *info) {
    (void)ready, (void)types, (void)info;
    called();
}
static void socket_ready(RLSocketRef ready, RLSocketCallBackType type, RLDataRef address, const void *data, void *info) {
    (void)ready, (void)type, (void)address, (void)data, (void)info;
    called();
}
static void message_came(RLMachPortRef receiver, const RLMachMessage *message, void *info) {
    (void)receiver, (void)message, (void)info;
    called();
}

static RLDataRef message_served(RLMessagePortRef server, int32_t msgid, RLDataRef data, void *info) {
    (void)server, (void)msgid, (void)data, (void)info;
    called();
    return NULL;
}

static void make(void) {
    timer = NULL, observer = NULL, file = NULL, sock = NULL, port = NULL, source = NULL, message_port = remote = NULL;
    calls = 0;
    held = with_retain ? 0 : 1;
    const void *(*retains)(const void *) = with_retain ? retain : NULL;
    char *(*describes)(const void *) = without_description ? NULL : describe;
    RLTimerContext timer_context = {0, &held, retains, release, describes};
    RLObserverContext observer_context = {0, &held, retains, release, describes};
    RLFileDescriptorContext file_context = {0, &held, with_retain ? retain_variable : NULL, release_variable,
                                            without_description ? NULL : describe_variable};
    RLSocketContext socket_context = {0, &held, retains, release, describes};
    RLMachPortContext port_context = {0, &held, retains, release, describes};
    RLMessagePortContext message_context = {0, &held, retains, release, describes};
    make_pipe(ends);
    switch (kind) {
    case ONE_SHOT: timer = RLTimerCreate(FAR_FUTURE, 0, 0, 0, timer_fired, &timer_context); break;
    case REPEATING: timer = RLTimerCreate(FAR_FUTURE, 1000, 0, 0, timer_fired, &timer_context); break;
    case OBSERVER: observer = RLObserverCreate(kRLBeforeTimers, true, 0, observed, &observer_context); break;
    case FILE_DESCRIPTOR:
        file = RLFileDescriptorCreate(ends[0], false, file_ready, &file_context);
        source = RLFileDescriptorCreateRunLoopSource(file, 0);
        break;
    case SOCKET:
        close(ends[0]), close(ends[1]);
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        sock = RLSocketCreateWithNative(ends[0], kRLSocketReadCallBack, socket_ready, &socket_context);
        RLSocketSetSocketFlags(sock, RLSocketGetSocketFlags(sock) & ~(RLOptionFlags)kRLSocketCloseOnInvalidate);
        source = RLSocketCreateRunLoopSource(sock, 0);
        break;
    case MACH_PORT:
        port = RLMachPortCreate(message_came, &port_context, NULL);
        source = RLMachPortCreateRunLoopSource(port, 0);
        break;
    default:
        message_port = RLMessagePortCreateLocal(port_name("release"), message_served, &message_context, NULL);
        source = RLMessagePortCreateRunLoopSource(message_port, 0);
        remote = RLMessagePortCreateRemote(port_name("release"));
        ck_assert_ptr_nonnull(remote);
    }
    ck_assert_int_eq(held, 1);
}
static void unmake(void) {
    invalidate();
    ck_assert_int_eq(__atomic_load_n(&held, __ATOMIC_SEQ_CST), 0);
    RLRelease(timer);
    RLRelease(observer);
    RLRelease(file);
    RLRelease(sock);
    RLRelease(port);
    RLRelease(message_port);
    RLRelease(remote);
    RLRelease(source);
    close(ends[0]), close(ends[1]);
}
static void add(void) {
    RLAddSource(RLGetCurrent(), source, kRLDefaultMode);
    RLAddTimer(RLGetCurrent(), timer, kRLDefaultMode);
    RLAddObserver(RLGetCurrent(), observer, kRLDefaultMode);
}
static void make_ready(void) {
    RLTimerSetNextFireDate(timer, date_in(-1));
    RLFileDescriptorEnableCallBacks(file, kRLFileDescriptorReadCallBack);
    if (file || sock) write_byte(ends[1]);
    RLMachPortSend(port, 1, "m", 1, NULL, 0);
    if (remote) ck_assert_int_eq(send_text(remote, 1, "m"), kRLMessagePortSuccess);
}
static void run_until_called(void) {
    add();
    make_ready();
    for (int i = 0; i < 100 && calls == 0; i++) RLRunInMode(kRLDefaultMode, 0, false);
    ck_assert_int_eq(calls, 1);
}
static void be_in_the_callback(LoopThread *self) {
    keep_alive(self->loop, kRLDefaultMode);
    add();
    make_ready();
    RLRunInMode(kRLDefaultMode, 60, true);
}

static void call_function(void *function) { (*(void (**)(void))function)(); }

static void in_child_of(void (*body)(void), void (*before)(void)) {
    LoopThread other = {0};
    inside = leave = (Gate)GATE_INITIALIZER;
    inner = on_describe = NULL;
    make();
    loop_thread_start(&other, be_in_the_callback, NULL);
    gate_wait(&inside);
    if (before) before();
    ChildResult result = run_child(call_function, &body);
    ck_assert_msg(result.status == 0, "%s, %s: status %#x, wrote: %s", kind_names[kind], with_retain ? "with retain" : "without",
                  result.status, result.output);
    RLStop(other.loop);
    gate_open(&leave);
    thread_join(other.thread);
    unmake();
}
static void with_each_kind(void (*body)(void), void (*before)(void)) {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (kind = 0; kind < KINDS; kind++)
        for (int retains = 0; retains < 2; retains++) {
            with_retain = retains;
            in_child_of(body, before);
        }
}
/* The context is released once; one that a callback's bracket has retained too keeps that. */
static int brackets(void) { return with_retain && kind != OBSERVER && kind != FILE_DESCRIPTOR; }

#define expect_held(number) \
    ck_assert_msg(__atomic_load_n(&held, __ATOMIC_SEQ_CST) == (number) + brackets(), "%s, %s: held %d times, not %d", kind_names[kind], \
                  with_retain ? "with retain" : "without", held - brackets(), number)

static void invalidate_in_child(void) {
    alarm(60);
    expect_held(1);
    invalidate();
    expect_held(0);
    RLRunInMode(kRLDefaultMode, 0, false);
    expect_held(0);
}
RL_TEST(a_callback_that_vanished_keeps_no_context, "S-FORK-3 S-THR-8",
        "What another thread was calling at the fork releases its context in the child's Invalidate, once") {
    with_each_kind(invalidate_in_child, NULL);
}

static void invalidate_in_grandchild(void) {
    alarm(60);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        invalidate_in_child();
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    invalidate_in_child();
}
RL_TEST(a_callback_that_vanished_two_forks_ago_keeps_no_context, "S-FORK-3 S-THR-8",
        "The same in the child of that child, and in the child after its own fork") {
    with_each_kind(invalidate_in_grandchild, NULL);
}

static void expect_held_in_callback(void) {
    int before = __atomic_load_n(&held, __ATOMIC_SEQ_CST);
    invalidate();
    ck_assert_int_eq(__atomic_load_n(&held, __ATOMIC_SEQ_CST), before - 1);
}
static void invalidate_in_callback_in_child(void) {
    alarm(60);
    /* The child has none. */
    if (kind == MESSAGE_PORT) return;
    calls = 0;
    inner = expect_held_in_callback;
    /* As if it had not been called: a descriptor's callback is enabled again, a socket's is. */
    run_until_called();
    expect_held(0);
}
RL_TEST(a_callback_of_the_child_invalidates_at_once, "S-FORK-3 S-THR-8",
        "A callback in the child that invalidates its object releases the context inside the call, whatever another thread was calling at the fork") {
    with_each_kind(invalidate_in_callback_in_child, NULL);
}

static void expect_release_in_child(void) {
    alarm(60);
    RLRunInMode(kRLDefaultMode, 0.001, false);
    expect_held(0);
    invalidate();
    RLRelease(timer);
    RLRelease(observer);
    RLRelease(file);
    RLRelease(sock);
    RLRelease(port);
    RLRelease(message_port);
    RLRelease(source);
    RLRunInMode(kRLDefaultMode, 0.001, false);
    expect_held(0);
}
RL_TEST(a_release_that_was_left_to_a_vanished_callback_comes, "S-FORK-5 S-THR-8",
        "A context whose release an Invalidate had left to another thread's callback is released by a loop's next wait in the child, once") {
    with_each_kind(expect_release_in_child, invalidate);
}
RL_TEST(what_its_callback_invalidated_is_not_released_again, "S-FORK-5 S-THR-8",
        "A context that the callback on another thread had released before the fork is not released again in the child") {
    deed = INVALIDATES;
    with_each_kind(expect_release_in_child, NULL);
}

/* The forking thread is in the callback itself. */

static Gate invalidated;
static void invalidate_elsewhere(void *unused) {
    (void)unused;
    invalidate();
    gate_open(&invalidated);
}
static bool is_child;
static void fork_in_callback(void) {
    Thread *thread = thread_start(invalidate_elsewhere, NULL);
    gate_wait(&invalidated);
    thread_join(thread);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        is_child = true;
        /* The next wait is that of a run inside the callback: the info is still in use. */
        RLRunInMode(kRLDefaultMode, 0.001, false);
        ck_assert_int_eq(__atomic_load_n(&held, __ATOMIC_SEQ_CST), 1);
        return;
    }
    ChildResult result;
    ck_assert_int_eq(waitpid(child, &result.status, 0), child);
    ck_assert_int_eq(result.status, 0);
    ck_assert_int_eq(__atomic_load_n(&held, __ATOMIC_SEQ_CST), 1);
}
RL_TEST(the_forking_callback_keeps_its_context, "S-FORK-5 S-THR-8",
        "A callback that forks keeps the context in the child until it returns there, which releases it once") {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    for (kind = 0; kind < KINDS; kind++)
        for (int retains = 0; retains < 2; retains++) {
            with_retain = retains;
            invalidated = (Gate)GATE_INITIALIZER;
            inner = fork_in_callback;
            make();
            run_until_called();
            ck_assert_int_eq(__atomic_load_n(&held, __ATOMIC_SEQ_CST), 0);
            RLRunInMode(kRLDefaultMode, 0, false);
            ck_assert_int_eq(__atomic_load_n(&held, __ATOMIC_SEQ_CST), 0);
            if (is_child) _exit(0);
            unmake();
        }
}

/* The forking thread is in a callback that has a reference of its own, and another thread in one that has not yet. */

static int is_held(void) { return __atomic_load_n(&held, __ATOMIC_SEQ_CST); }

static void fork_beside_a_callback(void) {
    LoopThread other = {0};
    inside = leave = (Gate)GATE_INITIALIZER;
    inner = NULL;
    stays_in_retain = true;
    RLSocketEnableCallBacks(sock, kRLSocketReadCallBack);
    loop_thread_start(&other, be_in_the_callback, NULL);
    gate_wait(&inside);
    invalidate();
    ck_assert_int_eq(is_held(), 2);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        is_child = true;
        alarm(60);
        return;
    }
    ChildResult result;
    ck_assert_int_eq(waitpid(child, &result.status, 0), child);
    ck_assert_msg(result.status == 0, "%s: status %#x", kind_names[kind], result.status);
    RLStop(other.loop);
    gate_open(&leave);
    thread_join(other.thread);
    ck_assert_int_eq(is_held(), 1);
    calls = 1;
}
RL_TEST(a_callback_with_a_reference_of_its_own_keeps_no_context, "S-FORK-5 S-THR-8",
        "A release that was left to a callback on another thread comes in the child although the forking thread is in a callback of the object too") {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    with_retain = true;
    for (kind = SOCKET; kind < KINDS; kind++) {
        inner = fork_beside_a_callback;
        make();
        run_until_called();
        if (is_child) {
            RLRunInMode(kRLDefaultMode, 0.001, false);
            _exit(is_held());
        }
        ck_assert_int_eq(is_held(), 0);
        unmake();
    }
}

/* Descriptions */

static RLTypeRef object(void) {
    return timer ? (RLTypeRef)timer : observer ? (RLTypeRef)observer : file ? (RLTypeRef)file : sock ? (RLTypeRef)sock : port ? (RLTypeRef)port : (RLTypeRef)message_port;
}

/* More than one thread may stay here; the info is there as long as they do. */
static int describing;
static void stay(void) {
    ck_assert_int_eq(is_held(), 1);
    __atomic_add_fetch(&describing, 1, __ATOMIC_SEQ_CST);
    gate_open(&inside);
    gate_wait(&leave);
    ck_assert_int_eq(is_held(), 1);
}
static void ask(void *unused) {
    (void)unused;
    free(RLCopyDescription(object()));
}
static void each_described(void (*body)(void)) {
    for (kind = 0; kind < KINDS; kind++)
        for (int retains = 0; retains < 2; retains++) {
            with_retain = retains;
            inside = leave = (Gate)GATE_INITIALIZER;
            inner = on_describe = NULL;
            describing = 0;
            make();
            body();
            on_describe = NULL;
            unmake();
        }
}

static void invalidate_while_described(void) {
    on_describe = stay;
    Thread *first = thread_start(ask, NULL), *second = thread_start(ask, NULL);
    wait_until_count(&describing, 2);
    invalidate();
    ck_assert_int_eq(is_held(), 1);
    gate_open(&leave);
    thread_join(first);
    thread_join(second);
    ck_assert_int_eq(is_held(), 0);
    on_describe = abort;
    ask(NULL);
}
RL_TEST(a_description_keeps_the_context, "S-THR-8 S-ARG-8",
        "An Invalidate on another thread leaves the release of the context to the last copyDescription of it that runs") {
    each_described(invalidate_while_described);
}

static void invalidate_items_in_a_loop(void) {
    add();
    invalidate_while_described();
}
RL_TEST(a_description_of_an_item_in_a_loop_keeps_the_context, "S-THR-8 S-ARG-8", "The same for what is in a loop, which another thread than that loop's describes") {
    each_described(invalidate_items_in_a_loop);
}

static void expect_release_at_once(void) {
    invalidate();
    ck_assert_int_eq(is_held(), 0);
}
static void invalidate_in_description(void) {
    on_describe = expect_release_at_once;
    ask(NULL);
    ck_assert_int_eq(is_held(), 0);
}
RL_TEST(a_copy_description_may_invalidate, "S-THR-8 S-ARG-8", "A copyDescription that invalidates its own object has the context released at once") {
    each_described(invalidate_in_description);
}

static void invalidate_from_elsewhere(void) {
    invalidated = (Gate)GATE_INITIALIZER;
    thread_join(thread_start(invalidate_elsewhere, NULL));
}
static void describe_within(void) {
    on_describe = invalidate_from_elsewhere;
    ask(NULL);
    ck_assert_msg(is_held() == 1, "%s", kind_names[kind]);
}
static void invalidate_in_inner_description(void) {
    on_describe = describe_within;
    ask(NULL);
    ck_assert_int_eq(is_held(), 0);
}
RL_TEST(an_outer_description_keeps_the_context, "S-THR-8 S-ARG-8",
        "A copyDescription that describes its own object keeps the context to its own end, also if another thread invalidates during the inner one") {
    each_described(invalidate_in_inner_description);
}

static void end_thread(void) { pthread_exit(NULL); }
/* The text of a description whose thread ends is not given back (S-LOOP-19). */
static void ask_and_end(void *unused) {
    thread_may_lose_memory();
    ask(unused);
}
static void invalidate_after_ended_description(void) {
    on_describe = end_thread;
    thread_join(thread_start(ask_and_end, NULL));
    invalidate();
    ck_assert_int_eq(is_held(), 0);
}
RL_TEST(a_description_that_ends_its_thread_keeps_no_context, "S-LOOP-19 S-THR-8", "A copyDescription that ends its thread has ended for an Invalidate that follows") {
    each_described(invalidate_after_ended_description);
}

/* Where a description asks for the name of a callback. */
static const void *stops_at;
int dladdr(const void *address, Dl_info *found) {
    const void *wanted = address;
    memset(found, 0, sizeof *found);
    if (address && __atomic_compare_exchange_n(&stops_at, &wanted, NULL, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        gate_open(&inside);
        gate_wait(&leave);
    }
    return 0;
}
static void stop_in_description(void) {
    /* The description of a message port names no function. */
    static void *const callbacks[KINDS] = {(void *)timer_fired, (void *)timer_fired, (void *)observed, (void *)file_ready, (void *)socket_ready, (void *)message_came};
    __atomic_store_n(&stops_at, callbacks[kind], __ATOMIC_SEQ_CST);
}

static void invalidate_while_nothing_is_called(void) {
    stop_in_description();
    const bool stops = stops_at != NULL;
    Thread *thread = thread_start(ask, NULL);
    if (stops) gate_wait(&inside);
    invalidate();
    ck_assert_msg(is_held() == 0, "%s", kind_names[kind]);
    gate_open(&leave);
    thread_join(thread);
}
RL_TEST(a_description_that_calls_nothing_keeps_nothing, "S-THR-8 S-ARG-8",
        "An Invalidate during a description on another thread releases a context without copyDescription at once") {
    without_description = true;
    each_described(invalidate_while_nothing_is_called);
}

static void invalidate_for_a_peer(void) {
    if (kind > OBSERVER) return;
    add();
    stop_in_description();
    const int connection = share_connect_soon(0);
    ck_assert(share_send(connection, "dump"));
    gate_wait(&inside);
    invalidate();
    ck_assert_msg(is_held() == 0, "%s", kind_names[kind]);
    gate_open(&leave);
    char *answer = share_receive(connection);
    ck_assert_ptr_nonnull(answer);
    free(answer);
    close(connection);
}
RL_TEST(a_description_for_a_peer_keeps_nothing, "S-THR-8 S-SEE-9 S-OUT-3",
        "An Invalidate during a dump for another process, which calls no copyDescription, releases the context at once") {
    share_alone();
    ck_assert(RLSetShared(true));
    each_described(invalidate_for_a_peer);
}

static Thread *describer;
static void describe_in_callback(void) {
    on_describe = stay;
    describer = thread_start(ask, NULL);
    gate_wait(&inside);
    invalidated = (Gate)GATE_INITIALIZER;
    thread_join(thread_start(invalidate_elsewhere, NULL));
    on_describe = NULL;
}
static void end_callback_before_description(void) {
    /* The bracket of a callback has a reference of its own, which stay() does not expect. */
    if (with_retain) return;
    inner = describe_in_callback;
    run_until_called();
    ck_assert_int_eq(is_held(), 1);
    gate_open(&leave);
    thread_join(describer);
    ck_assert_int_eq(is_held(), 0);
}
RL_TEST(a_description_that_outlasts_the_callback_keeps_the_context, "S-THR-8",
        "A release that was left to a callback waits for a copyDescription on another thread as well") {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    each_described(end_callback_before_description);
}

static void invalidate_undescribed(void *unused) {
    (void)unused;
    alarm(60);
    ck_assert_int_eq(is_held(), 1);
    invalidate();
    ck_assert_int_eq(is_held(), 0);
}
static void expect_release_by_wait(void *unused) {
    (void)unused;
    alarm(60);
    RLRunInMode(kRLDefaultMode, 0.001, false);
    ck_assert_int_eq(is_held(), 0);
}
/* Of a host that waits: nothing makes it dispatch. */
static void expect_release_by_foreign_wait(void *mode) {
    alarm(60);
    RLForeignRunRef run = RLForeignRunCreate(mode);
    RLForeignRunPrepare(run);
    ck_assert_int_eq(is_held(), 0);
    RLForeignRunInvalidate(run);
    RLRelease(run);
}
static void fork_while_described(void) {
    on_describe = stay;
    Thread *thread = thread_start(ask, NULL);
    gate_wait(&inside);
    ChildResult result = run_child(invalidate_undescribed, NULL);
    ck_assert_msg(result.status == 0, "%s: status %#x, wrote: %s", kind_names[kind], result.status, result.output);
    invalidate();
    result = run_child(expect_release_by_wait, NULL);
    ck_assert_msg(result.status == 0, "%s: status %#x, wrote: %s", kind_names[kind], result.status, result.output);
    RLMode modes[] = {kRLDefaultMode, "empty"};
    for (int i = 0; i < 2; i++) {
        result = run_child(expect_release_by_foreign_wait, (void *)modes[i]);
        ck_assert_msg(result.status == 0, "%s: status %#x, wrote: %s", kind_names[kind], result.status, result.output);
    }
    gate_open(&leave);
    thread_join(thread);
    ck_assert_int_eq(is_held(), 0);
}
RL_TEST(a_description_that_vanished_keeps_no_context, "S-FORK-5 S-FRN-1 S-THR-8",
        "In the child of a fork a copyDescription that ran on another thread keeps no context, and one whose release was left to it is released by a loop's next wait, a foreign run's too") {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    each_described(fork_while_described);
}

static void fork_in_description(void) {
    on_describe = NULL;
    invalidate();
    ck_assert_int_eq(is_held(), 1);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        is_child = true;
        alarm(60);
        log_capture();
        /* The next wait is that of a run inside the description: the info is still in use. */
        RLRunInMode(kRLDefaultMode, 0.001, false);
        ck_assert_str_eq(log_text(), "");
        ck_assert_int_eq(is_held(), 1);
        return;
    }
    ChildResult result;
    ck_assert_int_eq(waitpid(child, &result.status, 0), child);
    ck_assert_msg(result.status == 0, "%s: status %#x", kind_names[kind], result.status);
}
static void describe_during_callback(void) {
    if (with_retain) return;
    LoopThread other = {0};
    loop_thread_start(&other, be_in_the_callback, NULL);
    gate_wait(&inside);
    on_describe = fork_in_description;
    ask(NULL);
    if (is_child) _exit(is_held());
    RLStop(other.loop);
    gate_open(&leave);
    thread_join(other.thread);
    ck_assert_int_eq(is_held(), 0);
}
RL_TEST(the_forking_description_keeps_the_context, "S-FORK-5 S-THR-8",
        "A copyDescription that forks keeps the context in the child until it returns there, which releases it, also where the release was left to a callback on another thread") {
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    each_described(describe_during_callback);
}
