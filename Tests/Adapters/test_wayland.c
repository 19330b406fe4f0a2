/* SPDX-License-Identifier: MIT */
/* Section 40: Wayland's client library on a run loop, with Weston without a screen. */
#define _GNU_SOURCE
#include "peer.h"

#include <runloop/adapters/wayland.h>

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wayland-client-protocol.h>

enum { SYNCS = 2000, ROUND_TRIPS = 300 };

static Peer server;
static struct wl_display *display;
static RLWaylandRef place;
static int answers, globals, losses, error_told;
static uint32_t compositor_name;

static void lost(struct wl_display *over, int error, void *info) {
    ck_assert_ptr_eq(over, display);
    ck_assert_ptr_eq(info, &losses);
    error_told = error;
    losses++;
}

static void begin(void) {
    setenv("XDG_RUNTIME_DIR", peer_path(""), 1);
    server = peer_start("kiosk-shell.so", (const char *[]){"weston", "--backend=headless-backend.so", "--shell=kiosk-shell.so", "--socket=peer",
                                                        "--no-config", "--idle-time=0", NULL});
    /* It prints nothing when it listens. */
    while (!(display = wl_display_connect("peer"))) sched_yield();
    place = RLWaylandAttach(display, RLGetCurrent(), kRLDefaultMode, lost, &losses);
    ck_assert_ptr_nonnull(place);
}

static void end(void) {
    RLWaylandDetach(place);
    wl_display_disconnect(display);
    ck_assert_int_eq(losses, 0);
}

static void answered(void *info, struct wl_callback *callback, uint32_t data) {
    void (*then)(void) = (void (*)(void))info;
    (void)data;
    wl_callback_destroy(callback);
    answers++;
    if (then) then();
}

static void sync_then(void (*then)(void)) {
    static const struct wl_callback_listener listener = {answered};
    wl_callback_add_listener(wl_display_sync(display), &listener, (void *)then);
}

static void global(void *info, struct wl_registry *registry, uint32_t name, const char *interface, uint32_t version) {
    (void)info, (void)registry, (void)version;
    if (strcmp(interface, "wl_compositor") == 0) compositor_name = name;
    globals++;
}

static void global_gone(void *info, struct wl_registry *registry, uint32_t name) { (void)info, (void)registry, (void)name; }

static struct wl_registry *look(void) {
    static const struct wl_registry_listener listener = {global, global_gone};
    struct wl_registry *registry = wl_display_get_registry(display);
    wl_registry_add_listener(registry, &listener, NULL);
    return registry;
}

RL_TEST(events_come_and_requests_go, "S-ADP-2 S-ADP-3", "Globals and answers come without a round trip, an idle display costs no pass; detached, nothing is left") {
    begin();
    struct wl_registry *registry = look();
    run_until(&globals, 5);
    ck_assert_uint_ne(compositor_name, 0);
    struct wl_compositor *compositor = wl_registry_bind(registry, compositor_name, &wl_compositor_interface, 1);
    struct wl_surface *surface = wl_compositor_create_surface(compositor);
    for (int round = 1; round <= SYNCS / 20; round++) {
        for (int i = 0; i < 20; i++) sync_then(NULL);
        run_until(&answers, 20 * round);
    }
    wl_surface_destroy(surface);
    wl_compositor_destroy(compositor);
    wl_registry_destroy(registry);
    expect_idle();
    end();
}

RL_TEST(it_is_served_without_waits, "S-ADP-2", "A program that runs the loop for 0 seconds at a time, as one with frames does, gets its answers too") {
    begin();
    sync_then(NULL);
    while (answers == 0) RLRunInMode(kRLDefaultMode, 0, true);
    end();
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(a_compositor_that_dies_is_told_once, "S-ADP-4", "When the compositor is killed lost is called once, and nothing is left in the loop") {
    begin();
    sync_then(NULL);
    run_until(&answers, 1);
    peer_kill(&server);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(losses, 1);
    ck_assert_int_ne(error_told, 0);
    wl_display_disconnect(display);
}

RL_TEST(a_protocol_error_is_told_once, "S-ADP-4", "An error of the protocol ends the display, once") {
    begin();
    struct wl_registry *registry = look();
    run_until(&globals, 5);
    struct wl_compositor *none = wl_registry_bind(registry, 999999, &wl_compositor_interface, 1);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(losses, 1);
    ck_assert_int_eq(error_told, EPROTO);
    wl_compositor_destroy(none);
    wl_registry_destroy(registry);
    wl_display_disconnect(display);
}

RL_TEST(a_compositor_that_does_not_read, "S-ADP-6 S-ADP-8", "While the compositor takes nothing more the loop waits; when it goes on all requests are answered") {
    int asked = 0;
    begin();
    sync_then(NULL);
    run_until(&answers, 1);
    peer_pause(&server);
    do {
        sync_then(NULL);
        asked++;
    } while (wl_display_flush(display) >= 0);
    ck_assert_int_eq(errno, EAGAIN);
    const long *passes = count_passes(kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    ck_assert_int_lt(*passes, 10);
    peer_continue(&server);
    run_until(&answers, 1 + asked);
    end();
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static int other_answers;

static void answered_elsewhere(void *info, struct wl_callback *callback, uint32_t data) {
    (void)info, (void)data;
    wl_callback_destroy(callback);
    __atomic_fetch_add(&other_answers, 1, __ATOMIC_SEQ_CST);
}

/* What a driver's thread does: round trips with a queue of its own. */
static void make_round_trips(void *info) {
    static const struct wl_callback_listener listener = {answered_elsewhere};
    struct wl_event_queue *queue = info;
    struct wl_display *wrapper = wl_proxy_create_wrapper(display);
    wl_proxy_set_queue((struct wl_proxy *)wrapper, queue);
    for (int i = 1; i <= ROUND_TRIPS; i++) {
        wl_callback_add_listener(wl_display_sync(wrapper), &listener, NULL);
        while (count_of(&other_answers) < i) ck_assert_int_ge(wl_display_dispatch_queue(display, queue), 0);
    }
    wl_proxy_wrapper_destroy(wrapper);
}

RL_TEST(another_thread_reads_too, "S-ADP-2", "Another thread makes round trips with its own queue while the loop waits and gets events: neither misses one") {
    begin();
    struct wl_event_queue *queue = wl_display_create_queue(display);
    Thread *thread = when_waiting(RLGetCurrent(), make_round_trips, queue);
    /* With the other thread alone first, then with both. */
    run_until(&other_answers, ROUND_TRIPS / 3);
    for (int i = 1; count_of(&other_answers) < ROUND_TRIPS; i++) {
        sync_then(NULL);
        run_until(&answers, i);
    }
    thread_join(thread);
    wl_event_queue_destroy(queue);
    end();
}

static void make_a_round_trip(void) {
    int before = answers;
    sync_then(NULL);
    ck_assert_int_ge(wl_display_roundtrip(display), 0);
    ck_assert_int_gt(answers, before);
}

static void run_inside(void) {
    int before = answers;
    sync_then(NULL);
    run_until(&answers, before + 1);
}

static void make_one_of_each(Probe *self) {
    (void)self;
    make_a_round_trip();
    run_inside();
}

RL_TEST(callbacks_make_round_trips_and_runs, "S-ADP-8", "A timer and listeners make a round trip and run the loop, and events come in both") {
    begin();
    /* A run inside of one that has had its answer already. */
    sync_then(run_inside);
    run_until(&answers, 1);
    ck_assert_int_eq(answers, 2);
    Probe timer = {.action = make_one_of_each};
    add_timer(&timer, date_in(0.02), 0, kRLDefaultMode);
    sync_then(make_a_round_trip);
    sync_then(run_inside);
    run_until(&answers, 8);
    end();
}

static struct wl_display *second;

static void make_a_round_trip_with_the_first(void *info, struct wl_callback *callback, uint32_t data) {
    (void)info, (void)data;
    wl_callback_destroy(callback);
    make_a_round_trip();
}

/* What a driver does: the answer of its queue brings an event of the default queue along, which is dispatched later. */
static void round_trip_of_a_driver(void *queue) {
    static const struct wl_callback_listener listener = {make_a_round_trip_with_the_first};
    wl_callback_add_listener(wl_display_sync(second), &listener, NULL);
    ck_assert_int_ge(wl_display_roundtrip_queue(second, queue), 0);
}

RL_TEST(listeners_make_round_trips_with_other_displays, "S-ADP-8",
        "A listener whose event is found right before the wait makes a round trip with another display of the loop") {
    begin();
    second = wl_display_connect("peer");
    RLWaylandRef other = RLWaylandAttach(second, RLGetCurrent(), kRLDefaultMode, lost, &losses);
    struct wl_event_queue *queue = wl_display_create_queue(second);
    for (int i = 1; i <= 3; i++) {
        /* Queued functions are called between the last look at the displays and the wait. */
        RLPerformFunction(RLGetCurrent(), kRLDefaultMode, round_trip_of_a_driver, queue, NULL);
        run_until(&answers, i);
    }
    RLWaylandDetach(other);
    wl_event_queue_destroy(queue);
    wl_display_disconnect(second);
    end();
}

RL_TEST(an_error_of_a_round_trip_is_told, "S-ADP-4",
        "An error that a round trip of the program's gets ends the display, once, also if the compositor stays connected") {
    /* wl_display's event error: the object, the code, and a string. */
    static const uint32_t error[] = {1, 24u << 16 | 0, 1, 1, 4, 0x00646162};
    int ends[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    display = wl_display_connect_to_fd(ends[0]);
    place = RLWaylandAttach(display, RLGetCurrent(), kRLDefaultMode, lost, &losses);
    ck_assert_int_eq(write(ends[1], error, sizeof error), (ssize_t)sizeof error);
    ck_assert_int_eq(wl_display_roundtrip(display), -1);
    expect_run(kRLDefaultMode, 5, false, Finished);
    ck_assert_int_eq(losses, 1);
    ck_assert_int_ne(error_told, 0);
    wl_display_disconnect(display);
    close(ends[1]);
}

static void detach(void) { RLWaylandDetach(place); }

RL_TEST(a_listener_detaches, "S-ADP-7", "A listener takes the display out of the loop: nothing is left there") {
    begin();
    sync_then(detach);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(answers, 1);
    /* It can be attached again. */
    place = RLWaylandAttach(display, RLGetCurrent(), kRLDefaultMode, lost, &losses);
    sync_then(NULL);
    run_until(&answers, 2);
    end();
    expect_run(kRLDefaultMode, 0, false, Finished);
}

/* The child has a copy of the display, over the same socket. */
static void end_in_child(void *info) {
    (void)info;
    end();
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(the_child_of_fork_detaches, "S-ADP-9", "The child of fork detaches and disconnects a display with open requests: the parent gets its answers") {
    begin();
    sync_then(NULL);
    run_until(&answers, 1);
    sync_then(NULL);
    ChildResult child = run_child(end_in_child, NULL);
    ck_assert_str_eq(child.output, "");
    ck_assert_int_eq(child.status, 0);
    for (int number = 0; number < 100; number++) sync_then(NULL);
    run_until(&answers, 102);
    end();
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(a_host_uses_the_display, "S-ADP-10",
        "Code of a foreign run's host attaches the display; its requests, made before that and later, are sent, and it makes a round trip") {
    begin();
    RLWaylandDetach(place);
    host_begin();
    sync_then(NULL);
    ck_assert_ptr_nonnull(place = RLWaylandAttach(display, RLGetCurrent(), kRLDefaultMode, lost, &losses));
    host_until(&answers, 1);
    RLWaylandWakeUp(place);
    sync_then(NULL);
    host_until(&answers, 2);
    RLWaylandWakeUp(place);
    ck_assert_int_ge(wl_display_roundtrip(display), 0);
    host_until(&answers, 2);
    RLWaylandWakeUp(NULL);
    host_end();
    end();
}

RL_TEST(bad_arguments_are_refused, "S-ADP-1", "No display, no loop, no mode, or a display that is attached: no adapter") {
    begin();
    ck_assert_ptr_null(RLWaylandAttach(NULL, RLGetCurrent(), kRLDefaultMode, lost, NULL));
    ck_assert_ptr_null(RLWaylandAttach(display, NULL, kRLDefaultMode, lost, NULL));
    ck_assert_ptr_null(RLWaylandAttach(display, RLGetCurrent(), NULL, lost, NULL));
    ck_assert_ptr_null(RLWaylandAttach(display, RLGetCurrent(), kRLDefaultMode, lost, NULL));
    RLWaylandDetach(place);
    ck_assert_ptr_nonnull(place = RLWaylandAttach(display, RLGetCurrent(), kRLDefaultMode, lost, &losses));
    RLWaylandDetach(NULL);
    end();
}
