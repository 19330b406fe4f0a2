/* SPDX-License-Identifier: MIT */
/* Section 40: libpq on a run loop, with PostgreSQL, run as a user without privileges. */
#define _GNU_SOURCE
#include "peer.h"

#include <runloop/adapters/libpq.h>

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct Client {
    PGconn *connection;
    RLPostgresRef place;
    int connects, results, errors, ends, notes, losses, copies;
    long sum;
    void (*then)(struct Client *client); /* in a result's callback */
} Client;

static Peer server;
static char options[256];

static void begin(void) {
    const char *cluster = getenv("RL_CLUSTER");
    if (!cluster) ck_abort_msg("with_cluster runs this program");
    char *folder = peer_path("server");
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    ck_assert_int_eq(chmod(peer_path(""), 0755), 0);
    server = peer_start("ready to accept connections", (const char *[]){RL_POSTGRES, "run", cluster, folder, NULL});
    snprintf(options, sizeof options, "host=%s dbname=postgres user=postgres", folder);
}

static void connected(PGconn *connection, void *info) {
    Client *client = info;
    ck_assert_ptr_eq(connection, client->connection);
    client->connects++;
}

static void result(PGconn *connection, PGresult *result, void *info) {
    Client *client = info;
    if (!result) {
        client->ends++;
    } else if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK) {
        client->results++;
        for (int row = 0; row < PQntuples(result); row++) client->sum += atol(PQgetvalue(result, row, 0));
    } else if (PQresultStatus(result) == PGRES_COPY_OUT) {
        char *line;
        while (PQgetCopyData(connection, &line, 1) > 0) {
            client->copies++;
            client->sum += atol(line);
            PQfreemem(line);
        }
    } else {
        client->errors++;
    }
    PQclear(result);
    if (client->then) client->then(client);
}

static void notified(PGconn *connection, PGnotify *notification, void *info) {
    Client *client = info;
    (void)connection;
    ck_assert_str_eq(notification->relname, "news");
    ck_assert_int_eq(atoi(notification->extra), client->notes);
    client->notes++;
}

static void lost(PGconn *connection, void *info) {
    Client *client = info;
    ck_assert_ptr_eq(connection, client->connection);
    ck_assert_str_ne(PQerrorMessage(connection), "");
    client->losses++;
}

static const RLPostgresCallbacks callbacks = {connected, result, notified, lost};

static void attach(Client *client, const char *where, double limit) {
    client->connection = PQconnectStart(where);
    client->place = RLPostgresAttach(client->connection, RLGetCurrent(), kRLDefaultMode, limit, &callbacks, client);
    ck_assert_ptr_nonnull(client->place);
}

static void start(Client *client) {
    attach(client, options, 30);
    run_until(&client->connects, 1);
}

static void query(Client *client, const char *text) {
    ck_assert_int_eq(PQsendQuery(client->connection, text), 1);
    RLPostgresSent(client->place);
}

static void end(Client *client) {
    RLPostgresDetach(client->place);
    PQfinish(client->connection);
}

RL_TEST(queries_are_answered, "S-ADP-2 S-ADP-3", "Queries of several connections, small and large both ways, are answered; idle connections cost no pass") {
    Client clients[5] = {{.connects = 0}};
    size_t length = 3000000;
    char *large = malloc(length + 100);
    begin();
    for (int i = 0; i < 5; i++) attach(&clients[i], options, 30);
    for (int i = 0; i < 5; i++) run_until(&clients[i].connects, 1);
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < 5; i++) query(&clients[i], "SELECT generate_series(1, 1000)");
        for (int i = 0; i < 5; i++) run_until(&clients[i].ends, round);
    }
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(clients[i].results, 20);
        ck_assert_int_eq(clients[i].sum, 20 * 500500);
    }
    /* More than the kernel takes at once. */
    strcpy(large, "SELECT length('");
    memset(large + strlen("SELECT length('"), 'x', length);
    strcpy(large + strlen("SELECT length('") + length, "'); SELECT 1");
    clients[0].sum = 0;
    query(&clients[0], large);
    run_until(&clients[0].ends, 21);
    ck_assert_int_eq(clients[0].sum, (long)length + 1);
    expect_idle();
    for (int i = 0; i < 5; i++) end(&clients[i]);
    free(large);
}

RL_TEST(notifications_come_by_themselves, "S-ADP-2", "A connection that listens hears each notification, in order, without a query of its own") {
    Client listener = {.connects = 0}, speaker = {.connects = 0};
    begin();
    start(&listener), start(&speaker);
    query(&listener, "LISTEN news");
    run_until(&listener.ends, 1);
    for (int i = 0; i < 50; i++) {
        char text[64];
        snprintf(text, sizeof text, "NOTIFY news, '%d'", i);
        query(&speaker, text);
        run_until(&speaker.ends, i + 1);
    }
    run_until(&listener.notes, 50);
    ck_assert_int_eq(listener.ends, 1);
    end(&listener), end(&speaker);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(notifications_that_PQexec_reads, "S-ADP-2", "A notification that comes with the answer of a PQexec is told in the next run, which waits afterwards") {
    Client client = {.connects = 0};
    begin();
    start(&client);
    PQclear(PQexec(client.connection, "LISTEN news"));
    PQclear(PQexec(client.connection, "NOTIFY news, '0'"));
    RLPostgresSent(client.place);
    run_until(&client.notes, 1);
    ck_assert_int_eq(client.results + client.ends, 0);
    expect_idle();
    end(&client);
}

RL_TEST(a_pipeline_is_answered, "S-ADP-2", "The queries of a pipeline are answered in order, each with its end") {
    Client client = {.connects = 0};
    begin();
    start(&client);
    ck_assert_int_eq(PQenterPipelineMode(client.connection), 1);
    for (int i = 1; i <= 100; i++) {
        char text[32];
        snprintf(text, sizeof text, "SELECT %d", i);
        ck_assert_int_eq(PQsendQueryParams(client.connection, text, 0, NULL, NULL, NULL, NULL, 0), 1);
    }
    ck_assert_int_eq(PQpipelineSync(client.connection), 1);
    RLPostgresSent(client.place);
    run_until(&client.results, 100);
    ck_assert_int_eq(client.sum, 5050);
    run_until(&client.ends, 100);
    end(&client);
}

RL_TEST(a_copy_has_an_end, "S-ADP-2", "The lines of a COPY come, then its result and the results behind it, also where all of it arrives at once") {
    Client client = {.connects = 0};
    begin();
    start(&client);
    query(&client, "COPY (SELECT generate_series(1, 3)) TO STDOUT");
    run_until(&client.ends, 1);
    ck_assert_int_eq(client.copies, 3);
    query(&client, "COPY (SELECT 1 WHERE false) TO STDOUT; COPY (SELECT 10) TO STDOUT; SELECT 100");
    run_until(&client.ends, 2);
    ck_assert_int_eq(client.sum, 6 + 10 + 100);
    query(&client, "COPY (SELECT 1 FROM generate_series(1, 300000)) TO STDOUT");
    run_until(&client.ends, 3);
    ck_assert_int_eq(client.copies, 3 + 1 + 300000);
    ck_assert_int_eq(client.results, 1 + 3 + 1);
    ck_assert_int_eq(client.errors, 0);
    query(&client, "COPY (SELECT 1 / (5 - n) FROM generate_series(1, 10) n) TO STDOUT");
    run_until(&client.ends, 4);
    ck_assert_int_eq(client.errors, 1);
    expect_idle();
    end(&client);
}

RL_TEST(what_came_before_is_told, "S-ADP-2", "A connection that is attached with results and notifications in libpq's memory tells them without waiting for more") {
    Client client = {.connects = 0};
    begin();
    client.connection = PQconnectdb(options);
    PQclear(PQexec(client.connection, "LISTEN news"));
    PQclear(PQexec(client.connection, "NOTIFY news, '0'"));
    ck_assert_int_eq(PQsendQuery(client.connection, "SELECT 5"), 1);
    while (PQisBusy(client.connection)) ck_assert_int_eq(PQconsumeInput(client.connection), 1);
    client.place = RLPostgresAttach(client.connection, RLGetCurrent(), kRLDefaultMode, 0, &callbacks, &client);
    run_until(&client.ends, 1);
    run_until(&client.notes, 1);
    ck_assert_int_eq(client.sum, 5);
    ck_assert_int_eq(client.connects, 0);
    expect_idle();
    end(&client);
}

RL_TEST(a_server_that_dies_is_told_once, "S-ADP-4", "When the server is killed the open query gets an error, then lost is called, once; nothing is left in the loop") {
    Client busy = {.connects = 0}, idle = {.connects = 0};
    begin();
    start(&busy), start(&idle);
    query(&busy, "SELECT pg_sleep(1000)");
    RLRunInMode(kRLDefaultMode, 0, false);
    peer_kill(&server);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(busy.errors, 1);
    ck_assert_int_eq(busy.losses, 1);
    ck_assert_int_eq(idle.losses, 1);
    PQfinish(busy.connection), PQfinish(idle.connection);
    /* And then there is no server. */
    Client late = {.connection = PQconnectStart(options)};
    late.place = RLPostgresAttach(late.connection, RLGetCurrent(), kRLDefaultMode, 30, &callbacks, &late);
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(late.losses, late.place ? 1 : 0);
    PQfinish(late.connection);
}

/* A socket that listens, and how libpq connects to it. */
static int listen_locally(char *where, size_t length) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&address, &size);
    snprintf(where, length, "host=127.0.0.1 port=%d user=nobody sslmode=disable gssencmode=disable", ntohs(address.sin_port));
    return listener;
}

RL_TEST(a_silent_server_is_given_up, "S-ADP-5", "A server that accepts and says nothing is given up after the limit") {
    char where[128];
    int listener = listen_locally(where, sizeof where);
    Client client = {.connects = 0};
    client.connection = PQconnectStart(where);
    client.place = RLPostgresAttach(client.connection, RLGetCurrent(), kRLDefaultMode, 0.1, &callbacks, &client);
    while (client.losses == 0) {
        /* The message of a limit is the program's: libpq has none. */
        RLRunResult result = RLRunInMode(kRLDefaultMode, 60, false);
        ck_assert_int_eq(result, kRLRunFinished);
    }
    ck_assert_int_eq(client.losses, 1);
    PQfinish(client.connection);
    close(listener);
}

RL_TEST(another_host_is_tried, "S-ADP-4", "Where the first of two hosts refuses, the second is connected, by another socket with the same number") {
    Client client = {.connects = 0};
    char where[512];
    begin();
    snprintf(where, sizeof where, "host=127.0.0.1,%s port=1,5432 dbname=postgres user=postgres", peer_path("server"));
    attach(&client, where, 30);
    run_until(&client.connects, 1);
    query(&client, "SELECT 5");
    run_until(&client.ends, 1);
    ck_assert_int_eq(client.sum, 5);
    end(&client);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(a_flood_leaves_turns_to_others, "S-ADP-6", "Of a large answer each pass reads a portion, so that other items have their turns") {
    Client client = {.connects = 0};
    begin();
    start(&client);
    const long *passes = count_passes(kRLDefaultMode);
    query(&client, "SELECT repeat('1', 1000) FROM generate_series(1, 20000)");
    PQsetSingleRowMode(client.connection);
    run_until(&client.ends, 1);
    ck_assert_int_ge(*passes, 20);
    end(&client);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void run_inside(Client *client) {
    client->then = NULL;
    query(client, "SELECT 3");
    run_until(&client->ends, 2);
    ck_assert_int_eq(client->sum, 2 + 3);
}

static void at_the_end_run_inside(Client *client) {
    if (client->ends == 1) run_inside(client);
}

RL_TEST(a_callback_runs_the_loop, "S-ADP-8", "A result's callback sends another query and runs the loop until that is answered") {
    Client client = {.connects = 0, .then = at_the_end_run_inside};
    begin();
    start(&client);
    query(&client, "SELECT 2");
    run_until(&client.ends, 2);
    end(&client);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void at_the_rows_move(Client *client) {
    if (client->results != 1 || client->ends > 0) return;
    RLPostgresDetach(client->place);
    client->place = RLPostgresAttach(client->connection, RLGetCurrent(), kRLDefaultMode, 0, &callbacks, client);
    ck_assert_ptr_nonnull(client->place);
}

RL_TEST(a_callback_detaches_and_attaches, "S-ADP-7 S-ADP-8", "A connection that a callback of a query's rows detaches and attaches again tells the end of that query") {
    Client client = {.connects = 0, .then = at_the_rows_move};
    begin();
    start(&client);
    query(&client, "SELECT 2");
    run_until(&client.ends, 1);
    end(&client);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static int notices;

static void run_at_notice(void *info, const char *text) {
    Client *client = info;
    int results = client->results;
    (void)text;
    notices++;
    const long *passes = count_passes(kRLDefaultMode);
    expect_run(kRLDefaultMode, 0.1, false, TimedOut);
    ck_assert_int_lt(*passes, 100);
    ck_assert_int_eq(client->results, results);
}

RL_TEST(a_notice_runs_the_loop, "S-ADP-8",
        "In a run that libpq's notice processor makes its connection reads nothing, and the loop waits; then each notice and each result has come, once") {
    Client client = {.connects = 0};
    begin();
    start(&client);
    PQsetNoticeProcessor(client.connection, run_at_notice, &client);
    query(&client, "DO $$ BEGIN RAISE NOTICE 'one'; RAISE NOTICE 'two'; END $$; SELECT 1; DO $$ BEGIN RAISE NOTICE 'three'; END $$; SELECT 2");
    run_until(&client.ends, 1);
    ck_assert_int_eq(notices, 3);
    ck_assert_int_eq(client.results, 4);
    ck_assert_int_eq(client.errors, 0);
    ck_assert_int_eq(client.sum, 3);
    expect_idle();
    end(&client);
}

static void detach_at_notice(void *info, const char *text) {
    Client *client = info;
    (void)text;
    notices++;
    RLPostgresDetach(client->place);
    /* What the adapter held to lies under other things by now, unless it still holds to it. */
    for (int count = 0; count < 100; count++) memset(malloc(sizeof *client->place), 0xa5, sizeof *client->place);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(a_notice_detaches, "S-ADP-7", "libpq's notice processor takes its connection out of the loop: nothing more is told, and the program goes on with the connection") {
    Client client = {.connects = 0};
    begin();
    start(&client);
    PQsetNoticeProcessor(client.connection, detach_at_notice, &client);
    query(&client, "DO $$ BEGIN RAISE NOTICE 'one'; END $$");
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(notices, 1);
    ck_assert_int_eq(client.results + client.ends + client.losses, 0);
    PGresult *rest = PQexec(client.connection, "SELECT 1");
    ck_assert_int_eq(PQresultStatus(rest), PGRES_TUPLES_OK);
    PQclear(rest);
    PQfinish(client.connection);
}

/* The child has a copy of everything that is attached, over the same socket: it lets go of both, without a word to the server. */
static void leave_in_child(void *info) {
    Client *client = info;
    RLPostgresDetach(client->place);
    close(PQsocket(client->connection));
    expect_run(kRLDefaultMode, 0, false, Finished);
}

RL_TEST(the_child_of_fork_detaches, "S-ADP-9", "The child of fork detaches a connection with an open query and closes its descriptor: the parent gets its answers") {
    Client client = {.connects = 0};
    begin();
    start(&client);
    query(&client, "SELECT pg_sleep(0); SELECT 3");
    ChildResult child = run_child(leave_in_child, &client);
    ck_assert_int_eq(child.status, 0);
    run_until(&client.ends, 1);
    ck_assert_int_eq(client.sum, 3);
    query(&client, "SELECT 4");
    run_until(&client.ends, 2);
    ck_assert_int_eq(client.sum, 7);
    ck_assert_int_eq(client.errors + client.losses, 0);
    end(&client);
    expect_run(kRLDefaultMode, 0, false, Finished);
}

static void detach(Client *client) {
    client->then = NULL;
    end(client);
}

RL_TEST(a_callback_ends_its_connection, "S-ADP-7", "A result's callback detaches and finishes its connection: nothing more is told, nothing is in the loop") {
    Client client = {.connects = 0, .then = detach};
    begin();
    start(&client);
    query(&client, "SELECT 1; SELECT 2; SELECT 3");
    expect_run(kRLDefaultMode, 60, false, Finished);
    ck_assert_int_eq(client.results, 1);
    ck_assert_int_eq(client.ends, 0);
    ck_assert_int_eq(client.losses, 0);
}

RL_TEST(a_host_uses_the_connection, "S-ADP-10", "Code of a foreign run's host attaches a connection and sends queries") {
    Client client = {.connects = 0};
    begin();
    host_begin();
    attach(&client, options, 30);
    host_until(&client.connects, 1);
    for (int round = 1; round <= 3; round++) {
        query(&client, "SELECT 1");
        host_until(&client.ends, round);
    }
    ck_assert_int_eq(client.results, 3);
    end(&client);
    host_end();
}

/* A server that lets everyone in and answers the first query by what is no answer; it ends no connection itself. */
static void *speak_nonsense(void *info) {
    static const char welcome[] = "R\0\0\0\010\0\0\0\0"
                                  "Z\0\0\0\005I";
    char bytes[1024];
    int fd = accept(*(int *)info, NULL, NULL);
    ck_assert_int_gt(recv(fd, bytes, sizeof bytes, 0), 0);
    send(fd, welcome, sizeof welcome - 1, MSG_NOSIGNAL);
    ck_assert_int_gt(recv(fd, bytes, sizeof bytes, 0), 0);
    memset(bytes, 0xff, sizeof bytes);
    send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
    while (recv(fd, bytes, sizeof bytes, 0) > 0) {}
    close(fd);
    return NULL;
}

RL_TEST(a_server_that_speaks_nonsense, "S-ADP-4",
        "An answer that libpq cannot understand is the query's error and the connection's end: lost is called, once; nothing is left in the loop") {
    char where[128];
    int listener = listen_locally(where, sizeof where);
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, speak_nonsense, &listener), 0);
    Client client = {.connects = 0};
    attach(&client, where, 30);
    run_until(&client.connects, 1);
    query(&client, "SELECT 1");
    expect_run(kRLDefaultMode, 30, false, Finished);
    ck_assert_int_ge(client.errors, 1);
    ck_assert_int_eq(client.losses, 1);
    PQfinish(client.connection);
    pthread_join(thread, NULL);
    close(listener);
}

RL_TEST(bad_arguments_are_refused, "S-ADP-1", "No connection, a bad one or one that is attached, no loop, no mode, no callbacks: no adapter") {
    ck_assert_ptr_null(RLPostgresAttach(NULL, RLGetCurrent(), kRLDefaultMode, 0, &callbacks, NULL));
    PGconn *bad = PQconnectStart("host=/nowhere/at/all bad=option");
    ck_assert_ptr_null(RLPostgresAttach(bad, RLGetCurrent(), kRLDefaultMode, 0, &callbacks, NULL));
    PQfinish(bad);
    PGconn *good = PQconnectStart("hostaddr=127.0.0.1 port=1");
    ck_assert_ptr_null(RLPostgresAttach(good, NULL, kRLDefaultMode, 0, &callbacks, NULL));
    ck_assert_ptr_null(RLPostgresAttach(good, RLGetCurrent(), NULL, 0, &callbacks, NULL));
    ck_assert_ptr_null(RLPostgresAttach(good, RLGetCurrent(), kRLDefaultMode, 0, NULL, NULL));
    for (int times = 0; times < 2; times++) {
        RLPostgresRef attached = RLPostgresAttach(good, RLGetCurrent(), kRLDefaultMode, 0, &callbacks, NULL);
        ck_assert_ptr_nonnull(attached);
        ck_assert_ptr_null(RLPostgresAttach(good, RLGetCurrent(), kRLDefaultMode, 0, &callbacks, NULL));
        RLPostgresDetach(attached);
    }
    PQfinish(good);
    RLPostgresDetach(NULL);
    RLPostgresSent(NULL);
}
