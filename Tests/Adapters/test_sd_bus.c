/* SPDX-License-Identifier: MIT */
/* Section 40: sd-bus on a run loop, with dbus-daemon. */
#define _GNU_SOURCE
#include "peer.h"

#include <runloop/adapters/sd_bus.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CALLS = 1000, FLOOD = 10000 };
#define SECONDS(n) ((uint64_t)((n) * 1000000))

static Peer server;
static char *address;
static int answers, errors, signals, losses, served;

static void begin(void) {
    char *argument;
    ck_assert_int_gt(asprintf(&argument, "--address=unix:path=%s", peer_path("bus")), 0);
    server = peer_start("unix:path", (const char *[]){"dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1", argument, NULL});
    free(argument);
    address = server.line;
    address[strcspn(address, "\n")] = 0;
}

static sd_bus *new_bus(const char *where) {
    sd_bus *bus;
    ck_assert_int_ge(sd_bus_new(&bus), 0);
    ck_assert_int_ge(sd_bus_set_address(bus, where), 0);
    ck_assert_int_ge(sd_bus_set_bus_client(bus, 1), 0);
    ck_assert_int_ge(sd_bus_start(bus), 0); /* it connects in the loop */
    return bus;
}

static void lost(sd_bus *bus, int error, void *info) {
    ck_assert_ptr_eq(info, &losses);
    ck_assert_ptr_nonnull(bus);
    ck_assert_int_lt(error, 0);
    losses++;
}

static RLSDBusRef attach(sd_bus *bus) {
    RLSDBusRef place = RLSDBusAttach(bus, RLGetCurrent(), kRLDefaultMode, lost, &losses);
    ck_assert_ptr_nonnull(place);
    return place;
}

static int serve_add(sd_bus_message *message, void *info, sd_bus_error *error) {
    int number;
    (void)info, (void)error;
    sd_bus_message_read(message, "i", &number);
    served++;
    return sd_bus_reply_method_return(message, "i", number + 1);
}

static int serve_ignore(sd_bus_message *message, void *info, sd_bus_error *error) {
    (void)message, (void)info, (void)error;
    return 1;
}

static const sd_bus_vtable table[] = {
    SD_BUS_VTABLE_START(0),
    SD_BUS_METHOD("Add", "i", "i", serve_add, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_METHOD("Ignore", "i", "", serve_ignore, SD_BUS_VTABLE_UNPRIVILEGED),
    SD_BUS_SIGNAL("Ticked", "", 0),
    SD_BUS_VTABLE_END,
};

static int count_answer(sd_bus_message *message, void *info, sd_bus_error *error) {
    (void)error;
    ++*(int *)info;
    ck_assert(!sd_bus_message_is_method_error(message, NULL));
    return 1;
}

static sd_bus *start_service(RLSDBusRef *place) {
    int ready = 0;
    sd_bus *bus = new_bus(address);
    *place = attach(bus);
    sd_bus_add_object_vtable(bus, NULL, "/test", "org.example.Test", table, NULL);
    sd_bus_request_name_async(bus, NULL, "org.example.Test", 0, count_answer, &ready);
    run_until(&ready, 1);
    return bus;
}

static int hear(sd_bus_message *message, void *info, sd_bus_error *error) {
    (void)message, (void)info, (void)error;
    signals++;
    return 0;
}

static sd_bus *start_client(RLSDBusRef *place) {
    int ready = 0;
    sd_bus *bus = new_bus(address);
    *place = attach(bus);
    sd_bus_match_signal_async(bus, NULL, NULL, "/test", "org.example.Test", "Ticked", hear, count_answer, &ready);
    run_until(&ready, 1);
    return bus;
}

static int answered(sd_bus_message *message, void *info, sd_bus_error *error) {
    int number;
    (void)error;
    if (sd_bus_message_is_method_error(message, NULL)) return errors++, 1;
    sd_bus_message_read(message, "i", &number);
    ck_assert_int_eq(number, (long)info + 1);
    answers++;
    return 1;
}

static void call(sd_bus *bus, const char *method, long number, double limit, sd_bus_message_handler_t function) {
    sd_bus_message *message;
    sd_bus_message_new_method_call(bus, &message, "org.example.Test", "/test", "org.example.Test", method);
    sd_bus_message_append(message, "i", (int)number);
    ck_assert_int_ge(sd_bus_call_async(bus, NULL, message, function, (void *)number, SECONDS(limit)), 0);
    sd_bus_message_unref(message);
}

static void send_signal(sd_bus *bus) { ck_assert_int_ge(sd_bus_emit_signal(bus, "/test", "org.example.Test", "Ticked", NULL), 0); }

static void end(sd_bus *bus, RLSDBusRef place) {
    RLSDBusDetach(place);
    sd_bus_close(bus);
    ck_assert_ptr_null(sd_bus_unref(bus));
}

RL_TEST(a_method_is_served_and_called, "S-ADP-2 S-ADP-3",
        "Calls of one bus are served by another of the same loop, signals are heard, an idle bus costs no pass; detached, nothing is left") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = start_client(&client);
    for (long number = 0; number < CALLS; number++) call(client_side, "Add", number, 60, answered);
    for (int number = 0; number < 100; number++) send_signal(server_side);
    run_until(&answers, CALLS);
    run_until(&signals, 100);
    ck_assert_int_eq(served, CALLS);
    expect_idle();
    end(client_side, client), end(server_side, service);
    ck_assert_int_eq(losses, 0);
}

RL_TEST(it_is_served_without_waits, "S-ADP-2", "A program that runs the loop for 0 seconds at a time, as one with frames does, is connected and answered too") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = new_bus(address);
    client = attach(client_side);
    call(client_side, "Add", 1, 60, answered);
    while (answers == 0) RLRunInMode(kRLDefaultMode, 0, true);
    end(client_side, client), end(server_side, service);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(limits_are_kept, "S-ADP-5", "Calls that are never answered end with an error at their limits, without another event") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = start_client(&client);
    for (long number = 0; number < 20; number++) call(client_side, "Ignore", number, 0.02 + 0.001 * (double)number, answered);
    run_until(&errors, 20);
    call(client_side, "Add", 1, 60, answered);
    run_until(&answers, 1);
    end(client_side, client), end(server_side, service);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(limits_are_kept_beside_a_clock, "S-ADP-11",
        "On a loop whose clock moves by itself calls that are never answered end at their limits, without a pass before them") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = start_client(&client);
    RLClockRef clock = RLClockCreateManual();
    RLClockSetAutomatic(clock, true);
    call(client_side, "Ignore", 0, 0.3, answered);
    expect_run(kRLDefaultMode, 0, false, TimedOut);
    RLSDBusDetach(client), RLSDBusDetach(service);
    ck_assert(RLSetClock(RLGetCurrent(), clock));
    service = attach(server_side), client = attach(client_side);
    const long *passes = count_passes(kRLDefaultMode);
    long before = (long)RLClockGetTime(clock);
    while (errors == 0) expect_run(kRLDefaultMode, 1e10, true, HandledSource);
    ck_assert_int_lt(*passes, 200);
    ck_assert_int_eq((long)RLClockGetTime(clock), before);
    end(client_side, client), end(server_side, service);
    expect_run(kRLDefaultMode, 0, false, Finished);
    RLRelease(clock);
}

RL_TEST(a_bus_that_dies_is_told_once, "S-ADP-4", "When the bus is killed each open call gets an error, then lost is called, once; nothing is left in the loop") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = start_client(&client);
    for (long number = 0; number < 20; number++) call(client_side, "Ignore", number, 60, answered);
    call(client_side, "Add", 1, 60, answered);
    run_until(&answers, 1);
    peer_kill(&server);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(errors, 20);
    ck_assert_int_eq(losses, 2);
    ck_assert_ptr_null(sd_bus_unref(client_side));
    ck_assert_ptr_null(sd_bus_unref(server_side));
}

/* A bus that lets a client in and answers its call by what is no message. */
static void *speak_nonsense(void *info) {
    int connection = *(int *)info;
    char text[4096] = "", nonsense[64];
    size_t length = 0;
    while (!strstr(text + (length > 0), "BEGIN\r\n")) {
        ssize_t count = recv(connection, text + length, sizeof text - 1 - length, 0);
        if (count <= 0) return NULL;
        text[length += (size_t)count] = 0;
    }
    ck_assert_int_gt(dprintf(connection, "DATA\r\nOK 1234567890abcdef1234567890abcdef\r\nAGREE_UNIX_FD\r\n"), 0);
    ck_assert_int_gt(recv(connection, text, sizeof text, MSG_PEEK), 0); /* the first call */
    memset(nonsense, 0xaa, sizeof nonsense);
    ck_assert_int_gt(write(connection, nonsense, sizeof nonsense), 0);
    return NULL;
}

RL_TEST(a_bus_that_speaks_nonsense, "S-ADP-4", "When the bus sends what is no message each open call gets an error, then lost is called, once; nothing is left in the loop") {
    int pair[2];
    pthread_t thread;
    sd_bus *bus;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, speak_nonsense, &pair[1]), 0);
    ck_assert_int_ge(sd_bus_new(&bus), 0);
    ck_assert_int_ge(sd_bus_set_fd(bus, pair[0], pair[0]), 0);
    ck_assert_int_ge(sd_bus_start(bus), 0);
    attach(bus);
    for (int i = 0; i < 5; i++) call(bus, "Add", 1, 60, answered);
    run_until(&losses, 1);
    ck_assert_int_eq(errors, 5);
    ck_assert_int_eq(answers, 0);
    expect_run(kRLDefaultMode, 0, false, Finished);
    sd_bus_close_unref(bus);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    close(pair[1]);
}

RL_TEST(a_bus_that_is_not_there, "S-ADP-4", "Where nothing listens lost is called; where nothing answers, after sd-bus's limit for that") {
    begin();
    sd_bus *bus;
    ck_assert_int_ge(sd_bus_new(&bus), 0);
    sd_bus_set_address(bus, "unix:path=/nowhere/at/all");
    sd_bus_set_bus_client(bus, 1);
    ck_assert_int_lt(sd_bus_start(bus), 0);
    /* One that did not start. */
    attach(bus);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(losses, 1);
    sd_bus_unref(bus);
    /* The second address is the one. */
    char *two;
    ck_assert_int_gt(asprintf(&two, "unix:path=/nowhere/at/all;%s", address), 0);
    bus = new_bus(two);
    free(two);
    RLSDBusRef place = attach(bus);
    int ready = 0;
    sd_bus_request_name_async(bus, NULL, "org.example.Second", 0, count_answer, &ready);
    run_until(&ready, 1);
    end(bus, place);
}

RL_TEST(a_flood_leaves_turns_to_others, "S-ADP-6", "A pass dispatches two messages at most, however many have come") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = start_client(&client);
    const long *passes = count_passes(kRLDefaultMode);
    for (int sent = 0; sent < FLOOD; sent++) send_signal(server_side);
    run_until(&signals, FLOOD);
    ck_assert_int_ge(*passes, FLOOD / 2);
    end(client_side, client), end(server_side, service);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static int run_inside(sd_bus_message *message, void *info, sd_bus_error *error) {
    int before = answers;
    const long *passes = count_passes(kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    ck_assert_int_eq(answers, before);
    ck_assert_int_lt(*passes, 50);
    return answered(message, info, error);
}

RL_TEST(a_handler_runs_the_loop, "S-ADP-8", "In a run that a handler makes its bus dispatches nothing, and the loop waits; then all is dispatched") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = start_client(&client);
    call(client_side, "Add", 1, 60, run_inside);
    for (long number = 0; number < 10; number++) call(client_side, "Add", number, 60, answered);
    run_until(&answers, 11);
    end(client_side, client), end(server_side, service);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static RLSDBusRef to_detach;

static int move_and_run(sd_bus_message *message, void *info, sd_bus_error *error) {
    int before = answers;
    sd_bus *bus = sd_bus_message_get_bus(message);
    RLSDBusDetach(to_detach);
    to_detach = RLSDBusAttach(bus, RLGetCurrent(), "modal", lost, &losses);
    ck_assert_ptr_nonnull(to_detach);
    ck_assert_ptr_null(RLSDBusAttach(bus, RLGetCurrent(), "modal", lost, &losses));
    keep_alive(RLGetCurrent(), "modal");
    expect_run("modal", 0.1, false, TimedOut);
    ck_assert_int_eq(answers, before);
    return answered(message, info, error);
}

RL_TEST(a_handler_moves_its_bus, "S-ADP-7 S-ADP-8", "A handler that moves its bus to another mode and runs that keeps the bus; what comes is dispatched there, later") {
    RLSDBusRef service;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = start_client(&to_detach);
    call(client_side, "Add", 1, 60, move_and_run);
    for (long number = 0; number < 10; number++) call(client_side, "Add", number, 60, answered);
    while (answers < 11 && !losses) {
        RLRunInMode(kRLDefaultMode, 0.01, false);
        RLRunInMode("modal", 0.01, false);
    }
    ck_assert_int_eq(losses, 0);
    end(client_side, to_detach), end(server_side, service);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static int detach(sd_bus_message *message, void *info, sd_bus_error *error) {
    RLSDBusDetach(to_detach);
    return answered(message, info, error);
}

RL_TEST(a_handler_detaches, "S-ADP-7", "A handler takes its bus out of the loop: nothing more is dispatched") {
    RLSDBusRef service;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = start_client(&to_detach);
    call(client_side, "Add", 1, 60, detach);
    for (long number = 0; number < 10; number++) call(client_side, "Add", number, 60, answered);
    run_until(&served, 11);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    ck_assert_int_eq(answers, 1);
    end(server_side, service);
    expect_run(kRLDefaultMode, 0, false, Finished);
    sd_bus_close(client_side);
    sd_bus_unref(client_side);
}

/* sd-bus refuses to work in the child: a run of the mode tells it. */
static void lose_in_child(void *bus) {
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(losses, 1);
    sd_bus_unref(bus);
}

static void detach_in_child(void *place) {
    RLSDBusDetach(place);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(the_child_of_fork_is_told, "S-ADP-9",
        "In the child of fork a run calls lost, and a bus may be detached, with an open call: the parent gets its answers") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service);
    RLSDBusDetach(service);
    sd_bus *client_side = start_client(&client);
    call(client_side, "Add", 0, 60, answered);
    ChildResult child = run_child(lose_in_child, client_side);
    ck_assert_str_eq(child.output, "");
    ck_assert_int_eq(child.status, 0);
    child = run_child(detach_in_child, client);
    ck_assert_str_eq(child.output, "");
    ck_assert_int_eq(child.status, 0);
    service = attach(server_side);
    for (long number = 1; number < 100; number++) call(client_side, "Add", number, 60, answered);
    run_until(&answers, 100);
    ck_assert_int_eq(errors + losses, 0);
    end(client_side, client), end(server_side, service);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(a_host_uses_the_bus, "S-ADP-10", "Code of a foreign run's host attaches a bus with a call under way, and makes a call that ends at its limit") {
    RLSDBusRef service, client;
    begin();
    sd_bus *server_side = start_service(&service), *client_side = new_bus(address);
    host_begin();
    call(client_side, "Add", 1, 60, answered);
    client = attach(client_side);
    host_until(&answers, 1);
    call(client_side, "Ignore", 1, 0.02, answered);
    RLWakeUp(RLGetCurrent());
    host_until(&errors, 1);
    host_end();
    end(client_side, client), end(server_side, service);
}

RL_TEST(bad_arguments_are_refused, "S-ADP-1", "No bus, no loop, no mode, a bus that is attached, or one with two descriptors: no adapter") {
    sd_bus *bus;
    ck_assert_int_ge(sd_bus_new(&bus), 0);
    ck_assert_ptr_null(RLSDBusAttach(NULL, RLGetCurrent(), kRLDefaultMode, lost, NULL));
    ck_assert_ptr_null(RLSDBusAttach(bus, NULL, kRLDefaultMode, lost, NULL));
    ck_assert_ptr_null(RLSDBusAttach(bus, RLGetCurrent(), NULL, lost, NULL));
    for (int times = 0; times < 2; times++) {
        RLSDBusRef attached = RLSDBusAttach(bus, RLGetCurrent(), kRLDefaultMode, lost, NULL);
        ck_assert_ptr_nonnull(attached);
        ck_assert_ptr_null(RLSDBusAttach(bus, RLGetCurrent(), kRLDefaultMode, lost, NULL));
        RLSDBusDetach(attached);
    }
    RLSDBusDetach(NULL);
    sd_bus_unref(bus);
    int to[2], from[2];
    ck_assert_int_eq(pipe2(to, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_eq(pipe2(from, O_CLOEXEC | O_NONBLOCK), 0);
    ck_assert_int_ge(sd_bus_new(&bus), 0);
    ck_assert_int_ge(sd_bus_set_fd(bus, from[0], to[1]), 0);
    ck_assert_int_ge(sd_bus_start(bus), 0);
    ck_assert_ptr_null(RLSDBusAttach(bus, RLGetCurrent(), kRLDefaultMode, lost, NULL));
    sd_bus_unref(bus);
    close(to[0]), close(from[1]);
    expect_run(kRLDefaultMode, 0, false, Finished);
}
