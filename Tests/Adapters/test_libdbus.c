/* SPDX-License-Identifier: MIT */
/* Section 40: libdbus on a run loop, with dbus-daemon. */
#define _GNU_SOURCE
#include "peer.h"

#include <runloop/adapters/libdbus.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 2000, FLOOD = 20000 };

static Peer server;
static char *address;
static int answers, errors, signals, disconnects, served, unmatched;

static DBusHandlerResult filter(DBusConnection *connection, DBusMessage *message, void *info) {
    (void)connection, (void)info;
    if (dbus_message_is_signal(message, DBUS_INTERFACE_LOCAL, "Disconnected")) disconnects++;
    if (dbus_message_is_error(message, DBUS_ERROR_NO_REPLY)) unmatched++;
    if (dbus_message_is_signal(message, "org.example.Test", "Ticked")) signals++;
    return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
}

static DBusConnection *connect_to_bus(void) {
    DBusConnection *connection = dbus_connection_open_private(address, NULL);
    ck_assert_ptr_nonnull(connection);
    ck_assert(dbus_bus_register(connection, NULL));
    dbus_connection_set_exit_on_disconnect(connection, FALSE);
    dbus_connection_add_filter(connection, filter, NULL, NULL);
    return connection;
}

static void begin(void) {
    char *socket = peer_path("bus"), *argument;
    ck_assert_int_gt(asprintf(&argument, "--address=unix:path=%s", socket), 0);
    server = peer_start("unix:path", (const char *[]){"dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1", argument, NULL});
    free(argument);
    address = server.line;
    address[strcspn(address, "\n")] = 0;
}

static void close_connection(DBusConnection *connection) {
    dbus_connection_close(connection);
    dbus_connection_unref(connection);
}

/* The service: Add gives the number plus one, Ignore gives no answer, Flood sends signals. */
static DBusHandlerResult serve(DBusConnection *connection, DBusMessage *message, void *info) {
    dbus_int32_t number = 0;
    (void)info;
    if (dbus_message_is_method_call(message, "org.example.Test", "Ignore")) return DBUS_HANDLER_RESULT_HANDLED;
    if (!dbus_message_is_method_call(message, "org.example.Test", "Add")) return DBUS_HANDLER_RESULT_NOT_YET_HANDLED;
    dbus_message_get_args(message, NULL, DBUS_TYPE_INT32, &number, DBUS_TYPE_INVALID);
    number++;
    served++;
    DBusMessage *answer = dbus_message_new_method_return(message);
    dbus_message_append_args(answer, DBUS_TYPE_INT32, &number, DBUS_TYPE_INVALID);
    dbus_connection_send(connection, answer, NULL);
    dbus_message_unref(answer);
    return DBUS_HANDLER_RESULT_HANDLED;
}

static DBusConnection *start_service(RLDBusRef *place) {
    static const DBusObjectPathVTable table = {.message_function = serve};
    DBusConnection *connection = connect_to_bus();
    ck_assert_int_eq(dbus_bus_request_name(connection, "org.example.Test", 0, NULL), DBUS_REQUEST_NAME_REPLY_PRIMARY_OWNER);
    ck_assert(dbus_connection_register_object_path(connection, "/test", &table, NULL));
    *place = RLDBusAttach(connection, RLGetCurrent(), kRLDefaultMode);
    ck_assert_ptr_nonnull(*place);
    return connection;
}

static void answered(DBusPendingCall *call, void *info) {
    DBusMessage *answer = dbus_pending_call_steal_reply(call);
    dbus_int32_t number = -1;
    if (dbus_message_get_type(answer) == DBUS_MESSAGE_TYPE_ERROR) {
        errors++;
    } else {
        dbus_message_get_args(answer, NULL, DBUS_TYPE_INT32, &number, DBUS_TYPE_INVALID);
        ck_assert_int_eq(number, (long)info + 1);
        answers++;
    }
    dbus_message_unref(answer);
}

static void call(DBusConnection *connection, const char *method, long number, int limit, DBusPendingCallNotifyFunction function) {
    DBusPendingCall *pending;
    dbus_int32_t argument = (dbus_int32_t)number;
    DBusMessage *message = dbus_message_new_method_call("org.example.Test", "/test", "org.example.Test", method);
    dbus_message_append_args(message, DBUS_TYPE_INT32, &argument, DBUS_TYPE_INVALID);
    ck_assert(dbus_connection_send_with_reply(connection, message, &pending, limit));
    ck_assert_ptr_nonnull(pending);
    dbus_pending_call_set_notify(pending, function, (void *)number, NULL);
    dbus_pending_call_unref(pending);
    dbus_message_unref(message);
}

static void send_signal(DBusConnection *connection) {
    DBusMessage *message = dbus_message_new_signal("/test", "org.example.Test", "Ticked");
    dbus_connection_send(connection, message, NULL);
    dbus_message_unref(message);
}

RL_TEST(a_method_is_served_and_called, "S-ADP-2 S-ADP-3",
        "Thousands of calls of one connection are served by another of the same loop, signals are heard; detached, nothing is in the loop") {
    RLDBusRef service, client;
    begin();
    DBusConnection *server_side = start_service(&service), *client_side = connect_to_bus();
    dbus_bus_add_match(client_side, "interface='org.example.Test'", NULL);
    client = RLDBusAttach(client_side, RLGetCurrent(), kRLDefaultMode);
    for (long number = 0; number < CALLS; number++) call(client_side, "Add", number, 60000, answered);
    for (int number = 0; number < 100; number++) send_signal(server_side);
    run_until(&answers, CALLS);
    run_until(&signals, 100);
    ck_assert_int_eq(served, CALLS);
    ck_assert_int_eq(errors, 0);
    expect_idle();
    RLDBusDetach(client), RLDBusDetach(service);
    close_connection(client_side), close_connection(server_side);
    expect_run(kRLDefaultMode, 0.01, false, TimedOut); /* expect_idle keeps the mode alive */
}

RL_TEST(limits_are_kept, "S-ADP-5", "A call that is never answered ends with an error at its limit") {
    RLDBusRef service, client;
    begin();
    DBusConnection *server_side = start_service(&service), *client_side = connect_to_bus();
    client = RLDBusAttach(client_side, RLGetCurrent(), kRLDefaultMode);
    for (long number = 0; number < 20; number++) call(client_side, "Ignore", number, 20 + (int)number, answered);
    call(client_side, "Add", 1, 60000, answered);
    run_until(&errors, 20);
    ck_assert_int_eq(answers, 1);
    RLDBusDetach(client), RLDBusDetach(service);
    close_connection(client_side), close_connection(server_side);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(a_bus_that_dies_is_told_once, "S-ADP-4", 
        "When the bus is killed libdbus makes an error for each open call and tells each connection of the end, all of it once") {
    RLDBusRef service, client;
    begin();
    DBusConnection *server_side = start_service(&service), *client_side = connect_to_bus();
    client = RLDBusAttach(client_side, RLGetCurrent(), kRLDefaultMode);
    for (long number = 0; number < 20; number++) call(client_side, "Ignore", number, 60000, answered);
    call(client_side, "Add", 1, 60000, answered);
    run_until(&answers, 1);
    peer_kill(&server);
    run_until(&disconnects, 2);
    expect_idle();
    /* libdbus 1.14 forgets the calls first, so that their errors come to filters. */
    ck_assert_int_eq(errors + unmatched, 20);
    ck_assert_int_eq(disconnects, 2);
    RLDBusDetach(client), RLDBusDetach(service);
    dbus_connection_unref(client_side), dbus_connection_unref(server_side);
}

RL_TEST(a_flood_leaves_turns_to_others, "S-ADP-6", "Each pass dispatches one message, however many have come") {
    RLDBusRef service, client;
    begin();
    DBusConnection *server_side = start_service(&service), *client_side = connect_to_bus();
    dbus_bus_add_match(client_side, "interface='org.example.Test'", NULL);
    client = RLDBusAttach(client_side, RLGetCurrent(), kRLDefaultMode);
    const long *passes = count_passes(kRLDefaultMode);
    for (int number = 0; number < FLOOD; number++) send_signal(server_side);
    run_until(&signals, FLOOD);
    ck_assert_int_ge(*passes, FLOOD);
    RLDBusDetach(client), RLDBusDetach(service);
    close_connection(client_side), close_connection(server_side);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static DBusConnection *caller;

static void run_inside(DBusPendingCall *pending, void *info) {
    int before = answers;
    const long *passes = count_passes(kRLDefaultMode);
    call(caller, "Add", 5, 60000, answered);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    ck_assert_int_eq(answers, before);
    ck_assert_int_lt(*passes, 100);
    answered(pending, info);
}

RL_TEST(a_handler_runs_the_loop, "S-ADP-8", "In a run that a handler makes its connection dispatches nothing, and the loop waits; then all is dispatched") {
    RLDBusRef service, client;
    begin();
    DBusConnection *server_side = start_service(&service);
    caller = connect_to_bus();
    client = RLDBusAttach(caller, RLGetCurrent(), kRLDefaultMode);
    call(caller, "Add", 1, 60000, run_inside);
    call(caller, "Add", 2, 60000, answered);
    run_until(&answers, 3);
    RLDBusDetach(client), RLDBusDetach(service);
    close_connection(caller), close_connection(server_side);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static RLDBusRef to_detach;

static void move_and_run(DBusPendingCall *pending, void *info) {
    int before = answers;
    RLDBusDetach(to_detach);
    to_detach = RLDBusAttach(caller, RLGetCurrent(), "modal");
    ck_assert_ptr_nonnull(to_detach);
    keep_alive(RLGetCurrent(), "modal");
    expect_run("modal", 0.1, false, TimedOut);
    ck_assert_int_eq(answers, before);
    answered(pending, info);
}

RL_TEST(a_handler_moves_its_connection, "S-ADP-7 S-ADP-8", "A handler moves its connection to another mode and runs that; what comes is dispatched there, later") {
    RLDBusRef service;
    begin();
    DBusConnection *server_side = start_service(&service);
    caller = connect_to_bus();
    to_detach = RLDBusAttach(caller, RLGetCurrent(), kRLDefaultMode);
    call(caller, "Add", 1, 60000, move_and_run);
    call(caller, "Add", 2, 60000, answered);
    while (answers < 2) {
        RLRunInMode(kRLDefaultMode, 0.01, false);
        RLRunInMode("modal", 0.01, false);
    }
    RLDBusDetach(to_detach), RLDBusDetach(service);
    close_connection(caller), close_connection(server_side);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void detach(DBusPendingCall *pending, void *info) {
    answered(pending, info);
    RLDBusDetach(to_detach);
}

RL_TEST(a_handler_detaches, "S-ADP-7", "A handler takes its connection out of the loop: nothing more is dispatched") {
    RLDBusRef service;
    begin();
    DBusConnection *server_side = start_service(&service), *client_side = connect_to_bus();
    to_detach = RLDBusAttach(client_side, RLGetCurrent(), kRLDefaultMode);
    call(client_side, "Add", 1, 60000, detach);
    for (long number = 0; number < 10; number++) call(client_side, "Add", number, 60000, answered);
    run_until(&served, 11);
    expect_run(kRLDefaultMode, 0.05, false, TimedOut);
    ck_assert_int_eq(answers, 1);
    RLDBusDetach(service);
    expect_run(kRLDefaultMode, 0, false, Finished);
    close_connection(client_side), close_connection(server_side);
}

static void send_from_thread(void *connection) {
    for (int number = 0; number < CALLS; number++) send_signal(connection);
}

RL_TEST(another_thread_sends, "S-ADP-2", "What another thread sends over a connection of a waiting loop goes out at once") {
    RLDBusRef service, client;
    begin();
    dbus_threads_init_default();
    DBusConnection *server_side = start_service(&service), *client_side = connect_to_bus();
    dbus_bus_add_match(client_side, "interface='org.example.Test'", NULL);
    client = RLDBusAttach(client_side, RLGetCurrent(), kRLDefaultMode);
    Thread *thread = when_waiting(RLGetCurrent(), send_from_thread, server_side);
    run_until(&signals, CALLS);
    thread_join(thread);
    RLDBusDetach(client), RLDBusDetach(service);
    close_connection(client_side), close_connection(server_side);
}

/* Another thread comes in before a call of the adapter that works on the descriptor. */
static void (*before_working)(void);

static void come_in(void) {
    void (*function)(void) = before_working;
    before_working = NULL;
    if (function) function();
}

dbus_bool_t dbus_watch_handle(DBusWatch *watch, unsigned flags) {
    come_in();
    return ((dbus_bool_t (*)(DBusWatch *, unsigned))dlsym(RTLD_NEXT, "dbus_watch_handle"))(watch, flags);
}

dbus_bool_t dbus_connection_read_write(DBusConnection *connection, int limit) {
    come_in();
    return ((dbus_bool_t (*)(DBusConnection *, int))dlsym(RTLD_NEXT, "dbus_connection_read_write"))(connection, limit);
}

static DBusConnection *shared;

/* Calls and waits: it reads, and libdbus frees its watches. */
static void *call_nobody(void *info) {
    DBusMessage *message = dbus_message_new_method_call(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS, DBUS_INTERFACE_DBUS, "GetId");
    ck_assert_ptr_null(dbus_connection_send_with_reply_and_block(shared, message, 20000, NULL));
    ck_assert(!dbus_connection_get_is_connected(shared));
    dbus_message_unref(message);
    /* What lay there is overwritten. */
    for (int size = 16; size <= 256; size += 16)
        for (int count = 0; count < 20; count++) memset(malloc((size_t)size), 0xa5, (size_t)size);
    return info;
}

static void call_elsewhere(void) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, call_nobody, NULL), 0);
    pthread_join(thread, NULL);
}

RL_TEST(another_thread_meets_the_end_first, "S-ADP-2 S-ADP-4",
        "When the bus dies and a thread that waits for an answer notices it just before the loop's thread, the loop's thread touches nothing that is gone, and the end is told once") {
    begin();
    dbus_threads_init_default();
    shared = connect_to_bus();
    RLDBusRef place = RLDBusAttach(shared, RLGetCurrent(), kRLDefaultMode);
    expect_idle();
    peer_kill(&server);
    before_working = call_elsewhere;
    run_until(&disconnects, 1);
    ck_assert(!before_working);
    expect_idle();
    ck_assert_int_eq(disconnects, 1);
    RLDBusDetach(place);
    dbus_connection_unref(shared);
}

/* What libdbus calls without its lock, with what it has read under it: the attached place's status function. */
static DBusDispatchStatusFunction status_function;
static void *status_info;

void dbus_connection_set_dispatch_status_function(DBusConnection *connection, DBusDispatchStatusFunction function, void *info,
                                                  DBusFreeFunction release) {
    if (function) status_function = function, status_info = info;
    ((void (*)(DBusConnection *, DBusDispatchStatusFunction, void *, DBusFreeFunction))dlsym(
        RTLD_NEXT, "dbus_connection_set_dispatch_status_function"))(connection, function, info, release);
}

RL_TEST(detached_while_another_thread_calls, "S-ADP-2 S-ADP-3",
        "No function of the adapter that libdbus may call without its lock in another thread has something that Detach frees") {
    begin();
    DBusConnection *connection = connect_to_bus();
    RLDBusRef place = RLDBusAttach(connection, RLGetCurrent(), kRLDefaultMode);
    RLDBusDetach(place);
    /* As a thread that blocks for an answer and has read it before, and that is called on only now. */
    if (status_function) status_function(connection, DBUS_DISPATCH_DATA_REMAINS, status_info);
    close_connection(connection);
    ck_assert(!status_function || status_info != place);
}

static void *ask_and_wait(void *info) {
    DBusMessage *message = dbus_message_new_method_call(DBUS_SERVICE_DBUS, DBUS_PATH_DBUS, DBUS_INTERFACE_DBUS, "GetId");
    for (int number = 0; number < 200; number++) {
        send_signal(shared);
        DBusMessage *answer = dbus_connection_send_with_reply_and_block(shared, message, 20000, NULL);
        if (answer) dbus_message_unref(answer);
    }
    dbus_message_unref(message);
    return info;
}

RL_TEST(another_thread_reads, "S-ADP-2", "What a thread reads that waits for its answer is dispatched by the loop, though the loop has not read it") {
    begin();
    dbus_threads_init_default();
    shared = connect_to_bus();
    dbus_bus_add_match(shared, "interface='org.example.Test'", NULL);
    RLDBusRef place = RLDBusAttach(shared, RLGetCurrent(), kRLDefaultMode);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_and_wait, NULL), 0);
    run_until(&signals, 200);
    pthread_join(thread, NULL);
    RLDBusDetach(place);
    close_connection(shared);
}

/* The child has a copy of the connection, over the same socket. */
static void close_in_child(void *place) {
    DBusConnection *connection = dbus_connection_ref(((RLDBusRef)place)->connection);
    RLDBusDetach(place);
    close_connection(connection);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(the_child_of_fork_detaches, "S-ADP-9", "The child of fork detaches and closes a connection with an open call: the parent gets its answers") {
    RLDBusRef service, client;
    begin();
    DBusConnection *server_side = start_service(&service), *client_side = connect_to_bus();
    RLDBusDetach(service);
    client = RLDBusAttach(client_side, RLGetCurrent(), kRLDefaultMode);
    call(client_side, "Add", 0, 60000, answered);
    RLRunInMode(kRLDefaultMode, 0, false);
    ChildResult child = run_child(close_in_child, client);
    ck_assert_str_eq(child.output, "");
    ck_assert_int_eq(child.status, 0);
    service = RLDBusAttach(server_side, RLGetCurrent(), kRLDefaultMode);
    for (long number = 1; number < 100; number++) call(client_side, "Add", number, 60000, answered);
    run_until(&answers, 100);
    ck_assert_int_eq(errors + disconnects, 0);
    RLDBusDetach(client), RLDBusDetach(service);
    close_connection(client_side), close_connection(server_side);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(a_host_uses_the_connection, "S-ADP-10",
        "Code of a foreign run's host attaches a connection with a call under way, and makes a call that ends at its limit") {
    RLDBusRef service, client;
    begin();
    DBusConnection *server_side = start_service(&service), *client_side = connect_to_bus();
    host_begin();
    call(client_side, "Add", 1, 60000, answered);
    client = RLDBusAttach(client_side, RLGetCurrent(), kRLDefaultMode);
    host_until(&answers, 1);
    call(client_side, "Ignore", 1, 20, answered);
    host_until(&errors, 1);
    host_end();
    RLDBusDetach(client), RLDBusDetach(service);
    close_connection(client_side), close_connection(server_side);
}

RL_TEST(bad_arguments_are_refused, "S-ADP-1", "No connection, no loop, no mode, or a connection that is attached: no adapter, and nothing has changed") {
    begin();
    DBusConnection *connection = connect_to_bus();
    ck_assert_ptr_null(RLDBusAttach(NULL, RLGetCurrent(), kRLDefaultMode));
    ck_assert_ptr_null(RLDBusAttach(connection, NULL, kRLDefaultMode));
    ck_assert_ptr_null(RLDBusAttach(connection, RLGetCurrent(), NULL));
    RLDBusRef first = RLDBusAttach(connection, RLGetCurrent(), kRLDefaultMode);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(RLDBusAttach(connection, RLGetCurrent(), kRLDefaultMode));
    RLDBusDetach(first);
    expect_run(kRLDefaultMode, 0, false, Finished);
    first = RLDBusAttach(connection, RLGetCurrent(), kRLDefaultMode);
    ck_assert_ptr_nonnull(first);
    RLDBusDetach(first);
    RLDBusDetach(NULL);
    close_connection(connection);
    expect_run(kRLDefaultMode, 0, false, Finished);
}
