/* SPDX-License-Identifier: MIT */
/* Over libevent's events, without its buffers. */
#include "server.h"

#include <event2/event.h>

static struct event_base *base;

static void echo(evutil_socket_t connection, short events, void *event) {
    (void)events;
    if (server_echo(connection)) return;
    event_free(*(struct event **)event);
    free(event);
    close(connection);
}

static void take(evutil_socket_t listener, short events, void *info) {
    (void)events, (void)info;
    int connection = server_accept(listener);
    if (connection < 0) return;
    struct event **event = malloc(sizeof *event);
    *event = event_new(base, connection, EV_READ | EV_PERSIST, echo, event);
    event_add(*event, NULL);
}

int main(int count, char **arguments) {
    base = event_base_new();
    event_add(event_new(base, server_listen(count, arguments), EV_READ | EV_PERSIST, take, NULL), NULL);
    return event_base_dispatch(base);
}
