/* SPDX-License-Identifier: MIT */
/*
 * A client of PostgreSQL by libpq: one connection listens, another one asks and notifies. The argument is what PQconnectStart takes.
 */
#include <runloop/adapters/libpq.h>

#include <stdio.h>
#include <stdlib.h>

static RLPostgresRef asker, listener;

static void query(RLPostgresRef place, PGconn *connection, const char *text) {
    PQsendQuery(connection, text);
    RLPostgresSent(place);
}

static void connected(PGconn *connection, void *name) {
    printf("%s: connected\n", (const char *)name);
    query(*(char *)name == 'l' ? listener : asker, connection, *(char *)name == 'l' ? "LISTEN news" : "SELECT 'six times seven is', 6 * 7");
}

static void answered(PGconn *connection, PGresult *result, void *name) {
    if (result && PQresultStatus(result) == PGRES_TUPLES_OK) printf("%s: %s %s\n", (const char *)name, PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1));
    /* NULL: the next query may be sent. */
    if (!result && *(char *)name == 'a') query(asker, connection, "SELECT pg_sleep(0.05), 'again'; NOTIFY news, 'hello'");
    PQclear(result);
}

static void notified(PGconn *connection, PGnotify *notification, void *name) {
    (void)connection;
    printf("%s: %s, %s\n", (const char *)name, notification->relname, notification->extra);
    RLStop(RLGetCurrent());
}

static void lost(PGconn *connection, void *name) {
    fprintf(stderr, "%s: %s", (const char *)name, PQerrorMessage(connection));
    exit(1);
}

static RLPostgresRef attach(PGconn *connection, const char *name) {
    static const RLPostgresCallbacks callbacks = {connected, answered, notified, lost};
    RLPostgresRef place = RLPostgresAttach(connection, RLGetCurrent(), kRLDefaultMode, 10, &callbacks, (void *)name);
    if (!place) lost(connection, (void *)name);
    return place;
}

int main(int count, char **arguments) {
    PGconn *connections[2] = {PQconnectStart(count > 1 ? arguments[1] : ""), PQconnectStart(count > 1 ? arguments[1] : "")};
    listener = attach(connections[0], "listener");
    asker = attach(connections[1], "asker");
    RLRun();
    RLPostgresDetach(listener), RLPostgresDetach(asker);
    for (int i = 0; i < 2; i++) PQfinish(connections[i]);
    return 0;
}
