/* SPDX-License-Identifier: MIT */
/* Section 40: hiredis on a run loop, with redis-server. */
#define _GNU_SOURCE
#include "peer.h"

#include <runloop/adapters/hiredis.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 16, COMMANDS = 2000, MESSAGES = 500 };

static Peer server;
static char *path;
static int answers, losses, ends, errors;

static void begin(void) {
    path = peer_path("redis");
    server = peer_start("eady to accept connections", (const char *[]){"redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                                                                        "--appendonly", "no", NULL});
}

static void ended(const redisAsyncContext *context, int status) {
    (void)context;
    ends++;
    if (status != REDIS_OK) errors++;
}

static redisAsyncContext *connect_in(RLMode mode) {
    redisAsyncContext *context = redisAsyncConnectUnix(path);
    ck_assert_int_eq(RLHiredisAttach(context, RLGetCurrent(), mode), REDIS_OK);
    redisAsyncSetDisconnectCallback(context, ended);
    return context;
}

static void expect_nothing_left(void) { expect_run(kRLDefaultMode, 0, false, Finished); }

/* Counts an answer or its loss. */
static void answered(redisAsyncContext *context, void *reply, void *info) {
    (void)context, (void)info;
    if (reply) answers++;
    else losses++;
}

static void is_in_order(redisAsyncContext *context, void *reply, void *info) {
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(((redisReply *)reply)->integer, (long)info);
    answers++;
    if ((long)info == COMMANDS) redisAsyncDisconnect(context);
}

static void is_next_message(redisAsyncContext *context, void *reply, void *info) {
    redisReply *message = reply;
    int *heard = info;
    if (!message || strcmp(message->element[0]->str, "message") != 0) return;
    ck_assert_int_eq(atoi(message->element[2]->str), *heard);
    if (++*heard == MESSAGES) redisAsyncDisconnect(context);
}

static void publish(redisAsyncContext *context, void *reply, void *info) {
    int *next = info;
    if (!reply) return;
    if (*next == MESSAGES) redisAsyncDisconnect(context);
    else redisAsyncCommand(context, publish, info, "PUBLISH channel %d", (*next)++);
}

static void subscribed(redisAsyncContext *context, void *reply, void *info) {
    static int next;
    redisReply *message = reply;
    if (message && strcmp(message->element[0]->str, "subscribe") == 0) {
        redisAsyncContext *publisher = connect_in(kRLDefaultMode);
        redisAsyncCommand(publisher, publish, &next, "PING");
    }
    is_next_message(context, reply, info);
}

RL_TEST(answers_come_in_order, "S-ADP-2 S-ADP-3",
        "Thousands of commands over many connections are answered in order, a subscriber hears every message; then nothing is in the loop") {
    int heard = 0;
    begin();
    for (int client = 0; client < CLIENTS; client++) {
        redisAsyncContext *context = connect_in(kRLDefaultMode);
        for (long number = 1; number <= COMMANDS; number++)
            redisAsyncCommand(context, is_in_order, (void *)number, "INCR %d", client);
    }
    redisAsyncCommand(connect_in(kRLDefaultMode), subscribed, &heard, "SUBSCRIBE channel");
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(answers, CLIENTS * COMMANDS);
    ck_assert_int_eq(heard, MESSAGES);
    ck_assert_int_eq(ends, CLIENTS + 2);
    ck_assert_int_eq(errors, 0);
}

static redisAsyncContext *other;

static void runs_while_freed(redisAsyncContext *context, void *reply, void *info) {
    (void)context, (void)info;
    ck_assert_ptr_null(reply);
    losses++;
    /* The server answers this after the command that is lost here. */
    redisAsyncCommand(other, answered, NULL, "PING");
    run_until(&answers, 2);
}

RL_TEST(callbacks_of_redisAsyncFree_may_run_the_loop, "S-ADP-8",
        "In a run inside a callback that redisAsyncFree calls, what the server still sends to that connection is left alone") {
    begin();
    other = connect_in(kRLDefaultMode);
    redisAsyncCommand(other, answered, NULL, "PING");
    redisAsyncContext *context = connect_in(kRLDefaultMode);
    run_until(&answers, 1);
    peer_pause(&server);
    redisAsyncCommand(context, runs_while_freed, NULL, "PING");
    RLRunInMode(kRLDefaultMode, 0, false);
    peer_continue(&server);
    redisAsyncFree(context);
    ck_assert_int_eq(losses, 1);
    ck_assert_int_eq(ends, 1);
    redisAsyncDisconnect(other);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(ends, 2);
}

RL_TEST(a_server_that_dies_is_told_once, "S-ADP-4", "When the server is killed each open command gets NULL, each connection one error") {
    begin();
    redisAsyncContext *contexts[CLIENTS];
    for (int client = 0; client < CLIENTS; client++) {
        contexts[client] = connect_in(kRLDefaultMode);
        redisAsyncCommand(contexts[client], answered, NULL, "PING");
    }
    run_until(&answers, CLIENTS);
    for (int client = 0; client < CLIENTS; client++)
        for (int number = 0; number < 3; number++) redisAsyncCommand(contexts[client], answered, NULL, "BLPOP nothing 0");
    RLRunInMode(kRLDefaultMode, 0, false);
    peer_kill(&server);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(answers, CLIENTS);
    ck_assert_int_eq(losses, 3 * CLIENTS);
    ck_assert_int_eq(ends, CLIENTS);
    ck_assert_int_eq(errors, CLIENTS);
}

static void is_refused(const redisAsyncContext *context, int status) {
    (void)context;
    if (status != REDIS_OK) errors++;
}

RL_TEST(a_server_that_dies_before_it_reads, "S-ADP-4", "When the server is killed before commands are written to it, each gets NULL and the connection one error") {
    signal(SIGPIPE, SIG_IGN);
    begin();
    redisAsyncContext *context = connect_in("later"), *other = connect_in(kRLDefaultMode);
    for (int number = 0; number < 100; number++) redisAsyncCommand(context, answered, NULL, "PING");
    /* The server accepts connections in their order. */
    redisAsyncCommand(other, answered, NULL, "PING");
    run_until(&answers, 1);
    peer_kill(&server);
    expect_run(kRLDefaultMode, 60, false, Finished);
    expect_run("later", 60, false, Finished);
    ck_assert_int_eq(losses, 100);
    ck_assert_int_eq(ends, 2);
    ck_assert_int_eq(errors, 2);
}

RL_TEST(a_refused_connection_is_told, "S-ADP-4", "A port at which nothing listens: the connect callback gets an error, and the loop is empty") {
    redisAsyncContext *context = redisAsyncConnect("127.0.0.1", 1);
    ck_assert_int_eq(RLHiredisAttach(context, RLGetCurrent(), kRLDefaultMode), REDIS_OK);
    redisAsyncSetConnectCallback(context, is_refused);
    redisAsyncCommand(context, answered, NULL, "PING");
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(errors, 1);
    ck_assert_int_eq(losses, 1);
}

static void free_it(redisAsyncContext *context, void *reply, void *info) {
    answered(context, reply, info);
    redisAsyncFree(context);
}

RL_TEST(a_callback_frees_its_connection, "S-ADP-7", "redisAsyncFree in an answer's callback ends the connection; the other answers are lost, each once") {
    begin();
    redisAsyncContext *context = connect_in(kRLDefaultMode);
    redisAsyncCommand(context, free_it, NULL, "PING");
    for (int number = 0; number < 100; number++) redisAsyncCommand(context, answered, NULL, "PING");
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(answers, 1);
    ck_assert_int_eq(losses, 100);
    ck_assert_int_eq(ends, 1);
}

static void run_inside(redisAsyncContext *context, void *reply, void *info) {
    int before = answers++;
    (void)context, (void)info;
    ck_assert_ptr_nonnull(reply);
    const long *passes = count_passes(kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    ck_assert_int_eq(answers, before + 1);
    ck_assert_int_lt(*passes, 10);
}

RL_TEST(a_callback_runs_the_loop, "S-ADP-8", "In a run that a callback makes its connection has no answers, and the loop waits; then all come") {
    begin();
    redisAsyncContext *context = connect_in(kRLDefaultMode);
    redisAsyncCommand(context, run_inside, NULL, "PING");
    redisAsyncCommand(context, answered, NULL, "PING");
    /* A portion of its own, which is on its way during the nested run. */
    for (int number = 0; number < 4; number++) redisAsyncCommand(context, answered, NULL, "EVAL %s 0", "return string.rep('x', 1000000)");
    run_until(&answers, 6);
    ck_assert_int_eq(losses, 0);
    redisAsyncDisconnect(context);
    expect_nothing_left();
}

RL_TEST(a_flood_leaves_turns_to_others, "S-ADP-6", "Of tens of megabytes each pass reads one portion, so that other items have their turns") {
    begin();
    const long *passes = count_passes(kRLDefaultMode);
    redisAsyncContext *context = connect_in(kRLDefaultMode);
    for (int number = 0; number < 32; number++) redisAsyncCommand(context, answered, NULL, "EVAL %s 0", "return string.rep('x', 1000000)");
    run_until(&answers, 32);
    ck_assert_int_ge(*passes, 32 * 1000000 / 65536);
    redisAsyncDisconnect(context);
    expect_nothing_left();
}

static void give_up(Probe *self) { redisAsyncFree(self->data); }

RL_TEST(a_silent_server_is_given_up, "S-ADP-5 S-ADP-7", "A timer of the program frees a connection whose server says nothing any more") {
    begin();
    redisAsyncContext *context = connect_in(kRLDefaultMode);
    redisAsyncCommand(context, answered, NULL, "PING");
    run_until(&answers, 1);
    peer_pause(&server);
    redisAsyncCommand(context, answered, NULL, "PING");
    Probe timer = {.action = give_up, .data = context};
    add_timer(&timer, date_in(0.05), 0, kRLDefaultMode);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(losses, 1);
    ck_assert_int_eq(ends, 1);
}

RL_TEST(it_works_in_its_mode, "S-ADP-2", "Answers come in runs of the connection's mode only") {
    begin();
    redisAsyncContext *context = connect_in("own");
    redisAsyncCommand(context, answered, NULL, "PING");
    keep_alive(RLGetCurrent(), kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.05, true, TimedOut);
    ck_assert_int_eq(answers, 0);
    while (answers == 0) RLRunInMode("own", 30, true);
    redisAsyncFree(context);
    expect_run("own", 0, false, Finished);
}

RL_TEST(an_idle_connection_costs_no_pass, "S-ADP-3", "While no command is under way the loop waits") {
    begin();
    redisAsyncContext *context = connect_in(kRLDefaultMode);
    redisAsyncCommand(context, answered, NULL, "PING");
    run_until(&answers, 1);
    expect_idle();
    redisAsyncFree(context);
}

/* The child has a copy of the connection, over the same socket. */
static void free_in_child(void *context) {
    redisAsyncFree(context);
    ck_assert_int_eq(losses, 1);
    expect_nothing_left();
}

RL_TEST(the_child_of_fork_frees, "S-ADP-9", "The child of fork frees a connection with an open command: the parent gets its answers") {
    begin();
    redisAsyncContext *context = connect_in(kRLDefaultMode);
    redisAsyncCommand(context, answered, NULL, "PING");
    run_until(&answers, 1);
    redisAsyncCommand(context, answered, NULL, "PING");
    ChildResult child = run_child(free_in_child, context);
    ck_assert_str_eq(child.output, "");
    ck_assert_int_eq(child.status, 0);
    for (int number = 0; number < 100; number++) redisAsyncCommand(context, answered, NULL, "PING");
    run_until(&answers, 102);
    ck_assert_int_eq(losses, 0);
    redisAsyncDisconnect(context);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(errors, 0);
}

RL_TEST(a_host_uses_the_connection, "S-ADP-10", "Code of a foreign run's host attaches a connection, sends commands and ends it") {
    begin();
    host_begin();
    redisAsyncContext *context = connect_in(kRLDefaultMode);
    for (int round = 1; round <= 3; round++) {
        redisAsyncCommand(context, answered, NULL, "PING");
        host_until(&answers, round);
    }
    redisAsyncDisconnect(context);
    host_until(&ends, 1);
    ck_assert_int_eq(errors, 0);
    host_end();
}

RL_TEST(bad_arguments_are_refused, "S-ADP-1", "No connection, no loop, no mode, or a connection that has a loop: an error, and nothing changes") {
    begin();
    ck_assert_int_eq(RLHiredisAttach(NULL, RLGetCurrent(), kRLDefaultMode), REDIS_ERR);
    redisAsyncContext *context = redisAsyncConnectUnix(path);
    ck_assert_int_eq(RLHiredisAttach(context, NULL, kRLDefaultMode), REDIS_ERR);
    ck_assert_int_eq(RLHiredisAttach(context, RLGetCurrent(), NULL), REDIS_ERR);
    ck_assert_int_eq(RLHiredisAttach(context, RLGetCurrent(), kRLDefaultMode), REDIS_OK);
    ck_assert_int_eq(RLHiredisAttach(context, RLGetCurrent(), kRLDefaultMode), REDIS_ERR);
    redisAsyncFree(context);
    expect_nothing_left();
}
